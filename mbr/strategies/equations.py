"""The normal equations of the two-way model u(i, j) = a_i + c_j: what least squares needs of the scored pairs.

The first N parameters are the qualities of the candidates, the others the effects of the pseudo-references that were
used.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mbr.strategies.base import Floats, Pairs, PairScores, Segment


def equations_of(scores: PairScores, segment: Segment) -> TwoWay:
    """Terms do not enter: they are no part of the utility."""
    scored = scores.scored
    own = scored.diagonal().copy()
    met = scored.copy()
    np.fill_diagonal(met, False)
    values = np.where(met, scores.values, 0).astype(np.float64)
    diagonal = np.where(own, scores.values.diagonal(), 0).astype(np.float64)
    return TwoWay(met, values, np.flatnonzero(met.any(axis=0)), segment.shares(), own, diagonal)


@dataclass(frozen=True)
class TwoWay:
    """met [N, N] marks the pairs with a score, off the diagonal."""

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

    def predict(self, parameters: Floats) -> tuple[Floats, Floats, Floats]:
        """Expected utilities [N], their errors [N, parameters], and the weight of each pair not scored [N, N].

        Effects of references never used are the same for all, so their errors are left out.
        """
        scored = self.met | np.diag(self.own)
        values = self.values + np.diag(self.diagonal)
        expected = (self.shares * np.where(scored, values, self._additive(parameters))).sum(axis=1)
        unknown = np.where(scored, 0, self.shares)
        return expected, np.hstack([np.diag(unknown.sum(axis=1)), unknown[:, self.used]]), unknown
