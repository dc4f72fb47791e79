"""How fast is each precision on your GPU, how near to its limit, and are the scores those of the CPU?

    python -m benchmarks.gpu                          # prints the table of docs/gpu.md
    python -m benchmarks.gpu --model pear --device cuda:1
    python -m benchmarks.gpu --device cpu --quick     # what can be tried without a GPU

Proves that scores on the device are those of the CPU in float32, and shows what bf16 and fp16 gain. Half a matrix of
one list is scored with a PEAR of the shape of the released one (24 layers x 1024, random weights), or with a checkpoint
of yours; wall-clock seconds, the fastest of some runs. The limit is a product of matrices of the same shapes in the
same precision. The last lines are what `auto` takes, and the batch that free memory allows.
"""

from __future__ import annotations

import argparse
import copy
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.support import precisions
from benchmarks.support.headlines import headline
from candidates.common.errors import UsageError
from pear.checkpoint import Checkpoint, load_checkpoint
from pear.engine import Engine
from pear.runtime.int8 import has_int8
from pear.runtime.probes import PROBES
from tests.support.random_pear import write_random_released

LARGE = {"layers": 24, "hidden": 1024, "heads": 16}
SMALL = {"layers": 2, "hidden": 64, "heads": 4}
MOST_DIFFERENCE = 1e-3  # of the largest score, between devices in float32


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--model", help="a PEAR checkpoint: a folder or a hub name (default: random weights)")
    parser.add_argument("--candidates", type=int, default=100)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="a small model, few candidates")
    options = parser.parse_args()
    device = torch.device(options.device)
    if device.type == "cuda" and not torch.cuda.is_available():
        raise UsageError("torch finds no CUDA device here; try --device cpu --quick")
    checkpoint = load(options.model, SMALL if options.quick else LARGE)
    rows = precisions.pairs(8 if options.quick else options.candidates)
    exact = Engine(copy.deepcopy(checkpoint.network), checkpoint.tokenizer, device="cpu").score(PROBES)
    on_cpu = ("float32", "bf16", *(["int8"] if has_int8() else []))
    dtypes = ("float32", "bf16", "fp16") if device.type == "cuda" else on_cpu
    engines = precisions.engines(checkpoint, dtypes, options.device, threads=0)
    clock = precisions.wall_clock(device)
    tokens, products = engines["float32"].tokens(rows), precisions.products_of(checkpoint, rows)
    print(f"{describe(device)}; torch {torch.__version__}; {len(rows)} pairs of {tokens:,} tokens\n")
    print("| precision | pairs per second | over float32 | share of the limit | scores against float32 |")
    print("| --- | --- | --- | --- | --- |")
    scores, seconds = {}, {}
    for dtype, engine in engines.items():
        scores[dtype] = engine.score(rows)
        seconds[dtype] = precisions.fastest(lambda engine=engine: engine.score(rows), clock, options.repeats)  # type: ignore[misc]
        speed = precisions.operations(products) / seconds[dtype]
        limit = precisions.limit(products, dtype, device, clock, options.repeats)
        agreement = "" if dtype == "float32" else precisions.compared(scores["float32"], scores[dtype])
        print(
            f"| {dtype} | {len(rows) / seconds[dtype]:,.0f} | {seconds['float32'] / seconds[dtype]:.2f}x | "
            f"{speed / limit:.0%} | {agreement} |"
        )
    difference = float(np.abs(engines["float32"].score(PROBES) - exact).max() / np.abs(exact).max())
    same = difference <= MOST_DIFFERENCE
    print()
    verdict = "fine" if same else "WRONG"
    headline(f"float32 on {device} differs from the CPU by {difference:.1e} of the largest score: {verdict}")
    headline(f"auto takes {precisions.engines(checkpoint, ['auto'], options.device, threads=0)['auto'].precision}")
    headline(f"batches of {engines['float32'].batch_tokens:,} tokens in float32")
    return 0 if same else 1


def load(model: str | None, shape: dict[str, Any]) -> Checkpoint:
    if model is not None:
        return load_checkpoint(model)
    with tempfile.TemporaryDirectory() as scratch:
        write_random_released(Path(scratch), attention_gain=0.1, **shape)
        return load_checkpoint(scratch)


def describe(device: torch.device) -> str:
    return (
        torch.cuda.get_device_name(device) if device.type == "cuda" else f"{device}, {torch.get_num_threads()} threads"
    )


if __name__ == "__main__":
    sys.exit(main())
