"""The likelihood of the scored differences at any noise and spread, whatever the qualities are.

With d [pairs] the differences, B q those of the qualities and V the variances of the remainders at a noise of one,

    d ~ N(0, noise V + spread B (I + X X') B')

Of few pairs, one spectrum of the covariance scaled by V makes each value O(pairs), after O(pairs^3). Of more, each
value takes a system on the graph (`mbr.strategies.systems`). Both agree within rounding, up to a constant.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from mbr.strategies.base import Floats
from mbr.strategies.comparisons import Comparisons
from mbr.strategies.systems import Features, System

FEW = 64  # pairs, up to which a spectrum costs less than the systems of a few values

Likelihood = Callable[[float, float], float]


def log_likelihood(pairs: Comparisons, values: Floats, variances: Floats, features: Features) -> Likelihood:
    """The logarithm, up to a constant, as a function of noise and spread; `values` are [pairs, 1]."""
    return (by_spectrum if len(pairs) <= FEW else by_systems)(pairs, values, variances, features)


def by_spectrum(pairs: Comparisons, values: Floats, variances: Floats, features: Features) -> Likelihood:
    scale = 1 / np.sqrt(variances)
    evidence = pairs.minus(features.values)
    covariance = (pairs.shared + evidence @ evidence.T) * np.outer(scale, scale)
    spectrum, axes = np.linalg.eigh(covariance)
    spectrum = np.maximum(spectrum, 0)
    squares = (axes.T @ (scale * values[:, 0])) ** 2

    def likelihood(noise: float, spread: float) -> float:
        whole = noise + spread * spectrum
        return -float(np.log(whole).sum() + (squares / whole).sum()) / 2

    return likelihood


def by_systems(pairs: Comparisons, values: Floats, variances: Floats, features: Features) -> Likelihood:
    def likelihood(noise: float, spread: float) -> float:
        weights = 1 / (noise * variances)
        system = System(pairs, weights, -1, 1 / spread, features)
        along = weights[:, None] * values
        right = pairs.collect(along, -along)
        log, solution = system.log_determinant(right)
        squares = float((along * values).sum() - (right * solution).sum())
        return -(log + pairs.size * math.log(spread) + len(pairs) * math.log(noise) + squares) / 2

    return likelihood
