"""transformers checkpoint in, CTranslate2 folder out, with everything a generator needs beside the weights.

CTranslate2's converter writes weights and vocabulary. We add the tokenizer, saved by transformers itself so that it
loads without the model's configuration, and the number of positions, which CTranslate2 does not record.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from candidates.backends.ct2_model import SIDECAR
from candidates.backends.hf_model import model_positions
from candidates.backends.models import check_reachable
from candidates.backends.tokens import all_tokens, load_transformers_tokenizer
from candidates.common.errors import ModelError, UsageError
from candidates.common.hub import quiet_hub
from candidates.common.text import check_output, disk_errors

QUANTIZATIONS = ("float32", "int8", "int8_float32", "int8_float16", "int8_bfloat16", "int16", "float16", "bfloat16")


def convert(model: str, folder: Path, *, quantization: str = "int8", force: bool = False) -> None:
    """Convert a transformers folder or hub name; `folder` appears when it is complete."""
    folder = check_output(folder, folder=True, inputs=[model])
    if folder.exists() and not force:
        raise UsageError(f"{folder} exists; give --force to replace it, or another name")
    if folder.exists() and not (folder / SIDECAR).is_file():
        raise UsageError(f"{folder} is not a converted model, so --force does not replace it; give another name")
    check_reachable(model)
    from transformers import AutoConfig

    partial = folder.with_name(f".{folder.name}.partial")
    with disk_errors(folder):
        shutil.rmtree(partial, ignore_errors=True)
        try:
            with quiet_hub():
                _converter(model).convert(str(partial), quantization=quantization)
                load_transformers_tokenizer(model).save_pretrained(partial)
                config = AutoConfig.from_pretrained(model)
        except (ValueError, RuntimeError, OSError, KeyError, AttributeError, TypeError, NotImplementedError) as exc:
            shutil.rmtree(partial, ignore_errors=True)
            if isinstance(exc, OSError) and exc.errno is not None:
                raise
            raise ModelError(
                f"{model}: cannot be converted: {exc}. Expected a sequence-to-sequence model of transformers that "
                "CTranslate2 knows; others run with --backend hf"
            ) from exc
        sidecar = {"model": model, "family": config.model_type, "positions": model_positions(config)}
        (partial / SIDECAR).write_text(json.dumps(sidecar, indent=2) + "\n", encoding="utf-8")
        if folder.exists():
            shutil.rmtree(folder)
        partial.rename(folder)


def _converter(model: str) -> Any:
    """CTranslate2's converter, with two mistakes about transformers corrected.

    transformers 5 declares every T5 as tied and has another setting for the scaling of the decoder's output; the
    converter of CTranslate2 4.8 scales all of them, which breaks MADLAD. And it looks for M2M100's language tokens
    where only some versions of its tokenizer list them.
    """
    from ctranslate2.converters import TransformersConverter
    from ctranslate2.specs.model_spec import OPTIONAL
    from transformers import AutoConfig

    class Repaired(TransformersConverter):
        def _load(self) -> Any:
            spec = super()._load()
            if getattr(AutoConfig.from_pretrained(model), "scale_decoder_outputs", True) is False:
                spec.decoder.scale_outputs = OPTIONAL
            return spec

        def load_tokenizer(self, *words: Any, **settings: Any) -> Any:
            tokenizer = super().load_tokenizer(*words, **settings)
            tokens = all_tokens(tokenizer)
            tokenizer.get_vocab = lambda: tokens
            return tokenizer

    return Repaired(model)
