"""Both orders of every pair: the matrix of the PEAR paper (`full`), and its antisymmetric part (`both`)."""

from __future__ import annotations

import numpy as np

from mbr.matrix import Relation
from mbr.strategies.base import Conversation, Outcome, Pairs, Segment, Strategy, fill


def all_pairs(segment: Segment) -> Pairs:
    """Every ordered pair of two candidates, and the diagonal where it matters."""
    wanted = np.ones((segment.size, segment.size), np.bool_)
    np.fill_diagonal(wanted, segment.diagonal)
    return np.argwhere(wanted)


def talk_full(segment: Segment) -> Conversation:
    pairs = all_pairs(segment)
    scores = yield pairs
    return fill(segment.size, pairs, scores, antisymmetric=False)


def talk_both(segment: Segment) -> Conversation:
    """Half the difference of the two orders: the order bias of a nearly antisymmetric model cancels."""
    outcome = yield from talk_full(segment)
    return Outcome((outcome.values - outcome.values.T) * np.float32(0.5), outcome.scored)


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
