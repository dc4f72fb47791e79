"""How certain a choice from some of the scores is, for `halving` and `prune`, whose decisions assume nothing.

Of an antisymmetric utility, samples of the true scores tell (`mbr.strategies.posterior`). Other utilities are modelled
as u(i, j) = a_i + c_j + r_ij, a quality, an effect of the pseudo-reference and a remainder, and fitted by least
squares: the remainder has the variance of the residuals, and only pairs not scored are uncertain. A candidate compared
with all others is exact. Work for these: O(N^3), one or two inversions.

Terms are exact, so they move the estimates and add nothing to the uncertainty: the model is fitted to utilities alone.
`rho` is the size of the remainder, `tau` that of the order bias, both as shares of the differences in quality.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from mbr.decide import Certainty
from mbr.strategies.base import Floats, Pairs, PairScores, Segment
from mbr.strategies.comparisons import Comparisons
from mbr.strategies.equations import equations_of
from mbr.strategies.posterior import SWEEPS, Chain
from mbr.strategies.standing import REACH, standing_of

DRAWS = 256  # samples of the expected utilities
LEAST_SPREAD = 0.02  # of the variance of the estimates counts as real at least


@dataclass(frozen=True)
class Fit:
    """Estimates [N] of the scores E_j[u(i, j)] + t(i), and their uncertainty.

    `noise` is the variance of the remainder, estimated with `freedom` degrees of freedom; `spread` that of the true
    qualities.
    """

    expected: Floats
    noise: float
    spread: float
    freedom: int
    _errors: Floats  # [N, parameters]: how errors of the parameters enter the estimates
    _carried: Floats  # [N, parameters]: the same times the parameters' covariance
    _loose: Floats  # [N]: variances of what pairs not scored add beyond the model

    @property
    def deviations(self) -> Floats:
        """Standard deviations of the estimates [N]."""
        return np.asarray(np.sqrt(np.maximum((self._carried * self._errors).sum(axis=1) + self._loose, 0)))

    def covariance(self, candidates: Pairs) -> Floats:
        """Of the errors of some estimates, [candidates, candidates]."""
        return np.asarray(self._carried[candidates] @ self._errors[candidates].T + np.diag(self._loose[candidates]))

    def contenders(self) -> Pairs:
        """The candidates that may be the best."""
        best = int(self.expected.argmax())
        reach = REACH * self.deviations
        return np.flatnonzero(self.expected + reach >= self.expected[best] - reach[best])

    def sample(self, candidates: Pairs, draw: np.random.Generator) -> Floats:
        """Samples of the true scores of some candidates, [DRAWS, candidates].

        Student's t rather than normal: the noise is itself estimated.
        """
        covariance = self.covariance(candidates)
        largest = covariance.diagonal().max()
        if largest <= 0:
            return np.tile(self.expected[candidates], (DRAWS, 1))
        root = np.linalg.cholesky(covariance + np.eye(len(candidates)) * largest * 1e-8)
        errors = draw.normal(size=(DRAWS, len(candidates))) @ root.T
        errors *= np.sqrt(self.freedom / draw.chisquare(self.freedom, size=(DRAWS, 1)))
        return np.asarray(self.expected[candidates] + errors)


def fit(scores: PairScores, segment: Segment, *, shrink: bool = False) -> Fit | None:
    """The two-way model fitted to the scored pairs; None where there are too few to tell noise from quality.

    With `shrink`, qualities are drawn towards their mean, as far as their likely spread and the noise suggest: better
    for candidates with few comparisons.
    """
    equations = equations_of(scores, segment)
    size, freedom = segment.size, equations.freedom
    if freedom < 1 or not equations.met.any(axis=1).all():
        return None
    # Qualities are determined up to a constant; this makes their sum zero.
    matrix = equations.matrix
    matrix[:size, :size] += 1 / size
    inverse = np.asarray(np.linalg.inv(matrix), np.float64)
    inverse -= np.outer(equations.level, equations.level) / size
    parameters = inverse @ equations.right
    qualities = parameters[:size]
    noise = equations.residual(parameters) / freedom
    covariance = noise * _centred(inverse[:size, :size])
    spread = max(float(qualities.var()) - float(covariance.trace()) / size, LEAST_SPREAD * float(qualities.var()))
    if shrink and noise > 0:
        spread = _likely_spread(qualities, covariance)
        penalty = np.where(np.arange(len(matrix)) < size, noise / spread, 0)
        inverse = np.linalg.inv(matrix + np.diag(penalty))
        parameters = inverse @ equations.right
    expected, errors, unknown = equations.predict(parameters)
    loose = noise * (unknown**2).sum(axis=1)
    return Fit(segment.with_terms(expected), noise, spread, freedom, errors, noise * errors @ inverse, loose)


def certainty_of(scores: PairScores, segment: Segment, choice: int, draw: np.random.Generator) -> Certainty:
    """How certain a choice from some of the scores is.

    Estimates of candidates with few comparisons are drawn to what is likely for the list.
    """
    if segment.antisymmetric:
        return _certainty_of_differences(scores, segment, choice, draw)
    model = fit(scores, segment, shrink=True)
    if model is None:
        return Certainty() if _complete(scores, segment) else Certainty(None, None)
    contenders = model.contenders()
    candidates = np.union1d(contenders, [choice])
    samples = model.sample(candidates, draw)
    best = samples.max(axis=1)
    loss = float((best - samples[:, np.searchsorted(candidates, choice)]).mean())
    stake = float(best.mean() - model.expected.mean())
    rho = math.sqrt(model.noise / (2 * model.spread)) if model.spread > 0 else None
    return Certainty(loss / stake if stake > 0 else 0.0, len(contenders), rho)


def _certainty_of_differences(
    scores: PairScores, segment: Segment, choice: int, draw: np.random.Generator
) -> Certainty:
    pairs = Comparisons.among(scores)
    freedom = len(pairs) - segment.size + 1 - int(len(pairs.biases) < len(pairs))
    if freedom < 1 or not pairs.degrees.all():
        both = scores.scored | np.eye(segment.size, dtype=np.bool_)
        return Certainty() if both.all() else Certainty(None, None)
    sweeps = Chain(segment, draw).run(pairs, 2 * SWEEPS)
    standing = standing_of(sweeps, pairs, segment, scores.scored | scores.scored.T, draw, include=[choice])
    if pairs.order_untested:
        return Certainty(None, None, standing.rho, standing.tau)
    return Certainty(standing.regret(choice), len(standing.contenders), standing.rho, standing.tau)


def _complete(scores: PairScores, segment: Segment) -> bool:
    """Whether all scores that matter are there."""
    return bool((scores.scored | np.diag(~segment.diagonal)).all())


def _centred(matrix: Floats) -> Floats:
    """The covariance of numbers less their mean, from that of the numbers."""
    rows = matrix - matrix.mean(axis=0)
    return np.asarray(rows - rows.mean(axis=1)[:, None])


def _likely_spread(qualities: Floats, covariance: Floats) -> float:
    """The variance of true qualities that makes these estimates, with this covariance of errors, most likely."""
    variances, basis = np.linalg.eigh(covariance)
    squares = (basis.T @ qualities)[1:] ** 2  # without the mean, which is fixed
    total = float(squares.mean())
    spreads = total * np.geomspace(1e-3, 2, 60)[:, None]
    whole = spreads + np.maximum(variances[1:], 0)
    return float(spreads[(np.log(whole) + squares / whole).sum(axis=1).argmin(), 0]) if total > 0 else 1.0
