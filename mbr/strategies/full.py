"""Both orders of every pair: the matrix of the PEAR paper (`full`), and its antisymmetric part (`both`)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from mbr.matrix import Relation
from mbr.strategies.base import Ask, Board, Conversation, Outcome, Pairs, Segment, Strategy
from mbr.strategies.complete import with_diagnostics


def all_pairs(segment: Segment) -> Pairs:
    """Every ordered pair of two candidates, and the diagonal where it matters."""
    wanted = np.ones((segment.size, segment.size), np.bool_)
    np.fill_diagonal(wanted, segment.diagonal)
    return np.argwhere(wanted)


def talk_full(segment: Segment) -> Conversation:
    board = Board(segment)
    pairs = all_pairs(segment)
    board.write(pairs, (yield Ask(pairs)))
    return with_diagnostics(Outcome(board.values, board.scored), segment)


def talk_both(segment: Segment) -> Conversation:
    """Half the difference of the two orders: the order bias of a nearly antisymmetric model cancels."""
    outcome = yield from talk_full(segment)
    return replace(outcome, values=(outcome.values - outcome.values.T) * np.float32(0.5))


def passes_full(size: int, diagonal: int, relation: Relation) -> int:
    return size * (size - 1) + diagonal


FULL = Strategy("full", "every ordered pair", talk_full, passes_full)
BOTH = Strategy(
    "both",
    "every ordered pair, the two orders combined",
    talk_both,
    passes_full,
    needs_antisymmetry=True,
)
