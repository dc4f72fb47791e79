"""Where the candidates of a list stand after some scores: estimates, contenders, and the expected regret of a choice.

The sweeps of a chain (`mbr.strategies.posterior`) hold everything but the remainders of pairs that were not scored.
Those are drawn here, for the contenders: one number per pair, which enters the scores of its two candidates with
opposite signs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mbr.strategies.base import Floats, Pairs, Segment
from mbr.strategies.comparisons import Comparisons, ExpectedUtility
from mbr.strategies.posterior import COLUMNS, Sweep

REACH = 4  # standard deviations a contender may be behind the best
MOST = 64  # contenders whose remainders are drawn pair by pair
TOGETHER = 24  # contenders whose pairs with each other are drawn as pairs
MANY_PAIRS = 10  # scored in both orders, to measure how the order bias varies


@dataclass(frozen=True)
class Standing:
    """Estimates of the scores [N], terms included; the contenders, and samples of their true scores.

    `winners` [samples] are the best of each sample, `uncertainty` [N] the variances of the qualities, `noise` that of a
    pair's remainder.
    """

    expected: Floats
    contenders: Pairs
    samples: Floats  # [samples, contenders]
    uncertainty: Floats
    noise: float
    rho: float | None
    tau: float | None

    @property
    def best(self) -> int:
        return int(self.expected.argmax())

    @property
    def winners(self) -> Pairs:
        return np.asarray(self.contenders[self.samples.argmax(axis=1)])

    def regret(self, choice: int) -> float:
        """The expected loss of choosing a contender, as a share of best minus mean."""
        best = self.samples.max(axis=1)
        loss = float((best - self.samples[:, np.searchsorted(self.contenders, choice)]).mean())
        stake = float(best.mean() - self.expected.mean())
        return loss / stake if stake > 0 else 0.0


def standing_of(
    sweeps: Sequence[Sweep],
    pairs: Comparisons,
    segment: Segment,
    met: NDArray[np.bool_],
    draw: np.random.Generator,
    include: Sequence[int] = (),
) -> Standing:
    """The standing after some sweeps; `met` [N, N] marks the pairs with a score, `include` more contenders."""
    together = np.concatenate([sweep.expected for sweep in sweeps], axis=1)
    target = ExpectedUtility(pairs, segment)
    remainders = [target.remainder_variances(math.sqrt(_variance(sweep)) * sweep.scales) for sweep in sweeps]
    expected = segment.with_terms(together.mean(axis=1))
    reach = REACH * np.sqrt(together.var(axis=1) + np.mean(remainders, axis=0))
    best = int(expected.argmax())
    within = expected + reach >= expected[best] - reach[best]
    within[list(include)] = True
    contenders = np.flatnonzero(within)
    shares = (
        np.where(met[contenders], 0, segment.weights) / target.whole[contenders, None]
        if len(contenders) <= MOST
        else None
    )
    if shares is not None:
        shares[np.arange(len(contenders)), contenders] = 0
    samples = [
        sweep.expected[contenders] + _remainders(sweep, contenders, shares, variances, draw)
        for sweep, variances in zip(sweeps, remainders, strict=True)
    ]
    qualities = np.concatenate([sweep.qualities for sweep in sweeps], axis=1)
    rho, tau = _ratios(sweeps, pairs)
    return Standing(
        expected,
        contenders,
        segment.with_terms(np.concatenate(samples, axis=1).T, contenders),
        qualities.var(axis=1),
        float(np.mean([sweep.residual for sweep in sweeps])),
        rho,
        tau,
    )


def _variance(sweep: Sweep) -> float:
    """Of the remainder of a pair whose candidates have scales of one."""
    return sweep.noise * (1.0 if math.isinf(sweep.tails) else sweep.tails / (sweep.tails - 2))


def _remainders(
    sweep: Sweep, contenders: Pairs, shares: Floats | None, variances: Floats, draw: np.random.Generator
) -> Floats:
    """What the pairs without a score add to the contenders, [contenders, COLUMNS]."""
    count = len(contenders)
    if shares is None:  # many: each with the variance of its own
        return np.asarray(np.sqrt(variances[contenders, None]) * draw.standard_normal((count, COLUMNS)))
    squares = shares**2 * (sweep.noise * sweep.scales[contenders, None] * sweep.scales)
    if not math.isinf(sweep.tails):
        squares /= draw.standard_gamma(sweep.tails / 2, size=squares.shape) * 2 / sweep.tails
    added = np.zeros((count, COLUMNS))
    if count <= TOGETHER:
        upper = np.triu(squares[:, contenders], 1)
        ratio = np.divide(shares[:, contenders].T, shares[:, contenders], out=np.zeros((count, count)), where=upper > 0)
        pair = np.sqrt(upper)[:, :, None] * draw.standard_normal((count, count, COLUMNS))
        added += pair.sum(axis=1) - (ratio[:, :, None] * pair).sum(axis=0)
        squares[:, contenders] = 0
    return np.asarray(added + np.sqrt(squares.sum(axis=1))[:, None] * draw.standard_normal((count, COLUMNS)))


def _ratios(sweeps: Sequence[Sweep], pairs: Comparisons) -> tuple[float | None, float | None]:
    """rho and tau. With few pairs in both orders, rho includes the order bias that differs between pairs."""
    spread = float(np.mean([sweep.qualities.var(axis=0).mean() for sweep in sweeps]))
    if spread <= 0:
        return None, None
    noise = float(np.mean([sweep.residual for sweep in sweeps]))
    by_chance = float(np.mean([sweep.bias for sweep in sweeps])) if len(pairs.biases) >= MANY_PAIRS else 0.0
    tau = None if not len(pairs.biases) else math.sqrt(float((pairs.biases**2).mean()) / (2 * spread))
    return math.sqrt(max(noise - by_chance, 0) / (2 * spread)), tau
