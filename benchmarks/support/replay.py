"""Strategies replayed on complete matrices: every request is answered from the matrix, and the choice judged by it.

`structured` makes matrices with a known interaction ratio rho and order bias tau. The truth of an antisymmetric
utility is the antisymmetric part of its matrix, (V - V^T) / 2, as strategy `both` has it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mbr.decide import expected_utility
from mbr.matrix import Relation
from mbr.strategies import Outcome, Segment, Strategy

Floats = NDArray[np.float64]


def structured(seed: int, size: int = 100, rho: float = 0.5, tau: float = 0.15) -> Floats:
    """Differences of normal qualities, an antisymmetric part of its own for each pair (rho), an order bias (tau).

    rho and tau are root mean squares over that of the differences. Half of the order bias, in variance, is the same for
    all pairs, the other half differs from pair to pair.
    """
    draw = np.random.default_rng(seed)
    quality = draw.normal(size=size)
    own = np.triu(draw.normal(size=(size, size)), 1)
    bias = np.triu(draw.normal(0.5**0.5, 0.5**0.5, size=(size, size)), 1)
    values = quality[:, None] - quality + 2**0.5 * (rho * (own - own.T) + tau * (bias + bias.T))
    np.fill_diagonal(values, 0)
    return np.asarray(values)


@dataclass(frozen=True)
class Played:
    outcome: Outcome
    ranking: NDArray[np.intp]
    passes: int
    rounds: int


def segment_of(
    values: NDArray[np.floating],
    seed: int,
    relation: Relation = "antisymmetric",
    weights: Floats | None = None,
    **more: Any,
) -> Segment:
    """A list of distinct candidates with random draws; weights are by default the same for all."""
    size = len(values)
    ones = np.ones(size)
    return Segment(
        1 - np.random.default_rng((seed, 1)).random(size),  # another stream than that of the values
        ones if weights is None else weights,
        0 * ones,
        relation,
        np.zeros(size, np.bool_),
        **more,
    )


def replay(values: NDArray[np.floating], strategy: Strategy, segment: Segment) -> Played:
    """Run the conversation of a strategy on a matrix."""
    conversation = strategy.converse(segment)
    asked = next(conversation)
    passes = rounds = 0
    while True:
        passes += len(asked.pairs)
        rounds += 1
        try:
            asked = conversation.send(values[tuple(asked.pairs.T)].astype(np.float32))
        except StopIteration as end:
            outcome: Outcome = end.value
            break
    if outcome.ranking is None:
        expected = expected_utility(outcome.values, segment.weights, np.ones(segment.size))
        ranking = np.argsort(-segment.with_terms(expected), kind="stable")
    else:
        ranking = np.array(outcome.ranking, np.intp)
    return Played(outcome, ranking, passes, rounds)


def truth(values: NDArray[np.floating], relation: Relation = "antisymmetric", weights: Floats | None = None) -> Floats:
    """Expected utilities by the whole matrix."""
    values = np.asarray(values, np.float64)
    exact = (values - values.T) / 2 if relation == "antisymmetric" else values
    return expected_utility(exact, np.ones(len(values)) if weights is None else weights, np.ones(len(values)))


def regret(exact: Floats, choice: int) -> float:
    """The regret of a choice, as a share of best minus mean."""
    return float((exact.max() - exact[choice]) / (exact.max() - exact.mean()))
