"""Does a pairwise metric need a human reference as its anchor? (PEAR paper, section 5.3)

With a fixed other side, the anchor, a pairwise metric gives every translation one score. For each anchor, the human
reference if it was scored and then each system's output, that system is taken out, everything is computed again, and
the anchored metric is ranked among all metrics. Compare ranks: values over different systems are not comparable.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from candidates.common.errors import UsageError
from mbr.metaeval.agreement import AVERAGE, meta_evaluate
from mbr.metaeval.values import Scores, ScoreSet

REFERENCE = "reference"


@dataclass(frozen=True)
class Anchored:
    """A pairwise metric with one anchor, against all other metrics over the systems that remain."""

    metric: str
    anchor: str
    systems: int
    rank: int
    metrics: int  # number of ranked metrics
    spa: float
    acc_eq: float
    average: float

    def record(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


def anchor_stability(scores: ScoreSet, anchors: Sequence[str] | None = None) -> list[Anchored]:
    """For every pairwise metric of the set and every anchor (all systems, and the reference where it was scored)."""
    pairwise = [metric for metric in scores.metrics if metric.differences is not None]
    if not pairwise:
        raise UsageError("no pairwise metric; give one with --own NAME=FILE (with a column `other`) or --score pear")
    if len(scores.systems) < 3:
        raise UsageError(f"{len(scores.systems)} systems; with one of them as the anchor, at least two must remain")
    for name in anchors or ():
        if name not in (REFERENCE, *scores.systems):
            raise UsageError(f"no anchor {name!r}; there are {REFERENCE}, {', '.join(scores.systems)}")
    results = []
    for metric in pairwise:
        chosen = anchors or [*([REFERENCE] if metric.to_reference is not None else []), *scores.systems]
        results += [_anchored(scores, metric, anchor) for anchor in chosen]
    return results


def _anchored(scores: ScoreSet, metric: Scores, anchor: str) -> Anchored:
    assert metric.differences is not None
    if anchor == REFERENCE:
        if metric.to_reference is None:
            raise UsageError(f"{metric.name} was not scored against the reference; name other anchors")
        values = metric.to_reference
    else:
        values = metric.differences[:, scores.systems.index(anchor)]
    # Translations that were not compared with the anchor count for no metric.
    gold = np.where(np.isnan(values), np.nan, scores.gold)
    others = tuple(other for other in scores.metrics if other.segments is not None and other.differences is None)
    remaining = replace(
        scores,
        human=replace(scores.human, segments=gold, systems=None),
        metrics=(*others, Scores(metric.name, values, kind="own")),
    )
    if anchor != REFERENCE:
        remaining = remaining.choose(without=[anchor])
    table = meta_evaluate([remaining], ("spa", "acc_eq"), sanity=False)
    row = table.row(metric.name)
    spa, accuracy, average = (row.values[name] for name in ("spa", "acc_eq", AVERAGE))
    if spa is None or accuracy is None or average is None or row.rank is None:
        raise UsageError(f"anchor {anchor}: no translations are left to compare; leave it out of --anchors")
    return Anchored(metric.name, anchor, len(remaining.systems), row.rank, len(table.rows), spa, accuracy, average)
