"""What a choice by the default recipe costs, beside PEAR alone with `race`, on the same lists.

    python -m benchmarks.recipe_cost

Proves that the terms, above all the reverse translation model, cost less than the pairs that they save. Lists are
100-best beams of the bundled translation model for sources that no model saw; CPU seconds, user and system, of whole
processes on one thread, taken in turn.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.support.headlines import headline, spread
from benchmarks.support.places import TATOEBA, WORK
from benchmarks.support.tatoeba import candidate_lists, parts
from candidates.formats import render_list
from candidates.generation import Settings

WAYS = {
    "recipe": "en-de",
    "pear": "{utility: pear, options: {model: en-de}, strategy: race, weights: uniform}",
}
ONE_THREAD = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--lists", type=int, default=100)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    work = WORK / "recipe_cost"
    work.mkdir(parents=True, exist_ok=True)
    sources = parts(TATOEBA)["held-out"][: options.lists]
    made = candidate_lists(work / f"held-out-{options.lists}.jsonl", sources, Settings(nbest=100))
    lists = work / "lists.jsonl"
    lists.write_bytes(b"".join(render_list(item, "jsonl", 0) for item in made))
    seconds: dict[str, list[float]] = {name: [] for name in WAYS}
    for _ in range(options.repeats):
        for name, recipe in WAYS.items():
            seconds[name].append(cpu_seconds(lists, recipe))
    ratios = [recipe / pear for recipe, pear in zip(seconds["recipe"], seconds["pear"], strict=True)]
    for name, values in seconds.items():
        print(f"{name}: {spread([1000 * value / len(made) for value in values])} CPU ms per list of {len(made)}")
    headline(f"the default recipe over PEAR alone, CPU: {spread(ratios)}")


def cpu_seconds(lists: Path, recipe: str) -> float:
    """Of one run of mbr-decode, which finds nothing in its caches."""
    with tempfile.TemporaryDirectory() as cache:
        words = ["--candidates", str(lists), "--recipe", recipe, "--threads", "1", "--quiet"]
        program = Path(sys.executable).with_name("mbr-decode")
        before = _of_children()
        subprocess.run(
            [program, *words],
            stdout=subprocess.DEVNULL,
            env={**os.environ, **ONE_THREAD, "MBR_CACHE": cache},
            check=True,
        )
        return _of_children() - before


def _of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    main()
