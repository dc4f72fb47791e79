"""What do long lists cost outside the model? Time and memory of `race` for 100, 1,000 and 5,000 candidates.

    python -m benchmarks.large_lists                      # simulated utility; a few minutes
    python -m benchmarks.large_lists --keep               # what docs/strategies.md quotes
    python -m benchmarks.large_lists --sizes 100 1000
    python -m benchmarks.large_lists --pass-ms 4          # of the model; bundled PEAR: about 1.8 (benchmarks.limit)

Proves that the work besides the passes grows about with the number of pairs: 5,000 candidates decide within half of
the model's time on top of it, and within 1 GB. Utilities come from a formula instead of a matrix, so that memory is
that of the strategy. Prints passes, CPU seconds of the strategy, the model's seconds at the given time per pass, their
ratio, the largest memory of a fresh process above its start, and the regret by the formula.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import multiprocessing
import resource
import sys
import time

import numpy as np

from benchmarks.support.headlines import headline
from benchmarks.support.quotes import add_keep_option, keep
from mbr.strategies import Segment, get_strategy

RHO, SLOTS = 0.1, 0.05
PASS_MS = 1.8
MOST_RATIO, MOST_BYTES = 1.5, 2**30


def play(size: int, seed: int) -> tuple[int, float, float, float]:
    """Passes, CPU seconds, bytes and regret of one list, in this process."""
    draw = np.random.default_rng(seed)
    quality, slots = draw.normal(size=size), SLOTS * draw.normal(size=size)

    def score(pairs: np.ndarray) -> np.ndarray:
        first, second = pairs.T
        low, high = np.minimum(first, second).astype(np.uint64), np.maximum(first, second).astype(np.uint64)
        # Nearly normal numbers that a pair fixes: the sum of four bytes of a hash.
        hashed = (low * np.uint64(size) + high) * np.uint64(0x9E3779B97F4A7C15)
        hashed ^= hashed >> np.uint64(29)
        hashed *= np.uint64(0xBF58476D1CE4E5B9)
        parts = [((hashed >> np.uint64(8 * k)) & np.uint64(255)).astype(np.float64) for k in range(3, 7)]
        own = (sum(parts) - 510) / 148 * np.where(first < second, 1, -1)
        return np.asarray(quality[first] - quality[second] + slots[first] + slots[second] + 2**0.5 * RHO * own)

    ones = np.ones(size)
    segment = Segment(1 - draw.random(size), ones, 0 * ones, "antisymmetric", np.zeros(size, np.bool_))
    start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    began, model, passes = time.process_time(), 0.0, 0
    conversation = get_strategy("race").converse(segment)
    asked = next(conversation)
    while True:
        passes += len(asked.pairs)
        before = time.process_time()
        scores = score(asked.pairs).astype(np.float32)
        model += time.process_time() - before
        try:
            asked = conversation.send(scores)
        except StopIteration as end:
            outcome = end.value
            break
    seconds = time.process_time() - began - model
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - start) * 1024
    return (
        passes,
        seconds,
        grown,
        float((quality.max() - quality[outcome.ranking[0]]) / (quality.max() - quality.mean())),
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=[100, 1000, 5000])
    parser.add_argument("--pass-ms", type=float, default=PASS_MS, help=f"of the model (default: {PASS_MS:g})")
    add_keep_option(parser)
    options = parser.parse_args()
    print(f"{'candidates':>10} {'passes':>7} {'strategy s':>10} {'model s':>8} {'ratio':>6} {'MiB':>6} {'regret':>7}")
    reached = True
    values: dict[str, float] = {}
    for size in options.sizes:
        with multiprocessing.get_context("spawn").Pool(1) as fresh:
            passes, seconds, grown, loss = fresh.apply(play, (size, 1))
        model = passes * options.pass_ms / 1000
        ratio = (model + seconds) / model
        reached &= ratio <= MOST_RATIO and grown <= MOST_BYTES
        numbers = {"passes": passes, "seconds": seconds, "ratio": ratio, "mib": grown / 2**20, "regret": 100 * loss}
        values |= {f"{size}.{key}": value for key, value in numbers.items()}
        print(
            f"{size:10,} {passes:7,} {seconds:10.2f} {model:8.1f} {ratio:6.2f} {grown / 2**20:6.0f} {loss:7.2%}",
            flush=True,
        )
    headline(f"race on {options.sizes[-1]:,} candidates: {ratio:.2f} times the model's time, {grown / 2**20:.0f} MiB")
    if options.keep:
        keep("large_lists", values)
    return 0 if reached else 1


if __name__ == "__main__":
    sys.exit(main())
