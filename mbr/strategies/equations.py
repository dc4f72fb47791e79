"""The normal equations of the additive model: what least squares needs of the scored pairs.

`Difference` is for antisymmetric utilities, `TwoWay` for all others. The first N parameters are the qualities of the
candidates; met [N, N] marks the pairs with a score, values [N, N] holds the scores.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mbr.strategies.base import Floats, Pairs, PairScores, Segment

SURE = 5.0  # standard deviations
ROUNDING = 1e-5  # of the largest score


def equations_of(scores: PairScores, segment: Segment) -> Difference | TwoWay:
    """The equations that suit the relation of the utility. Terms do not enter: they are no part of the utility."""
    scored, shares = scores.scored, segment.shares()
    if segment.antisymmetric:
        values = (scores.values.astype(np.float64) - scores.values.T) / 2
        return Difference(scored | scored.T, values, scored.astype(np.float64) - scored.T, shares)
    own = scored.diagonal().copy()
    met = scored.copy()
    np.fill_diagonal(met, False)
    values = np.where(met, scores.values, 0).astype(np.float64)
    diagonal = np.where(own, scores.values.diagonal(), 0).astype(np.float64)
    return TwoWay(met, values, np.flatnonzero(met.any(axis=0)), shares, own, diagonal)


@dataclass(frozen=True)
class Difference:
    """Normal equations of u(i, j) = q_i - q_j + c, where c is what the first slot gets."""

    met: NDArray[np.bool_]
    values: Floats
    first: Floats  # [N, N]: 1 where i came first, -1 where second, 0 where both or never
    shares: Floats

    @property
    def freedom(self) -> int:
        return int(self.met.sum()) // 2 - len(self.met) + 1 - int(self.first.any())

    @property
    def level(self) -> Floats:
        """The direction that the scores do not determine: a constant added to all qualities."""
        return np.ones(len(self.met))

    @property
    def matrix(self) -> Floats:
        """The graph's Laplacian, less the part that the order constant explains."""
        laplacian = np.diag(self.met.sum(axis=1)) - self.met.astype(np.float64)
        slots = self.first.sum(axis=1)
        return np.asarray(laplacian - np.outer(slots, slots) / self._ordered)

    @property
    def right(self) -> Floats:
        slots = self.first.sum(axis=1)
        return np.asarray(self.values.sum(axis=1) - slots * (self.first * self.values).sum() / 2 / self._ordered)

    @property
    def _ordered(self) -> float:
        return max(float((self.first**2).sum()) / 2, 1.0)

    def _constant(self, qualities: Floats) -> float:
        """What the first slot gets."""
        return float((self.first * (self.values - qualities[:, None] + qualities)).sum()) / 2 / self._ordered

    def residual(self, qualities: Floats) -> float:
        """Sum of squares."""
        residuals = (self.values - qualities[:, None] + qualities) * self.met
        residuals -= self.first * self._constant(qualities)
        return float((residuals**2).sum()) / 2

    def predict(self, qualities: Floats, noise: float) -> tuple[Floats, Floats, Floats]:
        """Expected utilities [N], their errors [N, parameters], and the weight of each pair not scored [N, N].

        An order bias beyond doubt is subtracted from the scores; otherwise they stay as they are, and complete rows
        are exact.
        """
        differences = qualities[:, None] - qualities
        constant = self._constant(qualities)
        # The factor is about that of Student's t at one in a million.
        doubt = SURE * math.exp(10 / max(self.freedom, 1)) * (noise / self._ordered) ** 0.5
        doubt += ROUNDING * float(np.abs(self.values).max())
        values = self.values - self.first * constant if abs(constant) > doubt else self.values
        expected = (self.shares * np.where(self.met, values, differences)).sum(axis=1)
        unknown = np.where(self.met, 0, self.shares)
        np.fill_diagonal(unknown, 0)
        return expected, np.diag(unknown.sum(axis=1)) - unknown, unknown


@dataclass(frozen=True)
class TwoWay:
    """Normal equations of u(i, j) = a_i + c_j, for the pseudo-references that were used."""

    met: NDArray[np.bool_]
    values: Floats  # 0 where not met
    used: Pairs
    shares: Floats
    own: NDArray[np.bool_]
    diagonal: Floats

    @property
    def freedom(self) -> int:
        return int(self.met.sum()) - len(self.met) - len(self.used) + 1

    @property
    def level(self) -> Floats:
        """The direction that the scores do not determine: a constant moved from references to qualities."""
        return np.concatenate([np.ones(len(self.met)), -np.ones(len(self.used))])

    @property
    def matrix(self) -> Floats:
        table = self.met[:, self.used].astype(np.float64)
        return np.block([[np.diag(table.sum(axis=1)), table], [table.T, np.diag(table.sum(axis=0))]])

    @property
    def right(self) -> Floats:
        return np.concatenate([self.values.sum(axis=1), self.values[:, self.used].sum(axis=0)])

    def _additive(self, parameters: Floats) -> Floats:
        size = len(self.met)
        references = np.full(size, parameters[size:].mean())
        references[self.used] = parameters[size:]
        return np.asarray(parameters[:size, None] + references)

    def residual(self, parameters: Floats) -> float:
        """Sum of squares."""
        return float((((self.values - self._additive(parameters)) * self.met) ** 2).sum())

    def predict(self, parameters: Floats, noise: float) -> tuple[Floats, Floats, Floats]:
        """The same three. Effects of references never used are the same for all, so their errors are left out."""
        scored = self.met | np.diag(self.own)
        values = self.values + np.diag(self.diagonal)
        expected = (self.shares * np.where(scored, values, self._additive(parameters))).sum(axis=1)
        unknown = np.where(scored, 0, self.shares)
        return expected, np.hstack([np.diag(unknown.sum(axis=1)), unknown[:, self.used]]), unknown
