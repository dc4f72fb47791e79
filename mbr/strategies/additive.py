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

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from mbr.decide import Certainty
from mbr.strategies.base import Board, Floats, Outcome, Pairs, Segment

DRAWS = 256  # samples of the expected utilities
REACH = 4  # how many standard deviations a candidate may be behind and still contend
LEAST_SPREAD = 0.02  # of the variance of the estimates is taken as real at least


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
    equations = (_antisymmetric if segment.antisymmetric else _two_way)(board, segment)
    size, freedom = segment.size, equations.freedom
    if freedom < 1 or not equations.met.any(axis=1).all():
        return None
    # Qualities are known up to a constant: without this term nothing would fix it.
    matrix = equations.matrix + np.outer(equations.gauge, equations.gauge)
    inverse = np.asarray(np.linalg.inv(matrix), np.float64)
    parameters = inverse @ equations.right
    qualities = parameters[:size] - parameters[:size].mean()
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
    expected, errors, unknown = equations.predict(parameters)
    bias = _order_bias(board.values, board.scored) if segment.antisymmetric else None
    loose = noise * unknown**2
    if bias is not None:
        # What of the order bias differs from pair to pair stays in the scores that were made in one order only.
        by_chance = min(float(bias.var()), noise)
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


def expected_regret(found: Fit, choice: int, draw: np.random.Generator) -> tuple[float, int]:
    """What the choice may lose, as a share of best minus mean, and how many candidates may still be the best."""
    contenders = found.contenders()
    places = np.union1d(contenders, [choice])
    samples = found.sample(places, draw)
    loss = float((samples.max(axis=1) - samples[:, np.searchsorted(places, choice)]).mean())
    return share_of_range(loss, found.expected, int(found.expected.argmax())), len(contenders)


def share_of_range(loss: float, expected: Floats, best: int) -> float:
    """A loss as a share of best minus mean."""
    stake = float(expected[best] - expected.mean())
    if stake > 0:
        return loss / stake
    return np.inf if loss > 0 else 0.0


def certainty_of(board: Board, segment: Segment, choice: int, draw: np.random.Generator) -> Certainty:
    """How sure a choice from some of the scores is.

    Candidates that met few others count with what is likely for the list, not with their few scores alone.
    """
    found = fit(board, segment, shrink=True)
    if found is None:
        return Certainty() if _complete(board, segment) else Certainty(None, None)
    regret, contenders = expected_regret(found, choice, draw)
    return Certainty(regret, contenders, *ratios(found))


def _complete(board: Board, segment: Segment) -> bool:
    """Whether all scores that matter are there."""
    known = board.scored | board.scored.T if segment.antisymmetric else board.scored
    return bool((known | np.diag(~segment.diagonal)).all())


def ratios(found: Fit) -> tuple[float | None, float | None]:
    """rho and tau from some of the scores."""
    if found.spread <= 0:
        return None, None
    differences = 2 * found.spread
    bias = found.order_bias
    by_chance = 0.0 if bias is None else float(bias.var())
    tau = None if bias is None else float(np.sqrt((bias**2).mean() / differences))
    return float(np.sqrt(max(found.noise - by_chance, 0) / differences)), tau


def with_diagnostics(outcome: Outcome, segment: Segment) -> Outcome:
    """An outcome that has all scores, with its rho, and its tau where both orders were scored."""
    size = segment.size
    off = ~np.eye(size, dtype=np.bool_)
    values = outcome.values.astype(np.float64)
    if segment.antisymmetric:
        values = (values - values.T) / 2
        qualities = values.mean(axis=1)
        additive = qualities[:, None] - qualities
    elif size < 3:
        return outcome
    else:
        values = np.where(off, values, 0)
        qualities, references = (_round_robin(one) for one in (values, values.T))
        additive = qualities[:, None] + references + values.sum() / (size * (size - 1))
    differences = float(((qualities[:, None] - qualities)[off] ** 2).mean())
    if differences == 0:
        return outcome
    rho = float(np.sqrt(((values - additive)[off] ** 2).mean() / differences))
    bias = _order_bias(outcome.values, outcome.scored) if segment.antisymmetric else None
    tau = None if bias is None else float(np.sqrt((bias**2).mean() / differences))
    return replace(outcome, certainty=Certainty(rho=rho, tau=tau))


