"""How well predicted differences between translations agree with the judged ones.

All work on pairs of translations of one segment: the segment's number, the predicted difference, the judged one; each
unordered pair once. A metric that scores translations singly is a special case: its differences are subtractions.

    >>> pairs = Pairs.of([[2.0, 1.0, 0.0]], [[5.0, 3.0, 1.0]])
    >>> pdp(pairs), acc_eq(pairs)[0]
    (1.0, 1.0)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pear.ties import calibrate

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Pairs:
    """Pairs of translations, [pairs] each: segment number, predicted difference, judged difference."""

    segment: NDArray[np.int64]
    predicted: Floats
    judged: Floats

    @classmethod
    def of(cls, predicted: Sequence[Any], judged: Sequence[Sequence[float]]) -> Pairs:
        """From one prediction per segment, scores [n] or an antisymmetric matrix [n, n], and judged scores [n]."""
        segments, differences, gold = [], [], []
        for number, (prediction, scores) in enumerate(zip(predicted, judged, strict=True)):
            i, j = np.triu_indices(len(scores), k=1)
            values = np.asarray(prediction, np.float64)
            truth = np.asarray(scores, np.float64)
            segments.append(np.full(len(i), number))
            differences.append(values[i, j] if values.ndim == 2 else values[i] - values[j])
            gold.append(truth[i] - truth[j])
        empty = np.empty(0)
        return cls(
            np.concatenate([empty, *segments]).astype(np.int64),
            np.concatenate([empty, *differences]),
            np.concatenate([empty, *gold]),
        )


def acc_eq(pairs: Pairs) -> tuple[float, float]:
    """Pairwise accuracy with calibrated ties (Deutsch et al. 2023), and the tie threshold: O(P log P).

    Accuracy is averaged over segments; a prediction is a tie if at most the threshold, which is chosen to maximise
    the accuracy.
    """
    if not len(pairs.segment):
        return 0.0, 0.0
    counts = np.bincount(pairs.segment)
    weight = 1.0 / (counts[pairs.segment] * np.count_nonzero(counts))
    size = np.abs(pairs.predicted)
    tied = pairs.judged == 0
    right = (pairs.predicted * pairs.judged) > 0
    return calibrate(size[right], size[tied], weight[right], weight[tied])


def pdp(pairs: Pairs) -> float:
    """Pearson correlation of differences, every pair in both orders, so that both means are zero; 0 if constant."""
    size = np.sqrt((pairs.predicted**2).sum() * (pairs.judged**2).sum())
    return float((pairs.predicted * pairs.judged).sum() / size) if size > 0 else 0.0


def segment_pearson(predicted: Sequence[Any], judged: Sequence[Sequence[float]]) -> float:
    """Mean over segments of the Pearson correlation; a matrix counts by its row means; constant segments drop out."""
    correlations = []
    for values, scores in zip(predicted, judged, strict=True):
        array = np.asarray(values, np.float64)
        array = array.mean(axis=1) if array.ndim == 2 else array
        truth = np.asarray(scores, np.float64)
        x, y = array - array.mean(), truth - truth.mean()
        size = np.sqrt((x**2).sum() * (y**2).sum())
        if size > 1e-12:
            correlations.append(float((x * y).sum() / size))
    return float(np.mean(correlations)) if correlations else 0.0
