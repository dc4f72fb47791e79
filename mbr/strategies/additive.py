"""An additive model of the utility, fitted by least squares: what the scores so far predict for the other pairs.

A pairwise utility is mostly a difference of qualities, u(i, j) = q_i - q_j + r_ij, and with an antisymmetric matrix the
expected utilities are exactly the least-squares qualities on the graph of all pairs (HodgeRank, Jiang et al. 2011).
So a sparse graph of scored pairs estimates the same numbers together with their uncertainty: the remainder r_ij has
the variance of the residuals, and only pairs not scored are uncertain. A candidate compared with all others is exact.
An order bias, a constant that the first slot gets, is fitted beside the qualities. Other utilities are modelled as
u(i, j) = a_i + c_j + r_ij, with an effect of the pseudo-reference.

Terms are exact, so they move the estimates and add nothing to the uncertainty: the model is fitted to utilities alone.
`rho` is the size of the remainder, `tau` that of the order bias, both as shares of the differences in quality.
Work: O(N^3), one or two inversions of an N by N matrix.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mbr.decide import Certainty
from mbr.strategies.base import Floats, Pairs, PairScores, Segment
from mbr.strategies.complete import order_bias
from mbr.strategies.equations import equations_of

DRAWS = 256  # samples of the expected utilities
REACH = 4  # standard deviations a contender may be behind the best
LEAST_SPREAD = 0.02  # of the variance of the estimates counts as real at least
LEAST_PAIRS, MANY_PAIRS = 3, 10  # scored in both orders: to guess how the order bias varies, and to measure it


@dataclass(frozen=True)
class Fit:
    """Estimates [N] of the scores E_j[u(i, j)] + t(i), and their uncertainty.

    `noise` is the variance of the remainder, estimated with `freedom` degrees of freedom; `spread` that of the true
    qualities, `score_spread` that of qualities plus terms, `doubt` the mean variance of the errors of their estimates.
    """

    expected: Floats
    noise: float
    spread: float
    score_spread: float
    doubt: float
    freedom: int
    order_bias: Floats | None  # of the pairs scored in both orders
    _errors: Floats  # [N, parameters]: how errors of the parameters enter the estimates
    _carried: Floats  # [N, parameters]: the same times the parameters' covariance
    _loose: Floats  # [N, N]: standard deviations of what each pair adds beyond the model
    _antisymmetric: bool

    @property
    def deviations(self) -> Floats:
        """Standard deviations of the estimates [N]."""
        variances = (self._carried * self._errors).sum(axis=1) + (self._loose**2).sum(axis=1)
        return np.asarray(np.sqrt(np.maximum(variances, 0)))

    def covariance(self, candidates: Pairs) -> Floats:
        """Of the errors of some estimates, [candidates, candidates]."""
        own = np.diag((self._loose[candidates] ** 2).sum(axis=1))
        if self._antisymmetric:  # r_ij = -r_ji enters two of them
            between = self._loose[np.ix_(candidates, candidates)]
            own -= between * between.T
        return np.asarray(self._carried[candidates] @ self._errors[candidates].T + own)

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
    """The model fitted to the scored pairs; None where there are too few to tell noise from quality.

    With `shrink`, qualities are drawn towards their mean, or towards what the segment's hints predict, as far as
    their likely spread and the noise suggest: better for candidates with few comparisons.
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
    doubt = float(covariance.trace()) / size
    spread = max(float(qualities.var()) - doubt, LEAST_SPREAD * float(qualities.var()))
    if shrink and noise > 0:
        centre = np.zeros(len(matrix))
        if segment.hints is not None:
            centre[:size] = _regression(segment.hints, qualities)
        around = _likely_spread(qualities - centre[:size], covariance)
        spread = around + float(centre[:size].var())
        penalty = np.where(np.arange(len(matrix)) < size, noise / around, 0)
        inverse = np.linalg.inv(matrix + np.diag(penalty))
        parameters = centre + inverse @ (equations.right - matrix @ centre)
    expected, errors, unknown = equations.predict(parameters, noise)
    bias = order_bias(scores.values, scores.scored) if segment.antisymmetric else None
    loose = noise * unknown**2
    if bias is not None and len(bias) >= LEAST_PAIRS:
        # The part of the order bias that differs from pair to pair remains in scores made in one order only.
        by_chance = min(float(bias.var(ddof=1)), noise)
        loose += by_chance * np.where(scores.scored != scores.scored.T, segment.shares(), 0) ** 2
    return Fit(
        segment.with_terms(expected),
        noise,
        spread,
        _score_spread(spread, qualities, segment.terms),
        doubt,
        freedom,
        bias,
        errors,
        noise * errors @ inverse,
        np.sqrt(loose),
        segment.antisymmetric,
    )


