"""How batches come to a device. No GPU is here: of the copy beside the computing, the order of its steps is checked."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from pear.runtime import runner
from pear.runtime.runner import on_device, padded


@pytest.mark.parametrize("array", [np.arange(6).reshape(2, 3), np.array([[True, False]]), np.ones((1, 4), np.float32)])
def test_on_the_cpu_an_array_is_taken_as_it_is(array: Any) -> None:
    tensor = on_device(array, torch.device("cpu"))
    np.testing.assert_array_equal(tensor.numpy(), array)
    assert tensor.numpy().dtype == array.dtype
    assert tensor.data_ptr() == array.ctypes.data  # nothing is copied


def test_rows_are_padded_to_the_longest() -> None:
    ids, attention = padded([np.array([5, 6, 7]), np.array([8])], 1, torch.device("cpu"))
    assert ids.tolist() == [[5, 6, 7], [8, 1, 1]]
    assert attention.tolist() == [[True, True, True], [True, False, False]]


def test_a_gpu_copies_from_pinned_memory_and_computes_only_when_the_copy_is_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    steps: list[str] = []
    step = steps.append

    class Tensor:
        """Writes down what is done with it."""

        def pin_memory(self) -> Tensor:
            step("pinned")
            return self

        def to(self, device: Any, non_blocking: bool) -> Tensor:
            assert non_blocking
            step(f"copied to {device.type}")
            return self

        def record_stream(self, stream: Any) -> None:
            step(f"kept for {stream.name}")

    @contextlib.contextmanager
    def stream(of: Any) -> Iterator[None]:
        step(f"begin {of.name}")
        yield
        step(f"end {of.name}")

    computing = SimpleNamespace(name="computing", wait_stream=lambda other: step(f"waits for {other.name}"))
    copying = SimpleNamespace(name="copying")
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: computing)
    monkeypatch.setattr(torch.cuda, "stream", stream)
    monkeypatch.setattr(runner, "_copy_stream", lambda device: copying)
    monkeypatch.setattr(torch, "from_numpy", lambda array: Tensor())
    on_device(np.arange(3), torch.device("cuda"))
    assert steps == [
        "begin copying",
        "pinned",
        "copied to cuda",
        "end copying",
        "waits for copying",
        "kept for computing",
    ]
