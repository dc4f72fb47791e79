"""How near is scoring to the limit of the processor, and what do fewer bits change in the choices?

    python -m benchmarks.limit                    # speed, then choices
    python -m benchmarks.limit --only speed
    python -m benchmarks.limit --only choices --lists 20
    python -m benchmarks.limit --single FOLDER    # choices of a single-candidate model, too

Proves that bf16 and int8 run at a good share of what plain products of the same shapes reach in the same precision, and
that they choose as float32 does. A precision that the processor has no instructions for is left out. Speed: half a
matrix of one list, CPU seconds on one thread, the fastest of some runs in turn; `before` is float32 without keeping
freed memory. The encoders are the bundled PEAR, and 12 x 384 and 6 x 1024 with random weights, which round badly: for
them `auto` decides. Choices: real 100-best lists of the bundled translation model, by PEAR alone (all pairs of some
candidates) and by the default recipe; regret is the share of best minus mean that a choice loses by float32, with 95 %
intervals of a bootstrap.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.support import precisions
from benchmarks.support.headlines import headline
from benchmarks.support.places import TATOEBA, WORK
from benchmarks.support.quotes import add_keep_option, keep, slug
from benchmarks.support.replay import regret
from benchmarks.support.tatoeba import candidate_lists, parts
from candidates.generation import Settings
from candidates.lists import CandidateList
from mbr import Recipe, decode, read_recipe
from mbr.recipe.plan import with_precision
from mbr.utilities import QualityUtility, get_utility
from mbr.utilities.settling import expected, spread
from pear.checkpoint import Checkpoint, load_checkpoint
from tests.support.random_pear import write_random_released

# Layers, width and heads of encoders with random weights; None is the bundled PEAR. Candidates of the list.
ENCODERS: dict[str, tuple[dict[str, Any] | None, int]] = {
    "bundled PEAR": (None, 40),
    "12 layers x 384": ({"layers": 12, "hidden": 384, "heads": 12}, 20),
    "6 layers x 1024": ({"layers": 6, "hidden": 1024, "heads": 16}, 12),
}
DTYPES = precisions.cpu_precisions()
GOALS = {"bf16": 0.70, "int8": 0.55}  # shares of the limit
TARGET = 2.2  # the bundled PEAR over float32 as it was
BEFORE = {"MALLOC_ARENA_TEST": "8"}  # any setting of the C library's memory keeps ours away


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=("speed", "choices"))
    parser.add_argument("--encoders", nargs="+", choices=ENCODERS, default=list(ENCODERS))
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--candidates", type=int, default=30, help="of each list, whose pairs are all scored")
    parser.add_argument("--lists", type=int, default=200)
    parser.add_argument("--single", type=Path, help="folder of a single-candidate model")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    add_keep_option(parser)
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.worker:
        print(json.dumps(measure(**json.load(sys.stdin))))
        return 0
    reached = True
    values: dict[str, float] = {}
    if missing := sorted(set(GOALS) - set(DTYPES)):
        print(f"this processor has no instructions for {' and '.join(missing)}: left out")
    if options.only != "choices":
        for name in options.encoders:
            fast, measured = speed(name, options.repeats)
            reached &= fast
            values |= measured
    if options.only != "speed":
        values |= choices(options.lists, options.candidates, options.single)
    if options.keep:
        keep("limit", values)
    return 0 if reached else 1


def speed(name: str, repeats: int) -> tuple[bool, dict[str, float]]:
    """Print the table of one encoder; whether it reaches all goals, and the values that a page may quote."""
    before = ask({"name": name, "dtypes": ["float32"], "repeats": repeats}, BEFORE)
    after = ask({"name": name, "dtypes": DTYPES, "repeats": repeats}, {})
    as_it_was = before["float32"]["seconds"]
    work = f"{after['pairs']} pairs, {after['tokens']:,} tokens, {after['padding']:.1%} padding"
    print(f"\n{name}, {work}; auto takes {after['auto']}")
    columns = f"{'seconds':>9}{'over before':>13}{'GF/s':>7}{'limit':>7}{'share':>8}"
    print(f"  {'precision':<16}{columns}  scores against float32")
    rows = {"float32 before": before["float32"], **{dtype: after[dtype] for dtype in DTYPES}}
    for label, row in rows.items():
        share = row["speed"] / row["limit"]
        print(
            f"  {label:<16}{row['seconds']:>9.2f}{as_it_was / row['seconds']:>12.2f}x{row['speed'] / 1e9:>7.0f}"
            f"{row['limit'] / 1e9:>7.0f}{share:>8.0%}  {row['compared']}"
        )
    results = []
    values: dict[str, float] = {}
    for dtype in DTYPES:
        row, key = after[dtype], f"{slug(name)}.{dtype}"
        values |= {f"{key}.share": 100 * row["speed"] / row["limit"], f"{key}.over": as_it_was / row["seconds"]}
    for dtype, goal in ((dtype, goal) for dtype, goal in GOALS.items() if dtype in DTYPES):
        share = after[dtype]["speed"] / after[dtype]["limit"]
        results.append(share >= goal)
        headline(f"{name}: {dtype} at {share:.0%} of the limit; goal {goal:.0%}: {verdict(results[-1])}")
    share = after["float32"]["speed"] / after["float32"]["limit"]
    headline(f"{name}: float32 at {share:.0%} of the limit")
    if ENCODERS[name][0] is None and len(DTYPES) > 1:
        best = max(as_it_was / after[dtype]["seconds"] for dtype in DTYPES)
        results.append(best >= TARGET)
        headline(f"{name}: {best:.2f}x float32 as it was; target {TARGET}: {verdict(results[-1])}")
    return all(results), values


def verdict(reached: bool) -> str:
    return "reached" if reached else "MISSED"


def ask(request: dict[str, Any], environment: dict[str, str]) -> dict[str, Any]:
    """Measure in a process of its own, since a process keeps freed memory for good."""
    with tempfile.TemporaryDirectory() as cache:
        result = subprocess.run(
            [sys.executable, "-m", "benchmarks.limit", "--worker"],
            input=json.dumps(request),
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, **environment, "OMP_NUM_THREADS": "1", "MBR_CACHE": cache},
        )
    answer: dict[str, Any] = json.loads(result.stdout.splitlines()[-1])
    return answer


def measure(name: str, dtypes: list[str], repeats: int) -> dict[str, Any]:
    """Seconds, operations per second and their limit for each precision, measured in turn."""
    checkpoint = load(name)
    rows = precisions.pairs(ENCODERS[name][1])
    engines = precisions.engines(checkpoint, dtypes, "cpu")
    products = precisions.products_of(checkpoint, rows)
    device = torch.device("cpu")
    clock = precisions.wall_clock(device)
    scores = {dtype: engine.score(rows) for dtype, engine in engines.items()}
    seconds = dict.fromkeys(dtypes, float("inf"))
    limits = dict.fromkeys(dtypes, 0.0)
    for _ in range(repeats):
        for dtype, engine in engines.items():
            began = clock()
            engine.score(rows)
            seconds[dtype] = min(seconds[dtype], clock() - began)
            reached = precisions.limit(products, dtype, device, clock, 3)
            limits[dtype] = max(limits[dtype], reached)
    first = next(iter(engines.values()))
    tokens = first.tokens(rows)
    chosen = precisions.engines(checkpoint, ["auto"], "cpu")["auto"].precision
    return {
        "pairs": len(rows),
        "tokens": tokens,
        "padding": first.runner.padding / (first.runner.tokens + first.runner.padding),
        "auto": chosen,
        **{
            dtype: {
                "seconds": seconds[dtype],
                "speed": precisions.operations(products) / seconds[dtype],
                "limit": limits[dtype],
                "compared": "" if dtype == "float32" else precisions.compared(scores["float32"], scores[dtype]),
            }
            for dtype in dtypes
        },
    }


def load(name: str) -> Checkpoint:
    shape, _ = ENCODERS[name]
    if shape is None:
        return load_checkpoint("en-de")
    with tempfile.TemporaryDirectory() as scratch:
        write_random_released(Path(scratch), attention_gain=0.1, **shape)
        return load_checkpoint(scratch)


def choices(count: int, candidates: int, single: Path | None) -> dict[str, float]:
    """How often each precision chooses as float32 does, and what its other choices lose."""
    kept: dict[str, float] = {}
    WORK.mkdir(parents=True, exist_ok=True)
    sources = parts(TATOEBA)["test"][:count]
    lists = candidate_lists(WORK / f"limit-{count}.jsonl", sources, Settings(nbest=100))
    lists = [item for item in lists if len(item) > 1]
    print(f"\nchoices on {len(lists)} lists of the bundled translation model, against float32, 95 % intervals")
    print(f"  {'':<34}{'precision':<10}{'same choice':<24}regret")
    ways: dict[str, tuple[str, dict[str, Any], int]] = {
        f"PEAR alone, {candidates} candidates": ("pear", {"model": "en-de"}, candidates)
    }
    if single is not None:
        ways["single-candidate model"] = ("single", {"model": str(single)}, 100)
    for label, (utility, model, most) in ways.items():
        values = {dtype: utilities(lists, utility, {**model, "dtype": dtype}, most) for dtype in DTYPES}
        for dtype in DTYPES[1:]:
            kept |= report(label, dtype, values["float32"], [int(np.argmax(row)) for row in values[dtype]])
    recipe = read_recipe("en-de")
    decided = {dtype: decisions(lists, recipe, dtype) for dtype in DTYPES}
    exact = [scores for scores, _ in decided["float32"]]
    for dtype in DTYPES[1:]:
        kept |= report("the default recipe", dtype, exact, [place for _, place in decided[dtype]])
    return kept


def utilities(lists: list[CandidateList], name: str, options: dict[str, Any], most: int) -> list[NDArray[np.float64]]:
    """Expected utilities of candidates of each list, all pairs scored."""
    with get_utility(name, device="cpu", threads=1, **options) as utility:
        assert name != "single" or isinstance(utility, QualityUtility)
        return [expected(utility, item.source, spread(item.texts, most)) for item in lists]


def decisions(lists: list[CandidateList], recipe: Recipe, dtype: str) -> list[tuple[NDArray[np.float64], int]]:
    """Scores of the candidates of each list as the recipe decides it, and the place of its choice."""
    decided = decode(lists, with_precision(recipe, dtype), device="cpu", threads=1)
    return [(np.nan_to_num(d.scores, nan=float(np.nanmin(d.scores))), int(d.ranking[0])) for d in decided]


def report(label: str, dtype: str, exact: list[NDArray[np.float64]], chosen: list[int]) -> dict[str, float]:
    same = np.array([int(np.argmax(row)) == place for row, place in zip(exact, chosen, strict=True)], float)
    loss = np.array([regret(row, place) for row, place in zip(exact, chosen, strict=True)])
    print(f"  {label:<34}{dtype:<10}{interval(same, '{:.1%}'):<24}{interval(loss, '{:.2%}')}")
    headline(f"{label}: {dtype} chooses as float32 on {same.mean():.1%} of the lists, regret {loss.mean():.3%}")
    key = f"{slug(label)}.{dtype}"
    return {f"{key}.same": 100 * float(same.mean()), f"{key}.regret": 100 * float(loss.mean())}


def interval(values: NDArray[np.float64], form: str) -> str:
    """The mean and its 95 % interval."""
    draws = np.random.default_rng(1).choice(values, (2000, len(values))).mean(axis=1)
    show: Callable[[float], str] = form.format
    low, high = np.percentile(draws, [2.5, 97.5])
    return f"{show(values.mean())} [{show(low)}, {show(high)}]"


if __name__ == "__main__":
    sys.exit(main())
