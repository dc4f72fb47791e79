"""Complete utility matrices, both orders of every pair, to replay strategies on.

    python -m benchmarks.matrices                     # all sets, on two cores: about a quarter of an hour with bf16
    python -m benchmarks.matrices --sets test --lists 20

Makes what `benchmarks.strategies` and `benchmarks.strategies_quality` replay. Sets: `development` (to tune on), `test`
(to report): 100-best lists of the bundled translation model for sources of that part, compared by the bundled PEAR;
`wmt23`: the outputs of the WMT23 English-German systems for every fourth segment that people scored, by the same. They
are made once, and kept under benchmarks/work; an interrupted run continues. Scores are computed in bf16 where the
processor has instructions for it: what is replayed on a matrix is judged by that matrix.
"""

from __future__ import annotations

import argparse
import hashlib
import multiprocessing
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.support.held_out import wmt23_lists
from benchmarks.support.places import TATOEBA, WORK
from benchmarks.support.tatoeba import candidate_lists as made_lists
from benchmarks.support.tatoeba import parts
from candidates.generation import Settings
from candidates.lists import CandidateList
from mbr import decode, get_utility
from pear.runtime.precision import has_bf16
from pear.shipped import DEFAULT, SHIPPED

# Lists of each set.
SETS = {"development": 40, "test": 200, "wmt23": 115}


@dataclass(frozen=True)
class Complete:
    """A candidate list with the scores [N, N] of all its ordered pairs; the diagonal is 0."""

    item: CandidateList
    values: NDArray[np.float32]


def candidate_lists(name: str) -> list[CandidateList]:
    if name == "wmt23":
        judged = wmt23_lists(every=4)
        return [CandidateList.of(item.source, item.texts, id=k) for k, item in enumerate(judged[: SETS[name]])]
    file = WORK / "matrices" / f"{name}-{SETS[name]}.jsonl"
    file.parent.mkdir(parents=True, exist_ok=True)
    return made_lists(file, parts(TATOEBA)[name][: SETS[name]], Settings(nbest=100))


def folder_of(name: str) -> Path:
    """Where the matrices of a set are: those of another PEAR have another folder."""
    weights = (SHIPPED / DEFAULT / "model.safetensors").read_bytes()
    return WORK / "matrices" / f"{name}-{hashlib.blake2b(weights, digest_size=4).hexdigest()}"


def complete_matrices(name: str) -> Iterator[Complete]:
    """The matrices of a set that exist, in order."""
    folder = folder_of(name)
    for item in candidate_lists(name):
        file = folder / f"{item.id}.npy"
        if file.exists():
            yield Complete(item, np.load(file))


def make(names: list[str], limit: int | None, worker: int, workers: int) -> None:
    """Make the matrices of this worker's share of each set, on one thread."""
    dtype = "bf16" if has_bf16(torch.device("cpu")) else "float32"
    with get_utility("pear", model=SHIPPED / DEFAULT, device="cpu", threads=1, dtype=dtype) as utility:
        for name in names:
            folder = folder_of(name)
            folder.mkdir(parents=True, exist_ok=True)
            wanted = candidate_lists(name)[:limit]
            for item in wanted[worker::workers]:
                file = folder / f"{item.id}.npy"
                if file.exists() or len(item) < 2:
                    continue
                began = time.monotonic()
                (decision,) = decode([item], utility, strategy="full", keep_matrix=True)
                assert decision.matrix is not None
                half_written = file.with_suffix(f".{os.getpid()}")
                with half_written.open("wb") as stream:
                    np.save(stream, decision.matrix.values)
                half_written.rename(file)
                print(f"{name} {item.id}: {len(item)} candidates, {time.monotonic() - began:.1f} s", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="+", choices=SETS, default=list(SETS))
    parser.add_argument("--lists", type=int, help="only the first lists of each set")
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    for name in options.sets:
        candidate_lists(name)  # made once, before the workers need them
    context = multiprocessing.get_context("spawn")
    jobs = [
        context.Process(target=make, args=(options.sets, options.lists, worker, options.workers))
        for worker in range(options.workers)
    ]
    for job in jobs:
        job.start()
    for job in jobs:
        job.join()
    if any(job.exitcode for job in jobs):
        raise SystemExit("a worker failed; what it made is kept")


if __name__ == "__main__":
    main()
