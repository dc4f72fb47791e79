"""A network on its devices: rows of tokens through it in full batches, in any order, with memory kept in bounds.

All neural metrics run here; what they do with a batch is their own. The engine of PEAR (`pear.engine`) runs the same
queue.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from candidates.common.errors import UsageError
from pear.backends import in_place, replicas, resolve_devices
from pear.runtime.batches import ACTIVATIONS_PER_TOKEN, default_batch_tokens, run_batches
from pear.runtime.options import ModelOptions
from pear.serialize import Ints

Work = Callable[[Any, torch.device, Ints], None]


class Runner:
    """Holds the network, one replica per device. Its part `encoder` runs in `dtype`, the rest in float32."""

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
        if threads:
            torch.set_num_threads(threads)
        devices = resolve_devices(device)
        self.precision = dtype
        self.on_gpu = not all(name.startswith("cpu") for name in devices)
        self.batch_tokens = batch_tokens or default_batch_tokens(hidden, on_cpu=not self.on_gpu)
        self._replicas = replicas(network, devices, dtype, lambda *settings: (in_place(*settings), settings[1]))
        self._weight_bytes = sum(weight.numel() * weight.element_size() for weight in network.parameters())
        self._activation_bytes = hidden * ACTIVATIONS_PER_TOKEN * 4

    @property
    def network(self) -> Any:
        """The first replica, for what is too small to be spread."""
        return self._first()[0]

    @property
    def device(self) -> torch.device:
        return torch.device(self._first()[1])

    def _first(self) -> tuple[Any, str]:
        if not self._replicas:
            raise UsageError("this model is closed")
        return self._replicas[0]

    def run(self, lengths: Ints, work: Work, *, label: str | None = None) -> None:
        """Have `work(network, device, rows)` done for all rows of these lengths [rows], a batch at a time.

        `work` keeps its results itself; it may be called from several threads, for different rows, and once more for
        rows whose batch did not fit in memory. With a `label` a progress bar is shown.
        """
        self._first()
        if not len(lengths):
            return

        def call(replica: tuple[Any, str], rows: Ints) -> None:
            with torch.inference_mode():
                work(replica[0], torch.device(replica[1]), rows)

        self.batch_tokens = run_batches(lengths, self.batch_tokens, self._replicas, call, label=label)

    def memory_bytes(self) -> int:
        """Estimate: the weights, and the activations of one batch."""
        return int(self._weight_bytes + self.batch_tokens * self._activation_bytes) * len(self._replicas)

    def close(self) -> None:
        """Let go of the weights."""
        self._replicas = []


def running(options: ModelOptions) -> dict[str, Any]:
    """Of the options of a metric, those that say how it runs."""
    return {key: value for key, value in options.items() if key in ("device", "dtype", "batch_tokens", "threads")}


def padded(rows: Sequence[Ints], padding: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Token ids and attention mask, both [rows, tokens], of rows of ids."""
    lengths = np.array([len(row) for row in rows])
    attention = np.arange(lengths.max()) < lengths[:, None]
    ids = np.full(attention.shape, padding, np.int64)
    ids[attention] = np.concatenate(rows)
    return torch.from_numpy(ids).to(device), torch.from_numpy(attention).to(device)
