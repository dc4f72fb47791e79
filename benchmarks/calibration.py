"""Is the estimated regret of `race` true? Mean estimate over mean true regret, on families of matrices.

    python -m benchmarks.calibration                              # all families, 800 lists each
    python -m benchmarks.calibration --quick                      # 20 lists each
    python -m benchmarks.calibration --only "Student" --lists 100
    python -m benchmarks.calibration --lists 150 --keep           # what docs/strategies.md quotes

Proves that the estimate that comes with a decision can be believed, up to chance. The ratio should lie within 0.8 and
2 on every family: made ones (`benchmarks.support.families`: normal, clustered, cyclic, slot-biased, heavy tails, a few
rough candidates) and real ones (the bundled PEAR on lists of the bundled translation model and on WMT23 systems, which
need `benchmarks.matrices`). Losses are rare and large, so the ratio has a wide interval: 95 % of a bootstrap over
lists.
"""

from __future__ import annotations

import os

# Before numpy is loaded: matrices of 100 are too small for threads.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from benchmarks.matrices import complete_matrices, folder_of
from benchmarks.support.families import FAMILIES
from benchmarks.support.headlines import headline
from benchmarks.support.places import WORK
from benchmarks.support.quotes import add_keep_option, keep, slug
from benchmarks.support.replay import regret, replay, segment_of, truth
from mbr.strategies import get_strategy

Floats = NDArray[np.float64]
LISTS, QUICK = 800, 20
WITHIN = (0.8, 2.0)
FIRST_SEED = 20_000  # made matrices: smaller seeds were looked at while the estimator was developed
SHORTEST = 7  # candidates of a WMT23 list; of fewer nearly all pairs are scored


@dataclass(frozen=True)
class Row:
    family: str
    lists: int
    passes: float
    estimate: float
    true: float
    low: float
    high: float

    @property
    def ratio(self) -> float:
        return self.estimate / self.true if self.true else float("inf")

    @property
    def holds(self) -> bool:
        """Whether the ratio itself is within the promised interval."""
        return WITHIN[0] <= self.ratio <= WITHIN[1]

    @property
    def refuted(self) -> bool:
        """Whether even the interval of the ratio lies outside."""
        return self.low > WITHIN[1] or self.high < WITHIN[0]


def real(name: str) -> list[Floats]:
    return [m.values.astype(np.float64) for m in complete_matrices(name) if len(m.item) >= SHORTEST]


def sources(only: str, lists: int) -> Iterator[tuple[str, int, int, Callable[[int], Floats]]]:
    """Families by name, with the number of lists to play, the number of different matrices, and the matrix of each."""
    for name, family in FAMILIES.items():
        if only in name:
            yield name, lists, lists, partial(_unseen, family)
    for name, title in (("test", "real: bundled PEAR, N = 100"), ("wmt23", "real: WMT23 systems")):
        if only in title and folder_of(name).is_dir():
            matrices = real(name)
            yield title, lists, len(matrices), partial(_cyclically, matrices)


def _unseen(family: Callable[[int], Floats], place: int) -> Floats:
    return family(FIRST_SEED + place)


def _cyclically(matrices: list[Floats], place: int) -> Floats:
    return matrices[place % len(matrices)]


def measure(name: str, lists: int, different: int, family: Callable[[int], Floats], tolerance: float) -> Row:
    """Play the lists; the interval is of a bootstrap over the different matrices."""
    strategy = get_strategy("race", tolerance=tolerance)
    runs = []
    for seed in range(lists):
        values = family(seed)
        played = replay(values, strategy, segment_of(values, 1000 + seed))
        estimate = played.outcome.certainty.estimated_regret
        if estimate is not None:
            runs.append((seed % different, estimate, regret(truth(values), int(played.ranking[0])), played.passes))
    numbers, table = np.array([run[0] for run in runs]), np.array([run[1:] for run in runs])
    sums = np.stack([np.bincount(numbers, column) for column in table.T[:2]], axis=1)  # [matrices, 2]
    draws = np.random.default_rng(1).integers(0, len(sums), (2000, len(sums)))
    estimates, losses = sums[draws].sum(axis=1).T
    ratios = np.divide(estimates, losses, out=np.full(len(losses), np.inf), where=losses > 0)
    low, high = np.quantile(ratios, [0.025, 0.975], method="inverted_cdf")
    estimate, true, passes = table.mean(axis=0).tolist()
    return Row(name, len(table), passes, estimate, true, float(low), float(high))


def quoted_values(rows: Sequence[Row]) -> dict[str, float]:
    """What a page may quote, by family: lists, passes, both regrets in percent, the ratio and its interval.

    A bound is left out where the lists give none, since too few of them lost anything.
    """
    values: dict[str, float] = {}
    for row in rows:
        numbers = {"lists": row.lists, "passes": row.passes, "estimate": 100 * row.estimate, "true": 100 * row.true}
        numbers |= {"ratio": row.ratio, "low": row.low, "high": row.high}
        values |= {f"{slug(row.family)}.{key}": value for key, value in numbers.items() if np.isfinite(value)}
    return values


def _verdict(row: Row) -> str:
    return "" if row.holds else "  outside, beyond chance" if row.refuted else "  outside, perhaps by chance"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lists", type=int, default=LISTS, help=f"of each family (default: {LISTS})")
    parser.add_argument("--only", default="", metavar="TEXT", help="only families whose names have this")
    parser.add_argument("--tolerance", type=float, default=0.01)
    parser.add_argument("--quick", action="store_true", help=f"{QUICK} lists of each; nothing is kept")
    add_keep_option(parser)
    options = parser.parse_args()
    rows = []
    print(f"{'family':38} {'lists':>5} {'passes':>7} {'estimate':>8} {'true':>8} {'ratio':>6}  95 % interval")
    for name, lists, different, family in sources(options.only, QUICK if options.quick else options.lists):
        row = measure(name, lists, different, family, options.tolerance)
        rows.append(row)
        print(
            f"{row.family:38} {row.lists:5} {row.passes:7.0f} {row.estimate:8.2%} {row.true:8.2%} {row.ratio:6.2f}  "
            f"{row.low:.2f} to {row.high:.2f}{_verdict(row)}",
            flush=True,
        )
    kept, refuted = sum(row.holds for row in rows), sum(row.refuted for row in rows)
    headline(
        f"estimated over true regret of race: within {WITHIN[0]} and {WITHIN[1]} on {kept} of {len(rows)} families; "
        f"outside by its whole interval on {refuted}"
    )
    if not options.quick:
        WORK.mkdir(parents=True, exist_ok=True)
        (WORK / "calibration.json").write_text(json.dumps([asdict(row) for row in rows], indent=1), encoding="utf-8")
    if options.keep:
        keep("calibration", quoted_values(rows))
    return 0 if kept == len(rows) else 1


if __name__ == "__main__":
    sys.exit(main())
