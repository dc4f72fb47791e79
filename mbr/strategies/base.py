"""A strategy decides which pairs of one candidate list are scored, as a conversation.

It never touches a model: it yields index pairs [pairs, 2] (hypothesis, pseudo-reference), receives their scores
[pairs], and goes on until it has seen enough; then it returns an `Outcome`. Many conversations are held at once,
and their requests are pooled into full batches.

    def first_row(segment):
        scores = yield np.array([(0, j) for j in range(1, segment.size)])
        ...
        return Outcome(values, scored)
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from candidates.errors import UsageError
from mbr.matrix import Relation

Pairs = NDArray[np.intp]
Scores = NDArray[np.float32]


@dataclass(frozen=True)
class Segment:
    """What a strategy may know of a candidate list.

    `order` is a permutation of the candidates that depends on their texts and the seed, not on their places in the
    list: a strategy that goes by it asks for the same pairs however the list is permuted. `diagonal` says whether
    u(i, i) matters to the decision and is not known to be zero.
    """

    size: int
    order: Pairs
    diagonal: bool = False


@dataclass(frozen=True)
class Outcome:
    """Utilities [N, N], which of them were scored, and the expected regret of deciding by them."""

    values: NDArray[np.float32]
    scored: NDArray[np.bool_]
    estimated_regret: float = 0.0


Conversation = Generator[Pairs, Scores, Outcome]


@dataclass(frozen=True)
class Strategy:
    """A named way to choose pairs. `passes(n)` estimates how many it needs for n candidates."""

    name: str
    summary: str
    talk: Callable[[Segment], Conversation]
    passes: Callable[[int], int]
    needs_antisymmetry: bool = False
    uses_seed: bool = False

    def check_fit(self, utility: str, relation: Relation) -> None:
        if self.needs_antisymmetry and relation != "antisymmetric":
            raise UsageError(
                f"strategy {self.name!r} needs an antisymmetric utility, which {utility!r} is not; use full"
            )


def fill(size: int, pairs: Pairs, scores: Scores, *, antisymmetric: bool) -> Outcome:
    """A matrix from scored pairs; with `antisymmetric`, each pair also gives its opposite."""
    values = np.zeros((size, size), np.float32)
    scored = np.zeros((size, size), np.bool_)
    first, second = pairs.T
    values[first, second] = scores
    scored[first, second] = True
    if antisymmetric:
        values[second, first] = -scores
    return Outcome(values, scored)
