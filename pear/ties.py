"""Pairwise accuracy with calibrated ties (acc_eq*, Deutsch et al. 2023): the search for the best threshold.

A pair of translations is right if the metric orders it as people do, or calls it a tie where people do. A metric's tie
is a difference of at most eps, and eps is chosen to get most pairs right. Raising eps wins pairs that people call ties
and loses pairs that were in the right order, so only 0 and the sizes of the former need to be tried: two sorts and a
search, O(P log P) for P pairs.

    >>> calibrate(np.array([0.5, 2.0]), np.array([0.1, 0.2, 1.0]))
    (4.0, 0.2)
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

# Weighted sums in another order differ in the last digits; thresholds that are equal but for that are equally good.
EQUAL = 1e-12


def calibrate(
    ordered: Floats, tied: Floats, ordered_weight: Floats | None = None, tied_weight: Floats | None = None
) -> tuple[float, float]:
    """How much is right with the best threshold (pairs, or their weight), and that threshold: the smallest of the best.

    `ordered` holds the sizes of differences that have the sign people gave, `tied` those of pairs that people call
    ties; without weights a pair counts 1.
    """
    if ordered_weight is None or tied_weight is None:
        ordered, tied = np.sort(ordered), np.sort(tied)
        thresholds = np.concatenate([[0.0], tied])
        lost = np.searchsorted(ordered, thresholds, side="right")
        # The k-th threshold wins k ties; of equal thresholds the last, which wins them all, is the best.
        right = len(ordered) - lost + np.arange(len(thresholds))
        best = int(np.argmax(right))
        return float(right[best]), float(thresholds[best])
    ordered, lost_weight = _running(ordered, ordered_weight)
    tied, won_weight = _running(tied, tied_weight)
    thresholds = np.concatenate([[0.0], tied])
    gain = lost_weight[-1] - lost_weight[np.searchsorted(ordered, thresholds, side="right")] + won_weight
    best = int(np.argmax(gain >= gain.max() - EQUAL * max(gain.max(), 1.0)))
    return float(gain[best]), float(thresholds[best])


def _running(sizes: Floats, weights: Floats) -> tuple[Floats, Floats]:
    """Sizes in order, and the weight of the first k of them for k = 0, 1, ..."""
    order = np.argsort(sizes, kind="stable")
    return sizes[order], np.concatenate([[0.0], np.cumsum(weights[order])])
