"""Does a pairwise metric need a human reference as its anchor? (PEAR paper, section 5.3)

With a fixed other side, the anchor, a pairwise metric gives every translation one score. For each anchor, the human
reference if it was scored and then each system's output, that system is taken out, everything is computed again, and
the anchored metric is ranked among all metrics, over one language pair or the mean of several. Compare ranks: values
over different systems are not comparable.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from candidates.common.errors import UsageError
from mbr.drawing import rank_lines
from mbr.metaeval.agreement import AVERAGE, meta_evaluate
from mbr.metaeval.values import Scores, ScoreSet

REFERENCE = "reference"


@dataclass(frozen=True)
class Anchored:
    """A pairwise metric with one anchor, against all other metrics over the systems that remain.

    Of several language pairs `systems` is the sum, values are means.
    """

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


def anchor_stability(sets: Sequence[ScoreSet], anchors: Sequence[str] | None = None) -> list[Anchored]:
    """For every pairwise metric that all sets have, and every anchor.

    By default the anchors are the reference, where it was scored, and the systems of all language pairs.
    """
    shared = [[metric.name for metric in scores.metrics if metric.differences is not None] for scores in sets]
    pairwise = [name for name in shared[0] if all(name in names for names in shared)]
    if not pairwise:
        raise UsageError("no pairwise metric; give one with --own NAME=FILE (with a column `other`) or --score pear")
    for scores in sets:
        if len(scores.systems) < 3:
            raise UsageError(f"{len(scores.systems)} systems; with one of them as the anchor, at least two must remain")
    systems = [name for name in sets[0].systems if all(name in scores.systems for scores in sets)]
    for name in anchors or ():
        if name not in (REFERENCE, *systems):
            raise UsageError(f"no anchor {name!r}; there are {', '.join((REFERENCE, *systems))}")
    results = []
    for name in pairwise:
        metrics = [scores.metric(name) for scores in sets]
        referenced = all(metric.to_reference is not None for metric in metrics)
        for anchor in anchors or [*([REFERENCE] if referenced else []), *systems]:
            remaining = [_remaining(*pair, anchor) for pair in zip(sets, metrics, strict=True)]
            results.append(_ranked(remaining, name, anchor))
    return results


def anchor_plot(results: Sequence[Anchored], title: str) -> str:
    """An SVG of the ranks of every metric at every anchor (figure 2 of the PEAR paper)."""
    anchors = list(dict.fromkeys(result.anchor for result in results))
    lines = {
        name: [result.rank for result in results if result.metric == name]
        for name in dict.fromkeys(result.metric for result in results)
    }
    most = max(result.metrics for result in results)
    note = f"rank among {most} metrics by the average of SPA and acc_eq*; the anchor's system is taken out"
    return rank_lines(title, ["human reference" if name == REFERENCE else name for name in anchors], lines, note)


def _remaining(scores: ScoreSet, metric: Scores, anchor: str) -> ScoreSet:
    """The scores without the anchor's system, and with the metric as its scores against the anchor."""
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
    return remaining if anchor == REFERENCE else remaining.choose(without=[anchor])


def _ranked(remaining: Sequence[ScoreSet], metric: str, anchor: str) -> Anchored:
    table = meta_evaluate(remaining, ("spa", "acc_eq"), sanity=False)
    row = table.row(metric)
    spa, accuracy, average = (row.values[name] for name in ("spa", "acc_eq", AVERAGE))
    if spa is None or accuracy is None or average is None or row.rank is None:
        raise UsageError(f"anchor {anchor}: no translations are left to compare; leave it out of --anchors")
    systems = sum(len(scores.systems) for scores in remaining)
    return Anchored(metric, anchor, systems, row.rank, len(table.rows), spa, accuracy, average)
