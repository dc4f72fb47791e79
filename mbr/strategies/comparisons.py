"""The scored pairs of one list as arrays, and the sums over them that estimates need, in O(pairs).

A pair that was scored in one order has one number, d = u(a, b), with whatever the order adds. A pair scored in both
orders has two: the difference d = (u(a, b) - u(b, a)) / 2 and the order bias (u(a, b) + u(b, a)) / 2.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from mbr.strategies.base import Floats, Pairs, PairScores, Segment

LEAST_TWICE = 3  # pairs scored in both orders, to tell what the other order would change
ROUNDING = 1e-5  # of the largest score: an order bias below it is none


@dataclass(frozen=True)
class Leaves:
    """Candidates with one comparison, the opponent and the pair of each; the other candidates that were compared, and
    their pairs with each other."""

    candidates: Pairs
    parents: Pairs
    pairs: Pairs
    core: Pairs
    core_pairs: Pairs


@dataclass(frozen=True)
class Comparisons:
    """Each pair once, those scored in one order first, then those scored in both.

    `first` and `second` [pairs] are the candidates, by the slot they had; `differences` [pairs] the numbers d, and
    `biases` the order biases of those scored in both orders.
    """

    size: int
    first: Pairs
    second: Pairs
    differences: Floats
    biases: Floats

    @classmethod
    def of(cls, pairs: Pairs, scores: NDArray[np.floating], size: int) -> Comparisons:
        """From scored pairs [pairs, 2], none of them twice in the same order."""
        first, second = pairs.T
        values = np.asarray(scores, np.float64)
        keys, other = first * size + second, second * size + first
        sorting = np.argsort(keys, kind="stable")
        places = np.searchsorted(keys, other, sorter=sorting).clip(max=len(keys) - 1)
        twin = sorting[places]  # where the other order is, if anywhere
        twice = keys[twin] == other
        once, both = np.flatnonzero(~twice), np.flatnonzero(twice & (first < second))
        chosen = np.concatenate([once, both])
        differences = np.concatenate([values[once], (values[both] - values[twin[both]]) / 2])
        return cls(size, first[chosen], second[chosen], differences, (values[both] + values[twin[both]]) / 2)

    @classmethod
    def among(cls, scores: PairScores) -> Comparisons:
        pairs = np.argwhere(scores.scored)
        return cls.of(pairs, scores.values[tuple(pairs.T)], len(scores.scored))

    def __len__(self) -> int:
        return len(self.first)

    @property
    def once(self) -> int:
        """How many were scored in one order only."""
        return len(self) - len(self.biases)

    @cached_property
    def degrees(self) -> Pairs:
        """How many others each candidate has met [N]."""
        return np.bincount(self.first, minlength=self.size) + np.bincount(self.second, minlength=self.size)

    @cached_property
    def met(self) -> Pairs:
        """The candidates that were compared."""
        return np.flatnonzero(self.degrees)

    @property
    def freedom(self) -> int:
        """How many pairs there are beyond the ones that determine the qualities, if the graph is connected."""
        return len(self) - len(self.met) + 1

    @cached_property
    def order_matters(self) -> bool:
        """Whether pairs in both orders show an order bias. Without such a pair nothing is known of it."""
        largest = float(np.abs(self.differences).max(initial=0))
        return float(np.abs(self.biases).max(initial=0)) > ROUNDING * largest

    @property
    def order_untested(self) -> bool:
        """Whether every pair has a score, but too few in both orders to tell what the other order would change."""
        everything = self.size * (self.size - 1) // 2
        return len(self) == everything and len(self.biases) < min(LEAST_TWICE, everything)

    @cached_property
    def _ends(self) -> tuple[Pairs, Pairs, Pairs]:
        ends = np.concatenate([self.first, self.second])
        order = np.argsort(ends, kind="stable")
        return order, self.met, np.concatenate([[0], np.cumsum(self.degrees[self.met])[:-1]])

    @cached_property
    def leaves(self) -> Leaves:
        """The candidates that met one other, which is then no leaf itself, and the rest of the graph."""
        ends = self.degrees[self.first] == 1, self.degrees[self.second] == 1
        by_first, by_second = np.flatnonzero(ends[0]), np.flatnonzero(ends[1] & ~ends[0])
        leaves = np.concatenate([self.first[by_first], self.second[by_second]])
        parents = np.concatenate([self.second[by_first], self.first[by_second]])
        core = self.degrees > 0
        core[leaves] = False
        return Leaves(
            leaves,
            parents,
            np.concatenate([by_first, by_second]),
            np.flatnonzero(core),
            np.flatnonzero(~ends[0] & ~ends[1]),
        )

    @cached_property
    def shared(self) -> Floats:
        """The products B B' [pairs, pairs] of the rows e_a - e_b: how pairs share their candidates."""
        first, second = self.first[:, None], self.second[:, None]
        same = (first == self.first).astype(np.float64) + (second == self.second)
        return np.asarray(same - (first == self.second) - (second == self.first))

    def minus(self, numbers: Floats) -> Floats:
        """From numbers of candidates [N, ...] their differences in each pair [pairs, ...]."""
        return np.asarray(numbers[self.first] - numbers[self.second])

    def plus(self, numbers: Floats) -> Floats:
        """The same, sums."""
        return np.asarray(numbers[self.first] + numbers[self.second])

    def collect(self, of_first: Floats, of_second: Floats) -> Floats:
        """The sum over each candidate's pairs [N, columns], of numbers [pairs, columns] for their two candidates."""
        order, met, starts = self._ends
        sums = np.zeros((self.size, *of_first.shape[1:]))
        if len(met):
            sums[met] = np.add.reduceat(np.concatenate([of_first, of_second])[order], starts, axis=0)
        return sums


