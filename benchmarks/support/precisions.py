"""What benchmarks of precisions share: pairs to score, the arithmetic of an encoder, and how fast plain products are.

The limit of a precision is a product of matrices of the encoder's own shapes in that precision, with everything else
left out: no attention, no activation, no rounding of inputs.
"""

from __future__ import annotations

import copy
import random
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from pear.checkpoint import Checkpoint
from pear.engine import Engine, Row
from pear.runtime.precision import DTYPES
from tests.support.random_pear import CORPUS

Clock = Callable[[], float]


def pairs(candidates: int, words: int = 7) -> list[Row]:
    """Half a matrix of one made-up list: candidates of everyday length that differ in some words."""
    draw = random.Random(7)
    vocabulary = " ".join(CORPUS[-4:]).split()
    base = draw.choices(vocabulary, k=words)
    texts = [
        " ".join(draw.choice(vocabulary) if draw.random() < 0.3 else word for word in base) for _ in range(candidates)
    ]
    source = " ".join(draw.choices(vocabulary, k=words))
    return [(source, texts[i], texts[j]) for i in range(candidates) for j in range(i + 1, candidates)]


def linear_shapes(checkpoint: Checkpoint) -> list[tuple[int, int]]:
    """Inputs and outputs of every linear layer of the encoder."""
    layers = [part for part in checkpoint.network.encoder.modules() if isinstance(part, nn.Linear)]
    return [(layer.in_features, layer.out_features) for layer in layers]


def operations(checkpoint: Checkpoint, tokens: int) -> float:
    """Multiplications and additions of the linear layers for these tokens."""
    return 2.0 * tokens * sum(inputs * outputs for inputs, outputs in linear_shapes(checkpoint))


def limit(checkpoint: Checkpoint, dtype: str, tokens: int, device: torch.device, clock: Clock, repeats: int) -> float:
    """Operations per second of plain products of the encoder's shapes, in batches of these tokens."""
    shapes = sorted(set(linear_shapes(checkpoint)))
    counts = [linear_shapes(checkpoint).count(shape) for shape in shapes]
    seconds = 0.0
    with torch.inference_mode():
        for (inputs, outputs), count in zip(shapes, counts, strict=True):
            product = _product(inputs, outputs, tokens, dtype, device)
            seconds += count * fastest(product, clock, repeats)
    return operations(checkpoint, tokens) / seconds


def fastest(work: Callable[[], object], clock: Clock, repeats: int) -> float:
    """Seconds of the fastest of some calls, after one to warm up."""
    work()
    best = float("inf")
    for _ in range(repeats):
        began = clock()
        work()
        best = min(best, clock() - began)
    return best


def engines(checkpoint: Checkpoint, dtypes: Sequence[str], device: str, threads: int = 1) -> dict[str, Engine]:
    """An engine of each precision, with weights of its own."""
    return {
        dtype: Engine(
            copy.deepcopy(checkpoint.network), checkpoint.tokenizer, device=device, dtype=dtype, threads=threads
        )
        for dtype in dtypes
    }


def compared(exact: NDArray[Any], fast: NDArray[Any]) -> str:
    """How scores of another precision compare with those of float32."""
    error = float((fast - exact).std() / exact.std())
    correlation = float(np.corrcoef(exact, fast)[0, 1])
    signs = float(np.mean(np.sign(exact) == np.sign(fast)))
    return f"correlation {correlation:.4f}, error {error:.2%} of a standard deviation, same sign {signs:.1%}"


def wall_clock(device: torch.device) -> Clock:
    """Seconds that include all work given to a GPU; on a CPU, the CPU seconds of this thread."""
    if device.type != "cuda":
        return time.thread_time

    def now() -> float:
        torch.cuda.synchronize(device)
        return time.perf_counter()

    return now


def _product(inputs: int, outputs: int, tokens: int, dtype: str, device: torch.device) -> Callable[[], object]:
    if dtype == "int8":
        left, right = (
            torch.randint(-127, 127, shape, dtype=torch.int8) for shape in ((tokens, inputs), (outputs, inputs))
        )
        return lambda: torch._int_mm(left, right.t())
    rows, weight, bias = (
        torch.randn(*shape, device=device).to(DTYPES[dtype])
        for shape in ((tokens, inputs), (outputs, inputs), (outputs,))
    )
    return lambda: nn.functional.linear(rows, weight, bias)
