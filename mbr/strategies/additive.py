"""What the scores so far say about the pairs not scored: an additive model of the utility, fitted by least squares.

A pairwise utility is mostly a difference of qualities, u(i, j) = q_i - q_j + r_ij, and with an antisymmetric matrix the
expected utilities are exactly the least-squares qualities on the graph of all pairs (HodgeRank, Jiang et al. 2011).
So a sparse graph of scored pairs estimates the same numbers, and says how far off they may be: the remainder r_ij has
the variance of the residuals, and only pairs not scored are uncertain. A candidate that has met everybody is exact.
An order bias, a constant that whoever comes first gets, is fitted beside the qualities. Other utilities are taken as
u(i, j) = a_i + c_j + r_ij, with an effect of the pseudo-reference.

`rho` is the size of the remainder, `tau` that of the order bias, both as shares of the differences in quality.
Work: O(N^3) of the smallest sort, one or two inversions of an N by N matrix.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mbr.decide import Certainty
from mbr.strategies.base import Board, Floats, Pairs, Segment
from mbr.strategies.complete import order_bias
from mbr.strategies.equations import equations_of

DRAWS = 256  # samples of the expected utilities
REACH = 4  # how many standard deviations a candidate may be behind and still contend
LEAST_SPREAD = 0.02  # of the variance of the estimates is taken as real at least
LEAST_PAIRS, MANY_PAIRS = 3, 10  # scored in both orders: to guess how the order bias varies, and to know it


@dataclass(frozen=True)
class Fit:
    """Estimates of the expected utilities [N] and what is uncertain about them.

    `noise` is the variance of the remainder, with so many degrees of `freedom`; `spread` that of the true qualities,
    `doubt` the mean variance of their estimates.
    """

    expected: Floats
    noise: float
    spread: float
    doubt: float
    freedom: int
    order_bias: Floats | None  # of the pairs scored in both orders
    _errors: Floats  # [N, parameters]: how errors of the parameters enter the estimates
    _carried: Floats  # [N, parameters]: the same times the parameters' covariance
    _loose: Floats  # [N, N]: standard deviations of what each pair adds that no score tells
    _antisymmetric: bool

    @property
    def deviations(self) -> Floats:
        """Standard deviations of the estimates [N]."""
        variances = (self._carried * self._errors).sum(axis=1) + (self._loose**2).sum(axis=1)
        return np.asarray(np.sqrt(np.maximum(variances, 0)))

    def covariance(self, places: Pairs) -> Floats:
        """Of the errors of some estimates, [places, places]."""
        own = np.diag((self._loose[places] ** 2).sum(axis=1))
        if self._antisymmetric:  # r_ij = -r_ji enters two of them
            between = self._loose[np.ix_(places, places)]
            own -= between * between.T
        return np.asarray(self._carried[places] @ self._errors[places].T + own)

    def contenders(self) -> Pairs:
        """Who may still be the best."""
        best = int(self.expected.argmax())
        reach = REACH * self.deviations
        return np.flatnonzero(self.expected + reach >= self.expected[best] - reach[best])

    def sample(self, places: Pairs, draw: np.random.Generator) -> Floats:
        """Expected utilities of these candidates as they may be in truth, [DRAWS, places].

        Student's t rather than normal: the noise is itself estimated.
        """
        covariance = self.covariance(places)
        largest = covariance.diagonal().max()
        if largest <= 0:
            return np.tile(self.expected[places], (DRAWS, 1))
        root = np.linalg.cholesky(covariance + np.eye(len(places)) * largest * 1e-8)
        errors = draw.normal(size=(DRAWS, len(places))) @ root.T
        errors *= np.sqrt(self.freedom / draw.chisquare(self.freedom, size=(DRAWS, 1)))
        return np.asarray(self.expected[places] + errors)


def fit(board: Board, segment: Segment, *, shrink: bool = False) -> Fit | None:
    """The model fitted to the scored pairs; None where there are too few to tell noise from quality.

    With `shrink`, qualities are drawn towards their mean, or towards what the segment's hints predict, as far as
    their likely spread and the noise suggest: better for candidates that met few others.
    """
    equations = equations_of(board, segment)
    size, freedom = segment.size, equations.freedom
    if freedom < 1 or not equations.met.any(axis=1).all():
        return None
    # Qualities are known up to a constant; this makes their sum zero.
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
    bias = order_bias(board.values, board.scored) if segment.antisymmetric else None
    loose = noise * unknown**2
    if bias is not None and len(bias) >= LEAST_PAIRS:
        # What of the order bias differs from pair to pair stays in the scores that were made in one order only.
        by_chance = min(float(bias.var(ddof=1)), noise)
        loose += by_chance * np.where(board.scored != board.scored.T, segment.shares(), 0) ** 2
    return Fit(
        expected,
        noise,
        spread,
        doubt,
        freedom,
        bias,
        errors,
        noise * errors @ inverse,
        np.sqrt(loose),
        segment.antisymmetric,
    )


def expected_regret(found: Fit, places: Pairs, samples: Floats, choice: int) -> float:
    """What a choice may lose, as a share of best minus mean, by samples of what these candidates may be worth."""
    best = samples.max(axis=1)
    loss = float((best - samples[:, np.searchsorted(places, choice)]).mean())
    stake = float(best.mean() - found.expected.mean())
    return loss / stake if stake > 0 else 0.0


def certainty_of(board: Board, segment: Segment, choice: int, draw: np.random.Generator) -> Certainty:
    """How sure a choice from some of the scores is.

    Candidates that met few others count with what is likely for the list, not with their few scores alone.
    """
    found = fit(board, segment, shrink=True)
    if found is None:
        return Certainty() if _complete(board, segment) else Certainty(None, None)
    contenders = found.contenders()
    places = np.union1d(contenders, [choice])
    regret = expected_regret(found, places, found.sample(places, draw), choice)
    return Certainty(regret, len(contenders), *ratios(found))


def _complete(board: Board, segment: Segment) -> bool:
    """Whether all scores that matter are there."""
    known = board.scored | board.scored.T if segment.antisymmetric else board.scored
    return bool((known | np.diag(~segment.diagonal)).all())


def ratios(found: Fit) -> tuple[float | None, float | None]:
    """rho and tau from some of the scores.

    Where few pairs were scored in both orders, rho includes what of the order bias differs from pair to pair.
    """
    if found.spread <= 0:
        return None, None
    differences = 2 * found.spread
    bias = found.order_bias
    by_chance = float(bias.var(ddof=1)) if bias is not None and len(bias) >= MANY_PAIRS else 0.0
    tau = None if bias is None else float(np.sqrt((bias**2).mean() / differences))
    return float(np.sqrt(max(found.noise - by_chance, 0) / differences)), tau


def _centred(matrix: Floats) -> Floats:
    """Of the covariance of some numbers, that of the numbers less their mean."""
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
    """What the hints say about the qualities, linearly; nothing where the hints are all the same."""
    largest = float(np.abs(hints).max())
    scaled = hints / largest if largest > 0 else hints  # they may be huge
    deviations = scaled - scaled.mean()
    total = float(deviations @ deviations)
    return np.asarray(deviations * float(deviations @ qualities) / total) if total > 0 else np.zeros(len(hints))
