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

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from candidates.errors import UsageError
from mbr.matrix import Relation

Pairs = NDArray[np.intp]
Scores = NDArray[np.float32]


@dataclass(frozen=True)
class Segment:
    """What a strategy may know of a candidate list.

    `draws` [N] are uniform random numbers in (0, 1) that depend on the texts and the seed, not on the places in the
    list: a strategy that goes by them asks for the same pairs however the list is permuted. `weights` [N] are those
    of the candidates as pseudo-references, `own_weights` [N] what of them counts for the candidate itself.
    `diagonal` [N] says whose u(i, i) matters to the decision (or costs nothing) and is not known to be zero.
    """

    draws: NDArray[np.float64]
    weights: NDArray[np.float64]
    own_weights: NDArray[np.float64]
    relation: Relation
    diagonal: NDArray[np.bool_]

    @property
    def size(self) -> int:
        return len(self.draws)

    @property
    def order(self) -> Pairs:
        """A random permutation of the candidates."""
        return np.argsort(self.draws, kind="stable")


@dataclass(frozen=True)
class Outcome:
    """Utilities [N, N], which of them were scored, and the expected regret of deciding by them (None: unknown).

    Where the utilities are all there, the decision follows from them. A strategy that left some out gives its own
    estimates of the expected utilities [N] and its ranking; a candidate of which it knows nothing is not in the
    ranking, and its estimate is NaN.
    """

    values: NDArray[np.float32]
    scored: NDArray[np.bool_]
    estimated_regret: float | None = 0.0
    expected: NDArray[np.float64] | None = None
    ranking: tuple[int, ...] | None = None


Conversation = Generator[Pairs, Scores, Outcome]


@dataclass(frozen=True)
class Strategy:
    """A named way to choose pairs.

    `passes(candidates, diagonal, relation)` is how many it asks for, where `diagonal` of the u(i, i) matter.
    `settings` go into the signature.
    """

    name: str
    summary: str
    talk: Callable[[Segment], Conversation]
    passes: Callable[[int, int, Relation], int]
    needs_antisymmetry: bool = False
    uses_seed: bool = False
    settings: Mapping[str, object] = field(default_factory=dict)

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
