"""A pairwise metric (PEAR) as a judge: each output is compared with one anchor, the baseline's output or the reference.

N systems cost N comparisons per segment, not N(N-1)/2 (PEAR paper, section 3.5). A comparison in both orders is scored
and cached with its two texts in the order of the alphabet, and its sign is kept apart. Each system is scored in batches
of its own. So with baseline and system swapped the same comparisons are scored in the same batches, whatever the other
systems are, and every sign flips exactly. The baseline itself scores 0.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mbr.evaluate.base import Composite, Floats, Judged, Row
from mbr.evaluate.neural import NeuralJudge

PORTION = 128  # comparisons: always the same batches, so that the same texts have the same scores to the last bit


class PairwiseJudge(Composite):
    """Rows are (source, output, anchor). `symmetric`: the metric scores both orders."""

    columns = NeuralJudge.columns
    by_system = True

    def __init__(self, metric: NeuralJudge, *, against: str, symmetric: bool) -> None:
        metric.portion_rows = PORTION
        self.parts = (metric,)
        self._symmetric = symmetric
        self.identity = f"{metric.identity}|against:{against}"

    def rows(
        self, sources: Sequence[str] | None, outputs: Sequence[str], references: Sequence[Sequence[str]]
    ) -> list[Row]:
        """`references` holds the anchors."""
        return self.parts[0].rows(sources, outputs, references)

    def split(self, rows: Sequence[Row]) -> list[list[Row]]:
        """An output that equals its anchor is not compared: it is neither better nor worse."""
        differing = [row for row in rows if row[1] != row[2]]
        return [[(row[0], row[2], row[1]) if self._swapped(row) else row for row in differing]]

    def combine(self, rows: Sequence[Row], judged: Sequence[Judged]) -> Judged:
        differ = np.array([row[1] != row[2] for row in rows], np.bool_)
        signs = np.array([-1.0 if self._swapped(row) else 1.0 for row in rows])
        statistics = np.tile([0.0, 1.0], (len(rows), 1))
        statistics[differ, 0] = judged[0].statistics[:, 0] * signs[differ]
        truncated = np.zeros(len(rows), np.bool_)
        truncated[differ] = judged[0].truncated
        return Judged(statistics, truncated)

    def scores(self, sums: Floats) -> Floats:
        return self.parts[0].scores(sums)

    def system_score(self, statistics: Floats) -> float:
        return self.parts[0].system_score(statistics)

    def segment_scores(self, statistics: Floats) -> Floats:
        return self.parts[0].segment_scores(statistics)

    def _swapped(self, row: Row) -> bool:
        return self._symmetric and row[1] > row[2]
