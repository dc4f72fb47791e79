"""Both orders of every pair: the matrix of the PEAR paper (`full`), and its antisymmetric part (`both`).

Passes: N(N-1), and the u(i, i) that matter.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from mbr.matrix import Relation
from mbr.strategies.base import AskAll, Conversation, Outcome, Segment, Strategy
from mbr.strategies.complete import with_diagnostics


def full() -> Strategy:
    return Strategy("full", "every ordered pair", full_conversation, full_passes, first_slot_only=True)


def both() -> Strategy:
    return Strategy(
        "both",
        "every ordered pair, the two orders combined",
        both_conversation,
        full_passes,
        needs_antisymmetry=True,
    )


def full_conversation(segment: Segment) -> Conversation:
    wanted = np.ones((segment.size, segment.size), np.bool_)
    np.fill_diagonal(wanted, segment.diagonal)
    values = np.zeros(wanted.shape, np.float32)
    values[wanted] = yield AskAll(wanted)
    return with_diagnostics(Outcome(values, wanted), segment)


def both_conversation(segment: Segment) -> Conversation:
    """Half the difference of the two orders: the order bias of a nearly antisymmetric model cancels."""
    outcome = yield from full_conversation(segment)
    return replace(outcome, values=(outcome.values - outcome.values.T) * np.float32(0.5))


def full_passes(size: int, diagonal: int, relation: Relation) -> int:
    return size * (size - 1) + diagonal