class ExpectedUtility:
    """E_i = sum_j w_ij d_ij from the scored pairs, and from qualities for all others: d_ij = q_i - q_j."""

    def __init__(self, pairs: Comparisons, segment: Segment) -> None:
        weights = segment.weights
        self.pairs = pairs
        self.weights = weights
        self.whole = weights.sum() - weights + segment.own_weights  # the divisor of each candidate
        self._for_first = weights[pairs.second] / self.whole[pairs.first]
        self._for_second = weights[pairs.first] / self.whole[pairs.second]
        met = pairs.collect(self._for_first[:, None], self._for_second[:, None])[:, 0]
        self.unknown = np.maximum((weights.sum() - weights) / self.whole - met, 0)  # share of pairs without a score
        self.unknown[pairs.degrees == len(weights) - 1] = 0

    def __call__(self, values: Floats, qualities: Floats) -> Floats:
        """[N, draws] from the scored differences [pairs, draws] and the qualities [N, draws]."""
        pairs, weights = self.pairs, self.weights[:, None]
        first, second = self._for_first[:, None], self._for_second[:, None]
        level = self.weights @ qualities / self.weights.sum()
        qualities = qualities - level  # the sums below are then small
        seen = pairs.collect(first * (values + qualities[pairs.second]), -second * (values - qualities[pairs.first]))
        rest = -weights * qualities / self.whole[:, None]  # minus that of all, which is zero
        return np.asarray(seen + self.unknown[:, None] * qualities - rest)

    def remainder_variances(self, scales: Floats) -> Floats:
        """The variance [N] that pairs without a score add, where that of pair (i, j) is scales_i scales_j."""
        pairs = self.pairs
        squares = self.weights**2 * scales
        met = pairs.collect(squares[pairs.second][:, None], squares[pairs.first][:, None])[:, 0]
        rest = np.maximum(squares.sum() - squares - met, 0)
        rest[pairs.degrees == len(squares) - 1] = 0
        return np.asarray(scales * rest / self.whole**2)
