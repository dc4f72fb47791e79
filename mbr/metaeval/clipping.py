"""Score clipping: extreme scores are cut, so that one of them cannot decide a correlation.

PDP and global Pearson are sensitive to single outliers (DiIanni and Deutsch 2025, section 6), such as a non-translation
of 25 points among scores of 0 to 5. Two forms:

| form | cuts |
| --- | --- |
| `-10:0`, `-10:`, `:100` | human scores to these bounds; metrics, whose units are others, stay |
| `1%` | the scores of people and of every metric, each to its own 1st and 99th percentile |

    >>> Clip.parse("-5:").human(np.array([[-25.0, -1.0]]))
    array([[-5., -1.]])
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from candidates.common.errors import UsageError
from mbr.metaeval.values import Floats, Scores, ScoreSet


@dataclass(frozen=True)
class Clip:
    """Bounds of human scores, or a percentage that is cut off at both ends of all scores."""

    low: float = float("-inf")
    high: float = float("inf")
    percent: float | None = None

    @classmethod
    def parse(cls, text: str) -> Clip:
        try:
            if text.endswith("%"):
                percent = float(text[:-1])
                if 0 < percent < 50:
                    return cls(percent=percent)
            else:
                low, colon, high = text.partition(":")
                bounds = cls(float(low or "-inf"), float(high or "inf"))
                if colon and (low or high) and bounds.low < bounds.high:
                    return bounds
        except ValueError:
            pass
        raise UsageError(
            f"--clip {text!r}: expected LOW:HIGH, LOW: or :HIGH in human scores, as in --clip=-10:0, or P% below 50"
        )

    def __str__(self) -> str:
        if self.percent is not None:
            return f"{self.percent:g}%"
        return ":".join("" if np.isinf(bound) else f"{bound:g}" for bound in (self.low, self.high))

    def human(self, scores: Floats) -> Floats:
        """Clipped human scores."""
        return self._cut(scores, ~np.isnan(scores)) if self.percent is not None else scores.clip(self.low, self.high)

    def metric(self, metric: Scores, judged: NDArray[np.bool_]) -> Scores:
        """A metric's clipped scores; percentiles are those of translations that people scored."""
        if self.percent is None or metric.segments is None:
            return metric
        if metric.differences is not None:
            both = judged[:, None] & judged[None] & ~np.eye(len(judged), dtype=np.bool_)[:, :, None]
            return metric.with_differences(self._cut(metric.differences, both), metric.to_reference)
        return replace(metric, segments=self._cut(metric.segments, judged), systems=None)

    def apply(self, scores: ScoreSet) -> ScoreSet:
        """A score set with clipped scores; those of whole systems become means of what is left."""
        judged = ~np.isnan(scores.gold)
        return replace(
            scores,
            human=replace(scores.human, segments=self.human(scores.gold), systems=None),
            metrics=tuple(self.metric(metric, judged) for metric in scores.metrics),
        ).changed(clip=str(self))

    def _cut(self, scores: Floats, counted: NDArray[np.bool_]) -> Floats:
        values = scores[counted & ~np.isnan(scores)]
        if self.percent is None or not values.size:
            return scores
        low, high = np.percentile(values, [self.percent, 100 - self.percent])
        return np.asarray(scores.clip(low, high))
