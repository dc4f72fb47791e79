"""Linear systems on the graph of comparisons: a weighted Laplacian (signed or not) plus a multiple of the identity.

`solve` answers for several right-hand sides at once. Candidates that were never compared, or once, are eliminated
exactly, which leaves a small core: the hubs of the screen and the contenders. A core of up to `DENSE` is solved as a
dense matrix, O(core^3); a larger one by conjugate gradients (Hestenes & Stiefel 1952) with the diagonal as
preconditioner, O(pairs) per step, some tens of steps whatever the size, because the graph is a random one. `dense` is
the plain matrix; all ways agree within `PRECISION`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from mbr.strategies.base import Floats
from mbr.strategies.comparisons import Comparisons

DENSE = 1000  # candidates in the core, at most, for a dense matrix
PRECISION = 1e-6  # of the right-hand side, for conjugate gradients
STEPS = 1000  # at most


@dataclass(frozen=True)
class Features:
    """X [N, kinds] of candidates with the covariance I + X X', whose inverse is I - X G X'; there may be no kinds."""

    values: Floats

    @property
    def kinds(self) -> int:
        return int(self.values.shape[1])

    @cached_property
    def inner(self) -> Floats:
        """The inverse of G [kinds, kinds]."""
        return np.asarray(np.eye(self.kinds) + self.values.T @ self.values)

    @cached_property
    def gram(self) -> Floats:
        """G."""
        return np.asarray(np.linalg.inv(self.inner), np.float64)

    @cached_property
    def root(self) -> Floats:
        """The lower triangular R with R R' = G."""
        return np.asarray(np.linalg.cholesky(self.gram))

    @cached_property
    def log_determinant(self) -> float:
        """That of the covariance."""
        return float(np.linalg.slogdet(self.inner)[1])


@dataclass(frozen=True)
class System:
    """matrix = sum over pairs of weight (e_a + sign e_b)(e_a + sign e_b)' + ridge (I - X G X').

    `sign` is -1 for differences and 1 for sums; X and G are those of the features.
    """

    pairs: Comparisons
    weights: Floats  # [pairs]
    sign: int
    ridge: float
    features: Features

    def solve(self, right: Floats) -> Floats:
        """The solutions [N, columns] for these right-hand sides."""
        if len(self.pairs.leaves.core) > DENSE:
            return self.conjugate_gradients(right)
        return self._with_features(right, self._core())[0]

    def log_determinant(self, right: Floats) -> tuple[float, Floats]:
        """That of the matrix, and the solutions; for a core of up to `DENSE`."""
        core = self._core()
        solution, log = self._with_features(right, core)
        unmet = self.pairs.size - len(self.pairs.leaves.core) - len(self.pairs.leaves.candidates)
        log += float(np.linalg.slogdet(core)[1]) + unmet * math.log(self.ridge)
        return log + float(np.log(self.weights[self.pairs.leaves.pairs] + self.ridge).sum()), solution

    def _with_features(self, right: Floats, core: Floats) -> tuple[Floats, float]:
        """The solutions, and what the features add to the logarithm of the determinant.

        They change the matrix by a product of low rank (Woodbury).
        """
        kinds, features = self.features.kinds, self.features.values
        if not kinds:
            return self._by_elimination(right, core), 0.0
        both = self._by_elimination(np.concatenate([right, features], axis=1), core)
        plain, image = both[:, :-kinds], both[:, -kinds:]
        inner = self.features.inner / self.ridge - features.T @ image
        log = kinds * math.log(self.ridge) + float(np.linalg.slogdet(inner)[1]) - self.features.log_determinant
        return np.asarray(plain + image @ np.linalg.solve(inner, features.T @ plain)), log

    def _core(self) -> Floats:
        """The matrix of the core, after the leaves are eliminated, without the features."""
        leaves = self.pairs.leaves
        first, second = self.pairs.first[leaves.core_pairs], self.pairs.second[leaves.core_pairs]
        size, core = self.pairs.size, leaves.core
        weights, inner = self.weights[leaves.pairs], self.weights[leaves.core_pairs]
        diagonal = np.full(size, self.ridge)
        diagonal += np.bincount(leaves.parents, weights * self.ridge / (weights + self.ridge), size)
        diagonal += np.bincount(first, inner, size) + np.bincount(second, inner, size)
        place = np.empty(size, np.intp)
        place[core] = np.arange(len(core))
        matrix = np.zeros((len(core), len(core)))
        matrix[place[first], place[second]] = matrix[place[second], place[first]] = self.sign * inner
        matrix.flat[:: len(core) + 1] += diagonal[core]
        return matrix

    def _by_elimination(self, right: Floats, core: Floats) -> Floats:
        leaves = self.pairs.leaves
        weights = self.weights[leaves.pairs]
        whole = weights + self.ridge
        pull = (self.sign * weights / whole)[:, None]
        reduced = right.copy()
        np.subtract.at(reduced, leaves.parents, pull * right[leaves.candidates])
        solution = right / self.ridge  # of candidates without a comparison
        solution[leaves.core] = np.linalg.solve(core, reduced[leaves.core])
        own = right[leaves.candidates] / whole[:, None]
        solution[leaves.candidates] = own - pull * solution[leaves.parents]
        return np.asarray(solution)

    def dense(self) -> Floats:
        first, second = self.pairs.first, self.pairs.second
        matrix = np.zeros((self.pairs.size, self.pairs.size))
        matrix[first, second] = matrix[second, first] = self.sign * self.weights
        if self.features.kinds:
            matrix -= self.ridge * self.features.values @ self.features.gram @ self.features.values.T
        matrix.flat[:: self.pairs.size + 1] += self.diagonal()
        return matrix

    def diagonal(self) -> Floats:
        """Without the part of the features, which is small."""
        weights = self.weights[:, None]
        return np.asarray(self.pairs.collect(weights, weights)[:, 0] + self.ridge)

    def times(self, vectors: Floats) -> Floats:
        """The product with the matrix, O(pairs)."""
        pairs = self.pairs
        along = self.weights[:, None] * (vectors[pairs.first] + self.sign * vectors[pairs.second])
        features = self.features.values
        inside = vectors - features @ (self.features.gram @ (features.T @ vectors))
        return np.asarray(pairs.collect(along, self.sign * along) + self.ridge * inside)

    def conjugate_gradients(self, right: Floats) -> Floats:
        solution, residual = np.zeros_like(right), right.copy()
        scale = 1 / self.diagonal()[:, None]
        direction = scale * residual
        size = (residual * direction).sum(axis=0)
        goal = PRECISION**2 * size
        for _ in range(STEPS):
            if (size <= goal).all():
                break
            image = self.times(direction)
            step = size / np.maximum((direction * image).sum(axis=0), 1e-300)
            solution += step * direction
            residual -= step * image
            scaled = scale * residual
            before, size = size, (residual * scaled).sum(axis=0)
            direction = scaled + size / np.maximum(before, 1e-300) * direction
        return solution
