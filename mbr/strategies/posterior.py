"""What the scores so far tell about the others: samples of the true scores of a list, by Gibbs sampling.

The model of an antisymmetric utility, for candidates a (first slot) and b (second):

    u(a, b) = q_a - q_b + c + f_a + f_b + r_ab
    q_a     = x_a' beta + delta_a       qualities, as far as cheap evidence x explains them, and the rest
    c, f_a                              what the first slot gets, and the effect of a candidate on it: the order bias
    r_ab    = sqrt(s^2 g_a g_b) t_ab    the remainder that only this pair has, t_ab Student's t of some freedom

delta and f are normal, g is inverse gamma; their variances, the weights of the evidence, the freedom of the tails and
the spread of g are unknown and drawn with the rest. With g and the tails, a candidate with unusual pairs, or a single
unusual pair, does not mislead: a comparison that all others of the same candidate contradict counts for little. With
variances that are drawn, estimates shrink as far as the data support and not further, and evidence x that explains
nothing gets weights of nothing.

The target is E_a = sum_b w_ab d_ab with d = (u(a, b) - u(b, a)) / 2 plus the terms, which are exact. Pairs scored in
both orders are known, those scored in one order up to their order bias, others by the model with a remainder drawn
anew.

A sweep draws each group of unknowns given the others (Geman & Geman 1984; Student's t as a mixture, Geweke 1993), and
then `COLUMNS` sets of qualities at once, half of them mirrored. What would hardly move that way is drawn together:
noise and spread whatever the qualities are, and all that belongs to a candidate with one comparison. The chain goes on
from round to round, so each call takes few sweeps. Work: per sweep one or two systems on the graph
(`mbr.strategies.systems`): O(N^3) for short lists, O(pairs) for long ones.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from mbr.strategies.base import Floats, Segment
from mbr.strategies.comparisons import Comparisons, ExpectedUtility
from mbr.strategies.likelihood import log_likelihood
from mbr.strategies.systems import DENSE, Features, System

SWEEPS, COLUMNS = 6, 32  # samples of the scores are their product
FIRST_SWEEPS, MORE_SWEEPS = 6, 1  # before sweeps that count: of a new chain, of one that is continued
TAILS = np.array([3.0, 4.0, 6.0, 10.0, 30.0, np.inf])  # degrees of freedom that the remainder may have
TAILS_PRIOR = np.array([1.0, 1.0, 1.0, 1.0, 1.0, 3.0])
ROUGHNESS = np.array([1.0, 2.0, 4.0, 10.0, 50.0])  # shapes that the distribution of g may have
OF_PAIRS = np.array([0.003, 0.01, 0.03, 0.1, 0.3, 0.6, 0.9])  # shares of the remainder that may depend on the order
LEAST_NOISE = 1e-12  # of the mean square: keeps systems solvable
EXACT = 1e-10  # of the mean square: less is no noise at all
FEW = 8  # degrees of freedom, below which least squares may be exact by chance
SPARSE = 0.4  # share of pairs beyond the ones that determine the qualities, below which noise is drawn without them
LEAF_STEPS = 2  # of scales of candidates with one comparison
LEVEL_STEPS = (0.2, 0.6, 1.2)  # widths of the steps of noise and spread, as logarithms
NOISE_PRIOR, SPREAD_PRIOR, SLOT_PRIOR = 0.01, 0.05, 0.1  # one observation's worth: in mean squares, the last in noise


def _log_gamma(numbers: Floats) -> Floats:
    return np.array([math.lgamma(number) for number in numbers.tolist()])


_FINITE = TAILS[:-1]
_TAILS_LEVEL = np.append(
    _log_gamma((_FINITE + 1) / 2) - _log_gamma(_FINITE / 2) - np.log(_FINITE * math.pi) / 2,
    -math.log(2 * math.pi) / 2,
)
_ROUGHNESS_LEVEL = ROUGHNESS * np.log(ROUGHNESS) - _log_gamma(ROUGHNESS)


@dataclass
class _State:
    """One draw of everything unknown."""

    qualities: Floats
    slots: Floats
    constant: float
    noise: float
    spread: float
    slot_spread: float
    tails: float
    scales: Floats
    roughness: float
    of_pairs: float


@dataclass(frozen=True)
class Sweep:
    """Expected utilities [N, COLUMNS] without the remainders of pairs not scored, and what these need."""

    expected: Floats
    qualities: Floats  # [N, COLUMNS]
    noise: float
    tails: float
    scales: Floats
    of_pairs: float
    residual: float  # mean square
    bias: float  # mean square of the order bias that only a pair has


class Chain:
    """The sampler of one list. `run` takes all scores so far and continues where the last call ended."""

    def __init__(self, segment: Segment, draw: np.random.Generator) -> None:
        self._segment = segment
        self._draw = draw
        self._features = Features(standardised(segment.hints, segment.size))
        self._none = self._met = Features(np.zeros((segment.size, 0)))
        self._state: _State | None = None
        self._prior = 0.0

    def run(self, pairs: Comparisons, count: int = SWEEPS) -> list[Sweep]:
        square = float((pairs.differences**2).mean())
        if not square > 0:  # all are equal so far
            return [_nothing(self._segment.size)]
        burn = MORE_SWEEPS
        if self._state is None:
            burn, size = FIRST_SWEEPS, self._segment.size
            self._state = _State(
                np.zeros(size),
                np.zeros(size),
                0.0,
                square / 20,
                square / 2,
                square / 100,
                math.inf,
                np.ones(size),
                10.0,
                0.1,
            )
            self._draw_qualities(pairs, 1 / np.full(len(pairs), self._state.noise))
        self._prior = NOISE_PRIOR * square
        self._met = Features(self._features.values[pairs.met])
        if (burn == FIRST_SWEEPS or pairs.freedom < FEW) and pairs.freedom > 0:
            self._least_squares(pairs, EXACT * square)
        target = ExpectedUtility(pairs, self._segment)
        sweeps = [self._sweep(pairs, target, square) for _ in range(burn + count)]
        return sweeps[burn:]

    def _least_squares(self, pairs: Comparisons, exact: float) -> None:
        """Where qualities alone explain all scores, up to this mean square, begin there: noise fades slowly else."""
        assert self._state is not None
        system = System(pairs, np.ones(len(pairs)), -1, 1e-9, self._none)
        values = pairs.differences[:, None]
        qualities = system.solve(pairs.collect(values, -values))
        rest = float(((values - pairs.minus(qualities)) ** 2).mean())
        if rest < exact:
            self._state.noise = self._prior = max(rest, LEAST_NOISE / EXACT * exact, 1e-300)
            self._state.qualities = qualities[:, 0]

    def _sweep(self, pairs: Comparisons, target: ExpectedUtility, square: float) -> Sweep:
        state = self._state
        assert state is not None
        noisy = state.noise > EXACT * square
        if noisy and len(pairs.leaves.candidates):
            self._draw_leaves(pairs)
        residual = (self._without_order(pairs) - pairs.minus(state.qualities[:, None]))[:, 0]
        variances = self._draw_remainders(pairs, residual, square)
        self._draw_spread(pairs, square)
        if pairs.freedom < SPARSE * len(pairs) and len(pairs.leaves.core) <= DENSE and noisy:
            variances = variances * self._draw_level(pairs, variances, square)
        if pairs.order_matters:
            self._draw_order(pairs, variances)
        values, qualities = self._draw_qualities(pairs, 1 / variances)
        if pairs.order_matters:
            share = state.of_pairs * (1 - state.of_pairs)
            values = np.repeat(values, COLUMNS, axis=1)
            values[: pairs.once] += np.sqrt(share * variances[: pairs.once, None]) * self._normal(pairs.once)
        return Sweep(
            target(values, qualities),
            qualities,
            state.noise,
            state.tails,
            state.scales,
            state.of_pairs if pairs.order_matters else 0.0,
            float((residual**2).mean()),
            float((self._own_biases(pairs) ** 2).mean()) if pairs.order_matters else 0.0,
        )

    def _draw_leaves(self, pairs: Comparisons) -> None:
        """Candidates with one comparison: their scales, the weight of the pair and the quality together.

        One after the other they would hardly move, since a quality that nothing else binds follows its only score as
        closely as the scale before said. Scale and weight are proposed from their priors and accepted by the likelihood
        of the score, whatever the quality is (Metropolis & al. 1953).
        """
        state, draw, leaves = self._state, self._draw, pairs.leaves
        assert state is not None
        some, count = leaves.candidates, len(leaves.candidates)
        explained = self._features.values[some] @ self._draw_slopes(pairs)
        signs = np.where(pairs.first[leaves.pairs] == some, 1, -1)
        scores = signs * self._without_order(pairs)[leaves.pairs, 0] + state.qualities[leaves.parents] - explained
        level = state.noise * state.scales[leaves.parents]
        scales = state.scales[some]
        variances = level * scales
        variances /= self._mixture((scores + explained - state.qualities[some]) ** 2 / variances)

        def log_density(variances: Floats) -> Floats:
            whole = state.spread + variances
            return np.asarray(-(np.log(whole) + scores**2 / whole) / 2)

        here = log_density(variances)
        for _ in range(LEAF_STEPS):
            fresh = state.roughness / draw.standard_gamma(state.roughness, size=count)
            proposed = level * fresh / self._mixture_prior(count)
            there = log_density(proposed)
            moved = np.log(draw.random(count) + 1e-300) < there - here
            scales, variances, here = (
                np.where(moved, new, old) for new, old in ((fresh, scales), (proposed, variances), (there, here))
            )
        share = state.spread / (state.spread + variances)
        drawn = share * scores + np.sqrt(share * variances) * draw.standard_normal(count)
        state.scales, state.qualities = state.scales.copy(), state.qualities.copy()
        state.scales[some], state.qualities[some] = scales, explained + drawn

    def _draw_remainders(self, pairs: Comparisons, residual: Floats, square: float) -> Floats:
        """Draw scale, tails and scales of candidates; returns the variance of each pair's remainder [pairs]."""
        state, draw = self._state, self._draw
        assert state is not None
        first, second = pairs.first, pairs.second
        squares = residual**2 / (state.scales[first] * state.scales[second])
        weights = self._mixture(squares / state.noise)
        prior = self._prior if pairs.freedom < FEW else state.noise
        state.noise = max(
            (prior + float(weights @ squares)) / draw.chisquare(1 + len(pairs)), LEAST_NOISE * square, 1e-300
        )
        ratios = squares / state.noise
        tails = np.log1p(ratios / _FINITE[:, None]).sum(axis=1) * (_FINITE + 1) / 2
        logs = np.log(TAILS_PRIOR) + len(pairs) * _TAILS_LEVEL - np.append(tails, ratios.sum() / 2)
        state.tails = self._pick(TAILS, logs)
        weights = self._mixture(ratios)
        met = pairs.degrees > 0
        own = weights * residual**2 / state.noise
        half = draw.random(self._segment.size) < 0.5
        for side in (half & met, ~half & met):
            sums = np.bincount(first, own / state.scales[second], pairs.size)
            sums += np.bincount(second, own / state.scales[first], pairs.size)
            fresh = (state.roughness + sums / 2) / draw.standard_gamma(state.roughness + pairs.degrees / 2)
            state.scales = np.where(side, fresh, state.scales)
        rough = state.scales[met]
        logs = len(rough) * _ROUGHNESS_LEVEL - (ROUGHNESS + 1) * np.log(rough).sum() - ROUGHNESS * (1 / rough).sum()
        state.roughness = self._pick(ROUGHNESS, logs)
        unmet = state.roughness / draw.standard_gamma(state.roughness, size=len(met))
        state.scales = np.where(met, state.scales, unmet)
        return np.asarray(state.noise * state.scales[first] * state.scales[second] / weights)

    def _mixture(self, ratios: Floats) -> Floats:
        """The weights that make a normal of each remainder, given its square over the scale."""
        assert self._state is not None
        tails = self._state.tails
        if math.isinf(tails):
            return np.ones(len(ratios))
        return np.asarray(self._draw.standard_gamma((tails + 1) / 2, size=len(ratios)) * 2 / (tails + ratios))

    def _mixture_prior(self, count: int) -> Floats:
        """The same without a remainder."""
        assert self._state is not None
        tails = self._state.tails
        if math.isinf(tails):
            return np.ones(count)
        return np.asarray(self._draw.standard_gamma(tails / 2, size=count) * 2 / tails)

    def _draw_slopes(self, pairs: Comparisons) -> Floats:
        """The weights of the features [kinds], by the candidates that were compared."""
        state = self._state
        assert state is not None
        noise = self._met.root @ self._draw.standard_normal(self._features.kinds)
        return np.asarray(
            self._met.gram @ (self._met.values.T @ state.qualities[pairs.met]) + noise * math.sqrt(state.spread)
        )

    def _draw_spread(self, pairs: Comparisons, square: float) -> None:
        """The variance of the qualities around what the features explain, by the candidates that were compared."""
        state, draw = self._state, self._draw
        assert state is not None
        slopes = self._draw_slopes(pairs)
        rest = state.qualities[pairs.met] - self._met.values @ slopes
        squares = float(rest @ rest + slopes @ slopes)
        state.spread = (SPREAD_PRIOR * square + squares) / draw.chisquare(1 + len(rest) + len(slopes))

    def _draw_level(self, pairs: Comparisons, variances: Floats, square: float) -> float:
        """Noise and spread, whatever the qualities are: with few pairs, drawn given them they would hardly move.

        Steps of Metropolis & al. (1953) by the likelihood of the scores. Returns the factor of the variances.
        """
        state, draw = self._state, self._draw
        assert state is not None
        likelihood = log_likelihood(pairs, self._without_order(pairs), variances / state.noise, self._features)

        def log_posterior(noise: float, spread: float) -> float:
            priors = math.log(noise) + self._prior / noise + math.log(spread) + SPREAD_PRIOR * square / spread
            return likelihood(noise, spread) - priors / 2

        noise, spread = state.noise, state.spread
        here = log_posterior(noise, spread)
        for width in LEVEL_STEPS:
            steps = np.exp(width * draw.standard_normal(2))
            there = log_posterior(noise * float(steps[0]), spread * float(steps[1]))
            if math.log(draw.random() + 1e-300) < there - here:
                noise, spread, here = noise * float(steps[0]), spread * float(steps[1]), there
        factor = noise / state.noise
        state.noise, state.spread = noise, spread
        return factor

    def _without_order(self, pairs: Comparisons) -> Floats:
        """The scored differences without their order bias [pairs, 1]."""
        assert self._state is not None
        values = pairs.differences[:, None].copy()
        if pairs.order_matters:
            values[: pairs.once] -= self._state.constant + pairs.plus(self._state.slots)[: pairs.once, None]
        return values

    def _draw_order(self, pairs: Comparisons, variances: Floats) -> None:
        """The order bias: its constant, its effects of candidates, and the share of the remainder that is of it."""
        state, draw, once = self._state, self._draw, pairs.once
        assert state is not None
        rest = self._own_biases(pairs)
        ratios = rest**2 / variances[once:]
        state.of_pairs = self._pick(OF_PAIRS, -(len(rest) * np.log(OF_PAIRS) + ratios.sum() / OF_PAIRS) / 2)
        met = pairs.met
        squares = float((state.slots[met] ** 2).sum())
        state.slot_spread = (SLOT_PRIOR * state.noise + squares) / draw.chisquare(1 + len(met))
        weights = 1 / np.concatenate([variances[:once], state.of_pairs * variances[once:]])
        values = np.concatenate([(pairs.differences - pairs.minus(state.qualities))[:once], pairs.biases])
        precision = float(weights.sum())
        mean = float(weights @ (values - pairs.plus(state.slots))) / precision
        state.constant = mean + draw.standard_normal() / math.sqrt(precision)
        system = System(pairs, weights, 1, 1 / state.slot_spread, self._none)
        prior = draw.standard_normal((pairs.size, 1)) * math.sqrt(state.slot_spread)
        noise = draw.standard_normal((len(pairs), 1)) / np.sqrt(weights)[:, None]
        along = weights[:, None] * (values[:, None] - state.constant - pairs.plus(prior) - noise)
        state.slots = (prior + system.solve(pairs.collect(along, along)))[:, 0]

    def _own_biases(self, pairs: Comparisons) -> Floats:
        """The order biases of pairs in both orders, without the constant and the effects of candidates."""
        assert self._state is not None
        return pairs.biases - self._state.constant - pairs.plus(self._state.slots)[pairs.once :]

    def _draw_qualities(self, pairs: Comparisons, weights: Floats) -> tuple[Floats, Floats]:
        """The scored differences without their order bias [pairs, 1], and draws of the qualities [N, COLUMNS]."""
        state = self._state
        assert state is not None
        values = self._without_order(pairs)
        prior = self._normal(pairs.size) + self._features.values @ self._normal(self._features.kinds)
        prior *= math.sqrt(state.spread)
        noise = self._normal(len(pairs)) / np.sqrt(weights)[:, None]
        along = weights[:, None] * (values - pairs.minus(prior) - noise)
        system = System(pairs, weights, -1, 1 / state.spread, self._features)
        qualities = prior + system.solve(pairs.collect(along, -along))
        state.qualities = qualities[:, 0].copy()
        return values, qualities

    def _normal(self, count: int) -> Floats:
        """[count, COLUMNS], the second half mirrored, so that their mean is exact."""
        half = self._draw.standard_normal((count, COLUMNS // 2))
        return np.concatenate([half, -half], axis=1)

    def _pick(self, values: Floats, logs: Floats) -> float:
        chances = np.cumsum(np.exp(logs - logs.max()))
        return float(values[np.searchsorted(chances, self._draw.random() * chances[-1])])


def _nothing(size: int) -> Sweep:
    """Where no score differs from zero, neither do the estimates."""
    zeros = np.zeros((size, COLUMNS))
    return Sweep(zeros, zeros, 0.0, math.inf, np.ones(size), 0.0, 0.0, 0.0)


def standardised(hints: Floats | None, size: int) -> Floats:
    """Hints [N] or [N, kinds] with mean 0 and variance 1; a kind that is the same for all is left out."""
    if hints is None:
        return np.zeros((size, 0))
    columns = hints.reshape(size, -1)
    columns = columns / np.maximum(np.abs(columns).max(axis=0), 1e-300)  # they may be huge
    columns = columns - columns.mean(axis=0)
    deviations = columns.std(axis=0)
    useful = deviations > 1e-12
    return np.asarray(columns[:, useful] / deviations[useful])
