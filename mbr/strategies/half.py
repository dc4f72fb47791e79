"""One order of every pair, the other by antisymmetry: N(N-1)/2 passes, half of `full`, and 2 % of them for long lists.

`half` scores the upper triangle, as the PEAR paper does ("sym."). A model that is only nearly antisymmetric then
gives candidate i an order-bias term that grows with its position in the list, because early candidates always come
first. `balanced` chooses the orders so that every candidate comes first as often as second (within one), which
removes that term at no cost. It chooses them by the texts, not by their positions, so the order of the list does not
matter.

The 2 % are pairs in the other order. They tell what the choice may lose (`mbr.strategies.one_order`) and change nothing
else.
"""

from __future__ import annotations

import numpy as np

from mbr.matrix import Relation
from mbr.strategies.base import Ask, Conversation, Outcome, Pairs, PairScores, Segment, Strategy, checks_of
from mbr.strategies.complete import with_diagnostics
from mbr.strategies.one_order import certainty_of_one_order, pairs_to_check


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
    return (
        yield from _one_order(segment, np.arange(segment.size), np.column_stack(np.triu_indices(segment.size, k=1)))
    )


def balanced_conversation(segment: Segment, *, checks: int | None = None) -> Conversation:
    """`checks`, if given, is the number of passes for pairs in the other order, at most."""
    return (yield from _one_order(segment, segment.order, segment.order[regular_tournament(segment.size)], checks))


def _one_order(segment: Segment, order: Pairs, pairs: Pairs, checks: int | None = None) -> Conversation:
    """One order of every pair, and a few of them in the other, which measure the order bias and decide nothing."""
    scores = PairScores(segment)
    checked = order[pairs_to_check(segment.size)[:checks]]
    came_first = np.zeros((segment.size, segment.size), np.bool_)
    came_first[tuple(pairs.T)] = True
    backwards = came_first[tuple(checked.T)]
    checked[backwards] = checked[backwards, ::-1]  # now in the order that the pairs do not have
    answer = yield Ask(np.concatenate([pairs, checked]))
    scores.write(pairs, answer[: len(pairs)])
    values = scores.values.astype(np.float64)
    bias = (answer[len(pairs) :] - values[tuple(checked.T)]) / 2  # values: minus the score of the other order
    signs = came_first.astype(np.float64) - came_first.T
    certainty = certainty_of_one_order((segment.shares() * values).sum(axis=1), signs, checked, bias, segment)
    return with_diagnostics(Outcome(scores.values, scores.scored, certainty=certainty), segment, bias)


def regular_tournament(size: int) -> Pairs:
    """Every pair once, [pairs, 2], each player first as often as second, or one time more or less.

    Seated in a circle, each player comes first against those up to half the way round clockwise. For an even
    number the players face each other exactly half-way: there the first half of the circle comes first.
    """
    first, second = np.triu_indices(size, k=1)
    clockwise = 2 * (second - first) <= size
    return np.where(clockwise[:, None], np.column_stack([first, second]), np.column_stack([second, first]))


def half_passes(size: int, diagonal: int, relation: Relation) -> int:
    return size * (size - 1) // 2 + checks_of(size)
