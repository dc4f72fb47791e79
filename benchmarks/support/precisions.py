"""What benchmarks of precisions share: pairs to score, the arithmetic of an encoder, and how fast plain products are.

The limit of a precision is the time of products of matrices in that precision, of the shapes and sizes that the
encoder's linear layers compute, with everything else left out: no attention, no activation, no rounding of inputs.
"""

from __future__ import annotations

import copy
import random
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from pear.checkpoint import Checkpoint
from pear.engine import Engine, Row
from pear.runtime.precision import DTYPES, faster_precisions
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


@dataclass(frozen=True)
class Products:
    """What the linear layers of an encoder of one shape compute: `calls` times about `tokens` rows."""

    inputs: int
    outputs: int
    tokens: int
    calls: int

    @property
    def operations(self) -> float:
        """Multiplications and additions."""
        return 2.0 * self.inputs * self.outputs * self.tokens * self.calls


def products_of(checkpoint: Checkpoint, rows: Sequence[Row]) -> list[Products]:
    """The products that scoring these rows takes in float32, counted while they are scored.

    Encoders that read each distinct text once put fewer rows through some layers than through others.
    """
    network = copy.deepcopy(checkpoint.network)
    sizes: dict[tuple[int, int], list[int]] = defaultdict(list)

    def count(layer: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        sizes[inputs[0].shape[-1], output.shape[-1]].append(output.shape[:-1].numel())

    for layer in network.encoder.modules():
        if isinstance(layer, nn.Linear):
            layer.register_forward_hook(count)
    with Engine(network, checkpoint.tokenizer, device="cpu", threads=1) as engine:
        engine.score(rows)
    return [Products(*shape, round(float(np.mean(each))), len(each)) for shape, each in sorted(sizes.items())]


def operations(products: Sequence[Products]) -> float:
    return sum(each.operations for each in products)


def limit(products: Sequence[Products], dtype: str, device: torch.device, clock: Clock, repeats: int) -> float:
    """Operations per second of plain products of these shapes and sizes."""
    seconds = 0.0
    with torch.inference_mode():
        for each in products:
            product = _product(each.inputs, each.outputs, each.tokens, dtype, device)
            seconds += each.calls * fastest(product, clock, repeats)
    return operations(products) / seconds


def cpu_precisions() -> tuple[str, ...]:
    """The precisions that this processor computes fast."""
    fast = faster_precisions("cpu")
    return ("float32", *(name for name in ("bf16", "int8") if name in fast))


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
