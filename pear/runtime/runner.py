"""A network on its devices: rows of tokens through it in full batches, in any order, with memory kept in bounds.

All neural metrics run here, PEAR's engine included; what they do with a batch is their own. A runner is the only owner
of devices, replicas, batch budget, CPU threads and memory estimate.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from candidates.common.errors import UsageError
from pear.runtime.batches import ACTIVATIONS_PER_TOKEN, default_batch_tokens, run_batches
from pear.runtime.choice import PrecisionChoice
from pear.runtime.devices import keep_freed_memory, limit_threads, replicas, resolve_devices, weight_bytes
from pear.runtime.options import ModelOptions
from pear.runtime.precision import AUTO
from pear.runtime.token_store import Ints

Work = Callable[[Any, torch.device, Ints], None]


class Runner:
    """Holds the network, one replica per device. Its part `encoder` runs in `dtype`, the rest in float32.

    Args:
        network: any module; `run` hands it to the caller's `work`.
        hidden: width of the network, from which batch budget and memory are estimated.
        device: `auto`, or names as `cuda:0,cuda:1`.
        dtype: of the encoder: `float32`, `bf16`, `fp16` or `int8`; or `auto`, for the fastest that agrees with float32.
            It is float32 until the owner has `choice` decide.
        batch_tokens: padded tokens per batch; None chooses by device and width.
        threads: CPU threads of torch; 0 keeps the present number.
    """

    def __init__(
        self,
        network: nn.Module,
        *,
        hidden: int,
        device: str = "auto",
        dtype: str = "float32",
        batch_tokens: int | None = None,
        threads: int = 0,
    ) -> None:
        if batch_tokens is not None and batch_tokens < 1:
            raise UsageError(f"batch_tokens {batch_tokens} is not a positive number")
        limit_threads(threads)
        devices = resolve_devices(device)
        self.precision = "float32" if dtype == AUTO else dtype
        self.on_gpu = not all(name.startswith("cpu") for name in devices)
        if not self.on_gpu:
            keep_freed_memory()
        self.batch_tokens = batch_tokens or default_batch_tokens(hidden, on_cpu=not self.on_gpu)
        self.tokens = 0  # computed so far
        self.padding = 0  # beside them, to fill rows of a batch up to its longest
        self._counting = threading.Lock()
        self._threads = threads
        self._replicas = replicas(network, devices, self.precision)
        if batch_tokens is None and self.device.type == "cuda":
            free = min(torch.cuda.mem_get_info(device)[0] for _, device in self._replicas)
            self.batch_tokens = default_batch_tokens(hidden, on_cpu=False, free_bytes=free)
        self.choice = PrecisionChoice(self) if dtype == AUTO else None
        self._activation_bytes = hidden * ACTIVATIONS_PER_TOKEN * 4

    @property
    def network(self) -> Any:
        """The first replica, for computations too small to be spread."""
        return self._open()[0][0]

    @property
    def device(self) -> torch.device:
        """Where the first replica is."""
        return self._open()[0][1]

    def run(self, lengths: Ints, work: Work, *, order: Ints | None = None, label: str | None = None) -> None:
        """Call `work(network, device, rows)` until all rows of these lengths [rows] are done, one batch per call.

        `order` is in which order rows are taken, by default the longest first.

        `work` stores its results itself. It may be called from several threads, for different rows, and again for rows
        whose batch did not fit in memory; the budget is then smaller from that batch on. With a `label` a progress bar
        is shown.
        """
        workers = self._open()
        if not len(lengths):
            return
        if self.choice is not None:
            self.choice.release()

        def call(replica: tuple[Any, torch.device], rows: Ints) -> None:
            limit_threads(self._threads)  # here, because this may be a thread of its own
            with torch.inference_mode():
                work(*replica, rows)
            used = int(lengths[rows].sum())
            with self._counting:
                self.tokens += used
                self.padding += int(lengths[rows].max()) * len(rows) - used

        self.batch_tokens = run_batches(lengths, self.batch_tokens, workers, call, order=order, label=label)

    def memory_bytes(self) -> int:
        """Estimate of what all replicas hold at once: the weights, and the activations of one batch."""
        weights = weight_bytes(self.network) if self._replicas else 0
        return int(weights + self.batch_tokens * self._activation_bytes) * len(self._replicas)

    def use(self, network: nn.Module, dtype: str) -> None:
        """Run this network from now on, in this precision, on the same devices."""
        self._replicas = replicas(network, [str(device) for _, device in self._open()], dtype)
        self.precision = dtype

    def close(self) -> None:
        """Release the weights."""
        self._replicas = []

    def _open(self) -> list[tuple[Any, torch.device]]:
        if not self._replicas:
            raise UsageError("this model is closed; load it again to score")
        return self._replicas


def running(options: ModelOptions) -> dict[str, Any]:
    """Those options of a metric that a `Runner` takes."""
    return {key: value for key, value in options.items() if key in ("device", "dtype", "batch_tokens", "threads")}


def padded(rows: Sequence[Ints], padding: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Token ids and attention mask, both [rows, tokens], of rows of ids."""
    lengths = np.array([len(row) for row in rows])
    attention = np.arange(lengths.max()) < lengths[:, None]
    ids = np.full(attention.shape, padding, np.int64)
    ids[attention] = np.concatenate(rows)
    return on_device(ids, device), on_device(attention, device)


def on_device(array: NDArray[Any], device: torch.device) -> Tensor:
    """An array on a device; to a GPU it is copied from pinned memory, while the GPU computes the batch before."""
    tensor = torch.from_numpy(array)
    if device.type != "cuda":
        return tensor.to(device)
    computing, copying = torch.cuda.current_stream(device), _copy_stream(device)
    with torch.cuda.stream(copying):
        copied: Tensor = tensor.pin_memory().to(device, non_blocking=True)
    computing.wait_stream(copying)
    copied.record_stream(computing)  # its memory is free again only when the batch is computed
    return copied


@cache
def _copy_stream(device: torch.device) -> Any:
    return torch.cuda.Stream(device)
