"""The encoder of PEAR in CTranslate2, with float32 or int8 weights: opt-in, on the CPU.

The head always runs in torch in float32: it is small, and the score is a difference of two nearly equal numbers.
"""

from __future__ import annotations

import contextlib
import copy
import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from candidates.common.cache import cache_folder
from candidates.common.errors import ModelError, UsageError
from pear.model import PearNetwork

COMPUTE_TYPES = {"float32": 4, "int8": 1}  # bytes per weight


class CTranslate2Network(nn.Module):
    """Called as the `PearNetwork` it is made from: `encode` runs in CTranslate2, `score` in torch.

    `weight_bytes` is the size of its weights, those of CTranslate2 included.
    """

    def __init__(self, network: PearNetwork, tokenizer: Any, compute_type: str, threads: int = 0) -> None:
        import ctranslate2

        super().__init__()
        if compute_type not in COMPUTE_TYPES:
            raise UsageError(f"compute type {compute_type!r} is unknown; expected {' or '.join(COMPUTE_TYPES)}")
        folder = converted(network.encoder, tokenizer)
        try:
            self._encoder = ctranslate2.Encoder(str(folder), compute_type=compute_type, intra_threads=threads)
        except RuntimeError:  # a damaged cache: convert once more
            shutil.rmtree(folder)
            folder = converted(network.encoder, tokenizer)
            self._encoder = ctranslate2.Encoder(str(folder), compute_type=compute_type, intra_threads=threads)
        # Everything but the encoder, so that its weights in torch are released with the checkpoint.
        self._rest = copy.deepcopy(network, {id(network.encoder): nn.Identity()}).cpu().float()
        encoder_weights = sum(weight.numel() for weight in network.encoder.parameters())
        head_weights = sum(weight.numel() for weight in self._rest.parameters())
        self.weight_bytes = encoder_weights * COMPUTE_TYPES[compute_type] + head_weights * 4

    def encode(self, ids: Tensor, attention: Tensor) -> Tensor:
        """-> [pairs, tokens, hidden]."""
        import ctranslate2

        output = self._encoder.forward_batch(
            ctranslate2.StorageView.from_array(ids.int().numpy()),
            ctranslate2.StorageView.from_array(attention.sum(dim=1).int().numpy()),
        )
        return torch.from_numpy(np.array(output.last_hidden_state))

    def score(self, hidden: Tensor, spans: Tensor) -> Tensor:
        """Scores [pairs]."""
        return self._rest.score(hidden, spans)


def converted(encoder: Any, tokenizer: Any) -> Path:
    """The CTranslate2 folder of an encoder, converted once and kept in the user's cache.

    The folder's name is a digest of the weights, and it appears whole or not at all, so that two processes
    starting together do not see each other's half-written files.
    """
    from ctranslate2.converters import TransformersConverter

    if encoder.config.model_type not in ("xlm-roberta", "roberta", "bert", "camembert", "distilbert"):
        raise ModelError(
            f"CTranslate2 cannot run an encoder of type {encoder.config.model_type}; use the torch back-end"
        )
    # Newer transformers dropped the attribute that the converter still asks for.
    encoder.config.position_embedding_type = "absolute"
    final = cache_folder() / "ct2" / _digest(encoder)
    if final.exists():
        return final
    final.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=final.parent) as scratch:
        plain = Path(scratch, "plain")
        target = Path(scratch, "converted")
        with _silent_transformers():
            encoder.save_pretrained(plain)
            tokenizer.save_pretrained(plain)
            try:
                TransformersConverter(str(plain)).convert(str(target))
            except (ValueError, KeyError, AttributeError) as exc:
                raise ModelError(f"CTranslate2 cannot convert this encoder: {exc}; use the torch back-end") from exc
        try:
            os.rename(target, final)
        except OSError:  # another process was faster
            if not final.exists():
                raise
            shutil.rmtree(target, ignore_errors=True)
    return final


@contextlib.contextmanager
def _silent_transformers() -> Iterator[None]:
    """The converter loads the encoder as a classifier and warns at length of the classifier it then drops."""
    from transformers.utils import logging

    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity(logging.CRITICAL)
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()


def _digest(encoder: Any) -> str:
    digest = hashlib.sha256(encoder.config.to_json_string().encode())
    for name, tensor in sorted(encoder.state_dict().items()):
        digest.update(name.encode())
        digest.update(tensor.detach().cpu().float().contiguous().numpy().data)
    return digest.hexdigest()[:24]
