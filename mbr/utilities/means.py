"""The mean of all pseudo-references for each text of a list: the text itself left out, or with its own weight."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


class LeftOutMean:
    """For each text, the weighted mean of a value over all texts, in which the text itself has its own weight.

    Sums without one text are sums of all minus its part. The heaviest text may hold nearly all the weight (that of
    others may be 1e-260), and the difference would be noise: its sums are made without it.
    """

    def __init__(self, weights: Floats, own_weights: Floats) -> None:
        self._weights, self._own = weights, own_weights
        self._heaviest = int(np.argmax(weights)) if len(weights) else 0
        self._total = np.maximum(self._others(np.ones(len(weights))), 0) + own_weights
        # With no weight left, a text is its own pseudo-reference.
        self._alone = self._total <= 0
        self._total = np.where(self._alone, 1, self._total)

    def __call__(self, values: Floats) -> Floats:
        """The means of values, both [texts] or [texts, size]."""
        alone, own, total = (_along(part, values) for part in (self._alone, self._own, self._total))
        return np.where(alone, values, (self._others(values) + own * values) / total)

    def of_entries(self, text: Ints, gram: Ints, value: Floats) -> Floats:
        """The mean [entries] of the values of an n-gram, for each (text, n-gram) that has one; elsewhere it is 0."""
        part = self._weights[text] * value
        heaviest = text == self._heaviest
        others = np.maximum(np.bincount(gram, part)[gram] - part, 0)
        others[heaviest] = np.bincount(gram, np.where(heaviest, 0, part))[gram[heaviest]]
        return np.where(self._alone[text], value, (others + self._own[text] * value) / self._total[text])

    def _others(self, values: Floats) -> Floats:
        part = _along(self._weights, values) * values
        others: Floats = part.sum(axis=0) - part
        if len(part):
            others[self._heaviest] = np.delete(part, self._heaviest, axis=0).sum(axis=0)
        return others


def _along(part: NDArray[Any], values: Floats) -> NDArray[Any]:
    """A number of each text [texts], shaped to go with values [texts] or [texts, size]."""
    return part.reshape(-1, *[1] * (values.ndim - 1))
