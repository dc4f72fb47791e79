"""Which metrics agree with each other? Pearson correlations of differences within segments (PEAR paper, 5.4).

For ordinary metrics these are cosines of segment-centred scores; a pairwise metric takes part with its differences as
they are. People are one more row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from candidates.common.errors import UsageError
from mbr.drawing import heat_map
from mbr.metaeval.statistics import Gold, centre
from mbr.metaeval.values import Floats, Scores, ScoreSet, check_metric


@dataclass(frozen=True)
class CorrelationMatrix:
    """Correlations of metrics, and of people among them."""

    names: tuple[str, ...]
    values: Floats  # [metrics, metrics]

    def record(self) -> dict[str, Any]:
        """For JSON."""
        return {"metrics": list(self.names), "correlations": self.values.tolist()}

    def plot(self, title: str) -> str:
        return heat_map(title, self.names, self.values.tolist(), "Pearson correlation of differences within segments")

    def clustered(self) -> CorrelationMatrix:
        """In an order that puts similar metrics beside each other (average linkage)."""
        if len(self.names) < 3:
            return self
        from scipy.cluster.hierarchy import leaves_list, linkage, optimal_leaf_ordering
        from scipy.spatial.distance import squareform

        distance = np.clip(1 - self.values, 0, None)
        np.fill_diagonal(distance, 0)
        condensed = squareform((distance + distance.T) / 2, checks=False)
        order = leaves_list(optimal_leaf_ordering(linkage(condensed, "average"), condensed)).tolist()
        return CorrelationMatrix(tuple(self.names[place] for place in order), self.values[np.ix_(order, order)])


def correlate(scores: ScoreSet) -> CorrelationMatrix:
    """Of people and all metrics with scores of segments, over annotated translations."""
    for metric in scores.metrics:
        check_metric(metric, scores.gold)
    scores = scores.annotated_only()
    gold = Gold(scores.gold)
    metrics = [scores.human, *(metric for metric in scores.metrics if metric.segments is not None)]
    if len(metrics) < 2:
        raise UsageError("no metric has scores of segments; give one with --own or --score")
    pairwise = any(metric.differences is not None for metric in metrics)
    rows = _differences(gold, metrics) if pairwise else _centred(gold, metrics)
    gram = rows @ rows.T
    size = np.sqrt(np.maximum(gram.diagonal(), 0))
    below = size[:, None] * size[None]
    values = np.divide(gram, below, out=np.zeros_like(gram), where=below > 0)
    np.fill_diagonal(values, 1.0)
    return CorrelationMatrix(tuple(metric.name for metric in metrics), np.clip(values, -1, 1))


def _centred(gold: Gold, metrics: Sequence[Scores]) -> Floats:
    """[metrics, cells]: products of rows are sums over all pairs of a segment."""
    weight = np.sqrt(gold.counts)
    rows = []
    for metric in metrics:
        assert metric.segments is not None
        rows.append((weight * centre(metric.segments, gold.valid, gold.counts)).ravel())
    return np.array(rows)


def _differences(gold: Gold, metrics: Sequence[Scores]) -> Floats:
    return np.array([np.where(gold.paired, gold.metric_differences(metric), 0.0).ravel() for metric in metrics])
