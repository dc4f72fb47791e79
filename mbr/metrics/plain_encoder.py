"""Encoders that have no pooler to leave out, such as DeBERTa: built by transformers, in their shape, no weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from candidates.common.errors import ModelError
from pear.runtime.encoders import load_tokenizer, make_buffers
from pear.runtime.variables import message_fields

PLAIN = ("deberta", "deberta-v2", "electra")


def plain_encoder(folder: Path, kind: str) -> Any:
    """An encoder of a type of `PLAIN`; its weights come from elsewhere (`pear.runtime.encoders.fill_weights`)."""
    from transformers import AutoConfig, AutoModel

    try:
        config = AutoConfig.from_pretrained(folder, trust_remote_code=False)
        if config.model_type != kind:
            raise ModelError(f"{folder}: an encoder of type {config.model_type}, but the checkpoint has {kind}")
        with torch.device("meta"):
            encoder = AutoModel.from_config(config, trust_remote_code=False)
        make_buffers(encoder)
        return encoder
    except (OSError, ValueError, TypeError, KeyError) as exc:
        raise ModelError(f"{folder}: cannot build the encoder from this configuration: {exc}") from exc


def load_deberta_tokenizer(folder: Path) -> Any:
    """The tokenizer of a DeBERTa; transformers 5 leaves out how its sentencepiece vocabulary normalises characters."""
    tokenizer = load_tokenizer(folder, "DebertaV2TokenizerFast")
    pieces = folder / "spm.model"
    if pieces.is_file() and "Precompiled" not in str(tokenizer.backend_tokenizer.normalizer):
        from tokenizers import Regex, normalizers

        # The normaliser is field 3 of the model, its table of characters field 2 of that.
        table = message_fields(message_fields(pieces.read_bytes())[3][0]).get(2, [b""])[0]
        steps: list[Any] = [normalizers.Lowercase()] if getattr(tokenizer, "do_lower_case", False) else []
        steps += [normalizers.Strip(), *([normalizers.Precompiled(table)] if table else [])]
        steps.append(normalizers.Replace(Regex(" {2,}"), " "))
        tokenizer.backend_tokenizer.normalizer = normalizers.Sequence(steps)
    return tokenizer