def expected_regret(model: Fit, candidates: Pairs, samples: Floats, choice: int) -> float:
    """The expected loss of a choice, as a share of best minus mean, by samples of the scores of these candidates."""
    best = samples.max(axis=1)
    loss = float((best - samples[:, np.searchsorted(candidates, choice)]).mean())
    stake = float(best.mean() - model.expected.mean())
    return loss / stake if stake > 0 else 0.0


def certainty_of(scores: PairScores, segment: Segment, choice: int, draw: np.random.Generator) -> Certainty:
    """How certain a choice from some of the scores is.

    Estimates of candidates with few comparisons are drawn to what is likely for the list.
    """
    model = fit(scores, segment, shrink=True)
    if order_untested(scores, segment):
        return Certainty(None, None, *(ratios(model) if model else ()))
    if model is None:
        return Certainty() if _complete(scores, segment) else Certainty(None, None)
    contenders = model.contenders()
    candidates = np.union1d(contenders, [choice])
    regret = expected_regret(model, candidates, model.sample(candidates, draw), choice)
    return Certainty(regret, len(contenders), *ratios(model))


def order_untested(scores: PairScores, segment: Segment) -> bool:
    """Whether every pair has a score, but too few in both orders to tell what the other order would change."""
    met, twice = scores.scored | scores.scored.T, scores.scored & scores.scored.T
    pairs = segment.size * (segment.size - 1)
    return segment.antisymmetric and met.sum() == pairs and twice.sum() < min(2 * LEAST_PAIRS, pairs)


def _complete(scores: PairScores, segment: Segment) -> bool:
    """Whether all scores that matter are there."""
    met = scores.scored | scores.scored.T if segment.antisymmetric else scores.scored
    return bool((met | np.diag(~segment.diagonal)).all())


def ratios(model: Fit) -> tuple[float | None, float | None]:
    """rho and tau from some of the scores.

    Where few pairs were scored in both orders, rho includes the part of the order bias that differs between pairs.
    """
    if model.spread <= 0:
        return None, None
    differences = 2 * model.spread
    bias = model.order_bias
    by_chance = float(bias.var(ddof=1)) if bias is not None and len(bias) >= MANY_PAIRS else 0.0
    tau = None if bias is None else float(np.sqrt((bias**2).mean() / differences))
    return float(np.sqrt(max(model.noise - by_chance, 0) / differences)), tau


def _score_spread(spread: float, qualities: Floats, terms: Floats | None) -> float:
    """The variance of true qualities plus terms, given that of the true qualities and their estimates.

    Errors of the estimates are independent of the terms, so the covariance of both is estimated without bias.
    """
    if terms is None:
        return spread
    deviations = terms - terms.mean()
    return max(spread + float((deviations**2).mean() + 2 * (deviations * qualities).mean()), LEAST_SPREAD * spread)


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


def _regression(hints: Floats, qualities: Floats) -> Floats:
    """Linear prediction of the qualities from the hints; zero where the hints are all the same."""
    largest = float(np.abs(hints).max())
    scaled = hints / largest if largest > 0 else hints  # they may be huge
    deviations = scaled - scaled.mean()
    total = float(deviations @ deviations)
    return np.asarray(deviations * float(deviations @ qualities) / total) if total > 0 else np.zeros(len(hints))
