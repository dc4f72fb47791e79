"""One order of every pair, the other by antisymmetry: half the passes.

`half` scores the upper triangle, as the PEAR paper does ("sym."). A model that is only nearly antisymmetric then
gives candidate i an order-bias term that grows with its place in the list, because early candidates always come
first. `balanced` chooses the orders so that every candidate comes first as often as second (within one), which
removes that term at no cost; and it chooses them by the texts, not by their places, so that the order of the list
does not matter.
"""

from __future__ import annotations

import numpy as np

from mbr.matrix import Relation
from mbr.strategies.base import Ask, Board, Conversation, Outcome, Pairs, Segment, Strategy
from mbr.strategies.complete import with_diagnostics


def talk_half(segment: Segment) -> Conversation:
    return (yield from _one_order(segment, np.column_stack(np.triu_indices(segment.size, k=1))))


def talk_balanced(segment: Segment) -> Conversation:
    return (yield from _one_order(segment, segment.order[regular_tournament(segment.size)]))


def _one_order(segment: Segment, pairs: Pairs) -> Conversation:
    board = Board(segment)
    board.write(pairs, (yield Ask(pairs)))
    return with_diagnostics(Outcome(board.values, board.scored), segment)


def regular_tournament(size: int) -> Pairs:
    """Every pair once, [pairs, 2], each player first as often as second, or one time more or less.

    Seated in a circle, each player comes first against those up to half the way round clockwise. For an even
    number the players face each other exactly half-way: there the first half of the circle comes first.
    """
    first, second = np.triu_indices(size, k=1)
    clockwise = 2 * (second - first) <= size
    return np.where(clockwise[:, None], np.column_stack([first, second]), np.column_stack([second, first]))


def passes_half(size: int, diagonal: int, relation: Relation) -> int:
    return size * (size - 1) // 2


HALF = Strategy(
    "half",
    "upper triangle, the rest by antisymmetry",
    talk_half,
    passes_half,
    needs_antisymmetry=True,
)
BALANCED = Strategy(
    "balanced",
    "one order per pair, each candidate first as often as second",
    talk_balanced,
    passes_half,
    needs_antisymmetry=True,
    uses_seed=True,
)