def _order_bias(values: NDArray[np.floating], scored: NDArray[np.bool_]) -> Floats | None:
    """Half the sum of both orders of a pair, where both were scored; exactly antisymmetric ones would give 0."""
    first, second = np.nonzero(np.triu(scored & scored.T, 1))
    return (values[first, second].astype(np.float64) + values[second, first]) / 2 if len(first) else None


def _round_robin(values: Floats) -> Floats:
    """Row effects of a matrix without its diagonal (which is 0 here), by least squares, centred."""
    size = len(values)
    rows, columns = values.sum(axis=1), values.sum(axis=0)
    effects = (size - 1) * rows + columns
    return np.asarray((effects - effects.mean()) / (size * (size - 2)))


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
    deviations = hints - hints.mean()
    total = float(deviations @ deviations)
    return np.asarray(deviations * float(deviations @ qualities) / total) if total > 0 else np.zeros(len(hints))


@dataclass(frozen=True)
class _Antisymmetric:
    """Normal equations of u(i, j) = q_i - q_j + c * (who came first)."""

    met: NDArray[np.bool_]
    values: Floats
    first: Floats  # [N, N]: 1 where i came first, -1 where second, 0 where both or never
    shares: Floats

    @property
    def freedom(self) -> int:
        return int(self.met.sum()) // 2 - len(self.met) + 1 - int(self.first.any())

    @property
    def gauge(self) -> Floats:
        return np.full(len(self.met), len(self.met) ** -0.5)

    @property
    def matrix(self) -> Floats:
        """The graph's Laplacian, less what the constant of order explains."""
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

    def residual(self, qualities: Floats) -> float:
        """Sum of squares."""
        rest = (self.values - qualities[:, None] + qualities) * self.met
        rest -= self.first * (self.first * rest).sum() / 2 / self._ordered
        return float((rest**2).sum()) / 2

    def predict(self, qualities: Floats) -> tuple[Floats, Floats, Floats]:
        differences = qualities[:, None] - qualities
        expected = (self.shares * np.where(self.met, self.values, differences)).sum(axis=1)
        unknown = np.where(self.met, 0, self.shares)
        np.fill_diagonal(unknown, 0)
        return expected, np.diag(unknown.sum(axis=1)) - unknown, unknown


def _antisymmetric(board: Board, segment: Segment) -> _Antisymmetric:
    scored = board.scored
    met = scored | scored.T
    values = (board.values.astype(np.float64) - board.values.T) / 2
    return _Antisymmetric(met, values, scored.astype(np.float64) - scored.T, segment.shares())


@dataclass(frozen=True)
class _TwoWay:
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
    def gauge(self) -> Floats:
        signs = np.concatenate([np.ones(len(self.met)), -np.ones(len(self.used))])
        return np.asarray(signs / len(signs) ** 0.5)

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
        """References nobody met are the same for all, so what they are worth is left out of the errors."""
        known = self.met | np.diag(self.own)
        values = self.values + np.diag(self.diagonal)
        expected = (self.shares * np.where(known, values, self._additive(parameters))).sum(axis=1)
        unknown = np.where(known, 0, self.shares)
        return expected, np.hstack([np.diag(unknown.sum(axis=1)), unknown[:, self.used]]), unknown


def _two_way(board: Board, segment: Segment) -> _TwoWay:
    own = board.scored.diagonal().copy()
    met = board.scored.copy()
    np.fill_diagonal(met, False)
    values = np.where(met, board.values, 0).astype(np.float64)
    diagonal = np.where(own, board.values.diagonal(), 0).astype(np.float64)
    return _TwoWay(met, values, np.flatnonzero(met.any(axis=0)), segment.shares(), own, diagonal)
