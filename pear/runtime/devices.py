"""Where a network runs: the devices of this machine, replicas of a network on them, their memory and threads."""

from __future__ import annotations

import contextlib
import copy
import ctypes
import functools
import gc
import os
from collections.abc import Sequence
from itertools import chain
from typing import Any, TypeVar, cast

import torch
from torch import nn

from candidates.common.errors import EnvironmentProblem, ResourceError, UsageError
from candidates.common.threads import check_threads
from pear.runtime.int8 import Int8Linear, quantise
from pear.runtime.precision import DTYPES, check_precision

TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3  # parameters of glibc's mallopt

Network = TypeVar("Network", bound=nn.Module)


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


def replicas(network: Network, devices: Sequence[str], dtype: str) -> list[tuple[Network, torch.device]]:
    """The network on each device, as `in_place` puts it; a device that is named twice has it once."""
    placed: dict[str, Network] = {}
    for device in devices:
        check_precision(dtype, device)
        if device not in placed:
            replica = network if not placed else copy.deepcopy(network)
            try:
                placed[device] = in_place(replica, device, dtype)
            except (RuntimeError, AssertionError) as exc:
                if is_out_of_memory(exc):
                    raise ResourceError(
                        f"the model does not fit on {device}: {exc}; use dtype bf16, a smaller model or another device"
                    ) from exc
                raise EnvironmentProblem(
                    f"device {device!r} cannot be used: {exc}; mbr-doctor lists the devices of this machine"
                ) from exc
    return [(placed[device], torch.device(device)) for device in devices]


def in_place(network: Network, device: str, dtype: str = "float32") -> Network:
    """The network on a device, ready to score: its encoder in this precision, everything else in float32.

    In int8 are the linear layers of the encoder; what is between them stays in float32.
    """
    network.to(device)
    for name, part in network.named_children():
        part.to(DTYPES.get(dtype, torch.float32) if name == "encoder" else torch.float32)
        if name == "encoder" and dtype == "int8":
            quantise(part)
    network.eval()
    return network


def sharing_weights(network: Network) -> Network:
    """A copy with the same weights in memory, which can be brought into another precision by itself."""
    weights = {id(weight): nn.Parameter(weight.detach(), requires_grad=False) for weight in network.parameters()}
    return copy.deepcopy(network, cast(Any, weights))


def weight_bytes(network: nn.Module) -> int:
    """Memory that the weights of a network take, those in int8 included."""
    layers = (part for part in network.modules() if isinstance(part, Int8Linear))
    weights = chain(network.parameters(), chain.from_iterable(layer.buffers() for layer in layers))
    return sum(weight.numel() * weight.element_size() for weight in weights)


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error means that memory ran out: torch, its CPU allocator, oneDNN, MPS, numpy and CTranslate2 have
    different messages for it."""
    if isinstance(error, (MemoryError, torch.OutOfMemoryError)):
        return True
    messages = (
        "out of memory",
        "not enough memory",
        "can't allocate memory",
        "bad_alloc",
        "could not create a ",
    )
    return isinstance(error, RuntimeError) and any(message in str(error) for message in messages)


def release_memory() -> None:
    """Return freed memory to the device and the system, so that a smaller batch fits after a failure."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    if torch.backends.mps.is_available():
        torch.mps.empty_cache()
    with contextlib.suppress(OSError, AttributeError):  # glibc keeps freed memory; other systems have no such call
        ctypes.CDLL(None).malloc_trim(0)


@functools.cache
def keep_freed_memory() -> None:
    """Let the C library keep what a batch frees for the next one.

    It would give large blocks back to the system at once, and the system would fill each new one with zeros, page by
    page, which small encoders notice (`benchmarks.limit`). What is kept is bounded. Other C libraries go on as they
    are, and so does one whose thresholds the environment sets.
    """
    tuned = "malloc" in os.environ.get("GLIBC_TUNABLES", "")
    if tuned or any(name.startswith("MALLOC_") for name in os.environ):
        return
    with contextlib.suppress(OSError, AttributeError):
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(MMAP_THRESHOLD, 2**25)  # the largest that glibc takes
        mallopt(TRIM_THRESHOLD, 2**28)


def limit_threads(threads: int) -> None:
    """Let torch compute with this number of CPU threads; 0 keeps the present number.

    OpenMP counts threads per calling thread: call this in every thread that computes.
    """
    if threads < 0:
        raise UsageError(f"threads {threads} is negative; expected a number of CPU threads, or 0 for all")
    check_threads(threads)
    if threads and torch.get_num_threads() != threads:
        torch.set_num_threads(threads)
