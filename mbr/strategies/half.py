"""One order of every pair, the other by antisymmetry: N(N-1)/2 passes, half of `full`.

`half` scores the upper triangle, as the PEAR paper does ("sym."). A model that is only nearly antisymmetric then
gives candidate i an order-bias term that grows with its position in the list, because early candidates always come
first. `balanced` chooses the orders so that every candidate comes first as often as second (within one), which
removes that term at no cost. It chooses them by the texts, not by their positions, so the order of the list does not
matter.
"""

from __future__ import annotations

import numpy as np

from mbr.matrix import Relation
from mbr.strategies.base import Ask, Conversation, Outcome, Pairs, PairScores, Segment, Strategy
from mbr.strategies.complete import with_diagnostics


def half() -> Strategy:
    return Strategy(
        "half",
        "upper triangle, the rest by antisymmetry",
        half_conversation,
        half_passes,
        needs_antisymmetry=True,
    )


def balanced() -> Strategy:
    return Strategy(
        "balanced",
        "one order per pair, each candidate first as often as second",
        balanced_conversation,
        half_passes,
        needs_antisymmetry=True,
        uses_seed=True,
    )


def half_conversation(segment: Segment) -> Conversation:
    return (yield from _one_order(segment, np.column_stack(np.triu_indices(segment.size, k=1))))


def balanced_conversation(segment: Segment) -> Conversation:
    return (yield from _one_order(segment, segment.order[regular_tournament(segment.size)]))


def _one_order(segment: Segment, pairs: Pairs) -> Conversation:
    scores = PairScores(segment)
    scores.write(pairs, (yield Ask(pairs)))
    return with_diagnostics(Outcome(scores.values, scores.scored), segment)


def regular_tournament(size: int) -> Pairs:
    """Every pair once, [pairs, 2], each player first as often as second, or one time more or less.

    Seated in a circle, each player comes first against those up to half the way round clockwise. For an even
    number the players face each other exactly half-way: there the first half of the circle comes first.
    """
    first, second = np.triu_indices(size, k=1)
    clockwise = 2 * (second - first) <= size
    return np.where(clockwise[:, None], np.column_stack([first, second]), np.column_stack([second, first]))


def half_passes(size: int, diagonal: int, relation: Relation) -> int:
    return size * (size - 1) // 2
