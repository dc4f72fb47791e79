"""What runs the encoder: torch on any device, or (opt-in) CTranslate2 with float32 or int8 weights.

A back-end takes one laid-out batch and returns its scores; it knows nothing of texts, queues or order. The head
always runs in torch in float32: it is small, and the score is a difference of two nearly equal numbers.
"""

from __future__ import annotations

import contextlib
import copy
import ctypes
import gc
import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from candidates.common.cache import cache_folder
from candidates.common.errors import EnvironmentProblem, ModelError, ResourceError, UsageError
from pear.model import PearNetwork
from pear.serialize import Batch

DTYPES = {"float32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
COMPUTE_TYPES = ("float32", "int8")

Network = TypeVar("Network", bound=nn.Module)
Replica = TypeVar("Replica")


class Backend(Protocol):
    def score(self, batch: Batch) -> NDArray[np.float32]:
        """Scores [pairs] of one batch."""


class TorchBackend:
    """The plain path: the network as it is, on one device, in one precision."""

    def __init__(self, network: PearNetwork, device: str = "cpu", dtype: str = "float32") -> None:
        self.device = torch.device(device)
        self.network = in_place(network, device, dtype)

    def score(self, batch: Batch) -> NDArray[np.float32]:
        with torch.inference_mode():
            ids, attention, spans = (
                torch.from_numpy(array).to(self.device) for array in (batch.ids, batch.attention, batch.spans)
            )
            hidden = self.network.encode(ids, attention.long())
            scores: NDArray[np.float32] = self.network.score(hidden, spans).cpu().numpy()
        return scores


class CTranslate2Backend:
    """The encoder converted to CTranslate2, the head in torch."""

    def __init__(self, network: PearNetwork, tokenizer: Any, compute_type: str, threads: int = 0) -> None:
        import ctranslate2

        if compute_type not in COMPUTE_TYPES:
            raise UsageError(f"compute type {compute_type!r} is unknown; expected {' or '.join(COMPUTE_TYPES)}")
        folder = converted(network.encoder, tokenizer)
        try:
            self.encoder = ctranslate2.Encoder(str(folder), compute_type=compute_type, intra_threads=threads)
        except RuntimeError:  # a damaged cache: convert once more
            shutil.rmtree(folder)
            folder = converted(network.encoder, tokenizer)
            self.encoder = ctranslate2.Encoder(str(folder), compute_type=compute_type, intra_threads=threads)
        # All but the encoder, so that its weights in torch are let go with the checkpoint.
        self.network = copy.deepcopy(network, {id(network.encoder): nn.Identity()}).cpu().float().eval()

    def score(self, batch: Batch) -> NDArray[np.float32]:
        import ctranslate2

        lengths = batch.attention.sum(axis=1).astype(np.int32)
        output = self.encoder.forward_batch(
            ctranslate2.StorageView.from_array(batch.ids.astype(np.int32)),
            ctranslate2.StorageView.from_array(lengths),
        )
        hidden = torch.from_numpy(np.array(output.last_hidden_state))  # [pairs, tokens, hidden]
        with torch.inference_mode():
            scores: NDArray[np.float32] = self.network.score(hidden, torch.from_numpy(batch.spans)).numpy()
        return scores


def replicas(
    network: Network, devices: Sequence[str], dtype: str, build: Callable[[Network, str, str], Replica]
) -> list[Replica]:
    """`build(network, device, dtype)` for each device; the same one, and the same weights, for the same device."""
    if dtype not in DTYPES:
        raise UsageError(f"dtype {dtype!r} is unknown; expected one of {', '.join(DTYPES)}")
    placed: dict[str, Replica] = {}
    for device in devices:
        if device not in placed:
            replica = network if not placed else copy.deepcopy(network)
            try:
                placed[device] = build(replica, device, dtype)
            except (RuntimeError, AssertionError) as exc:
                if is_out_of_memory(exc):
                    raise ResourceError(f"the model does not fit on {device}: {exc}") from exc
                raise EnvironmentProblem(
                    f"device {device!r} cannot be used: {exc}; mbr-doctor lists the devices of this machine"
                ) from exc
    return [placed[device] for device in devices]


def in_place(network: Network, device: str, dtype: str = "float32") -> Network:
    """The network on its device, its encoder in this precision and all else in float32, ready to score."""
    network.to(device)
    for name, part in network.named_children():
        part.to(DTYPES[dtype] if name == "encoder" else torch.float32)
    network.eval()
    return network


def resolve_devices(device: str) -> list[str]:
    """`auto` is one accelerator where there is one; `cuda:0,cuda:1` names several."""
    if device != "auto":
        names = [name.strip() for name in device.split(",")]
        for name in names:
            if name.split(":")[0] not in ("cpu", "cuda", "mps"):
                raise UsageError(f"device {name!r} is unknown; expected auto, cpu, cuda, cuda:N or mps")
        return names
    if torch.cuda.is_available():
        return ["cuda"]
    return ["mps"] if torch.backends.mps.is_available() else ["cpu"]


def is_out_of_memory(error: BaseException) -> bool:
    """Torch, its CPU allocator, oneDNN, MPS, numpy and CTranslate2 each say it in their own way."""
    if isinstance(error, (MemoryError, torch.OutOfMemoryError)):
        return True
    words = (
        "out of memory",
        "not enough memory",
        "can't allocate memory",
        "bad_alloc",
        "could not create a ",
    )
    return isinstance(error, RuntimeError) and any(word in str(error) for word in words)


def release_memory() -> None:
    """Give freed memory back to the device and to the system, so that a smaller batch finds room after a failure."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    if torch.backends.mps.is_available():
        torch.mps.empty_cache()
    with contextlib.suppress(OSError, AttributeError):  # glibc keeps freed memory; other systems have no such call
        ctypes.CDLL(None).malloc_trim(0)


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
