"""A strategy decides which pairs of one candidate list are scored, as a conversation.

It never touches a model: it yields what it asks, index pairs [pairs, 2] (hypothesis, pseudo-reference), receives their
scores [pairs], and goes on until it has seen enough; then it returns an `Outcome`. Many conversations are held at
once, and their requests are pooled into full batches.

    def first_row(segment):
        scores = yield Ask(np.array([(0, j) for j in range(1, segment.size)]))
        ...
        return Outcome(values, scored)

Whoever holds the conversation may end it early by throwing `Enough` into it instead of an answer: a strategy that is
`anytime` then returns the best so far. It must have had one answer.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from copy import copy
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from candidates.common.errors import UsageError
from mbr.decide import Certainty
from mbr.matrix import Relation
from mbr.utilities.base import QualityUtility, Utility

Pairs = NDArray[np.intp]
Scores = NDArray[np.float32]
Floats = NDArray[np.float64]

TOLERANCE = 0.01  # where none is given
REVERSED = 0.02  # share of the passes that score a pair again in the other order, to measure the order bias


@dataclass(frozen=True)
class Segment:
    """What a strategy may know of a candidate list.

    `draws` [N] are uniform random numbers in (0, 1) that depend on the texts and the seed, not on the places in the
    list: a strategy that goes by them asks for the same pairs however the list is permuted. `weights` [N] are those
    of the candidates as pseudo-references, `own_weights` [N] what of them counts for the candidate itself.
    `diagonal` [N] says whose u(i, i) matters to the decision (or costs nothing) and is not known to be zero.
    `hints` [N] are cheap scores that may go with the expected utilities, on any scale. `fair_share` is what there is
    for this list of a budget for all, if there is one; some lists get more, others less.
    """

    draws: Floats
    weights: Floats
    own_weights: Floats
    relation: Relation
    diagonal: NDArray[np.bool_]
    hints: Floats | None = None
    fair_share: int | None = None

    @property
    def size(self) -> int:
        return len(self.draws)

    @property
    def order(self) -> Pairs:
        """A random permutation of the candidates."""
        return np.argsort(self.draws, kind="stable")

    @property
    def antisymmetric(self) -> bool:
        return self.relation == "antisymmetric"

    def take(self, places: Pairs) -> Segment:
        """Some of the candidates, in this order."""
        return replace(
            self,
            draws=self.draws[places],
            weights=self.weights[places],
            own_weights=self.own_weights[places],
            diagonal=self.diagonal[places],
            hints=None if self.hints is None else self.hints[places],
        )

    def shares(self) -> Floats:
        """What u(i, j) counts in the expected utility of i, [N, N]; rows sum to one."""
        weights = np.tile(self.weights, (self.size, 1))
        np.fill_diagonal(weights, self.own_weights)
        return np.asarray(weights / weights.sum(axis=1, keepdims=True))


@dataclass(frozen=True)
class Ask:
    """Pairs to score, and the regret to expect, as a share, if the conversation ended here (inf: no idea yet)."""

    pairs: Pairs
    regret: float = np.inf


@dataclass(frozen=True)
class AskEach(Ask):
    """One score of each candidate, by itself (a quality) or against the mean of all pseudo-references (an aggregate).

    `pairs` name each candidate twice. The weights [N] are those of the mean, as in `Segment`.
    """

    weights: Floats = field(default_factory=lambda: np.empty(0))
    own_weights: Floats = field(default_factory=lambda: np.empty(0))


class Enough(Exception):
    """Thrown into a conversation: decide with what there is."""


@dataclass(frozen=True)
class Outcome:
    """Utilities [N, N], which of them were scored, and how sure a decision by them is.

    Where the utilities are all there, the decision follows from them. A strategy that left some out gives its own
    estimates of the expected utilities [N] and its ranking; a candidate of which it knows nothing is not in the
    ranking, and its estimate is NaN.
    """

    values: Scores
    scored: NDArray[np.bool_]
    expected: Floats | None = None
    ranking: tuple[int, ...] | None = None
    certainty: Certainty = field(default_factory=Certainty)


Conversation = Generator[Ask, Scores, Outcome]


@dataclass(frozen=True)
class Strategy:
    """A named way to choose pairs.

    `passes(candidates, diagonal, relation)` is how many it asks for, where `diagonal` of the u(i, i) matter; a
    strategy that is `adaptive` may ask for fewer. `rounds(candidates)` is in how many portions, about. `settings` go
    into the signature.
    """

    name: str
    summary: str
    talk: Callable[[Segment], Conversation]
    passes: Callable[[int, int, Relation], int]
    rounds: Callable[[int], int] = lambda size: 1
    needs_antisymmetry: bool = False
    # Which utilities it is for: any that compares ("pairs"), that rates ("quality"), that aggregates ("aggregate").
    asks: Literal["pairs", "quality", "aggregate"] = "pairs"
    uses_seed: bool = False
    adaptive: bool = False
    anytime: bool = False
    settings: Mapping[str, object] = field(default_factory=dict)

    def check_total(self, budget: int | None) -> None:
        """Whether a budget for all lists makes sense."""
        if budget is not None and budget < 1:
            raise UsageError(f"a budget of {budget} passes in all decides nothing; expected a positive number")
        if budget is not None and not (self.adaptive and self.anytime):
            raise UsageError(
                f"a budget for all lists goes with strategy 'race' or 'prune'; {self.name!r} spends the same on every "
                "list of a size"
            )

    def check_fit(self, called: str, utility: Utility | type[Utility]) -> None:
        """Whether the strategy can go with a utility, made already or not."""
        kind = utility if isinstance(utility, type) else type(utility)
        rates = issubclass(kind, QualityUtility)
        if rates != (self.asks == "quality"):
            why = "rates each candidate by itself" if rates else "compares candidates"
            raise UsageError(
                f"utility {called!r} {why}, which strategy {self.name!r} cannot use; use {kind.default_strategy}"
            )
        if self.asks == "aggregate" and not kind.aggregates():
            raise UsageError(f"utility {called!r} cannot aggregate its pseudo-references; use {kind.default_strategy}")
        if self.needs_antisymmetry and utility.relation != "antisymmetric":
            instead = "halving" if self.name == "race" else "full"
            raise UsageError(
                f"strategy {self.name!r} needs an antisymmetric utility, which {called!r} is not; use {instead}"
            )


class Board:
    """The scores of one list so far.

    `values` [N, N] holds them; of an antisymmetric pair, the order not scored has the opposite score.
    """

    def __init__(self, segment: Segment) -> None:
        self.values: Scores = np.zeros((segment.size, segment.size), np.float32)
        self.scored: NDArray[np.bool_] = np.zeros((segment.size, segment.size), np.bool_)
        self._antisymmetric = segment.antisymmetric

    def write(self, pairs: Pairs, scores: Scores) -> None:
        first, second = pairs.T
        self.values[first, second] = scores
        self.scored[first, second] = True
        if self._antisymmetric:
            open_ = ~self.scored[second, first]
            self.values[second[open_], first[open_]] = -scores[open_]

    def take(self, places: Pairs) -> Board:
        """Some of the candidates, in this order."""
        other = copy(self)
        other.values, other.scored = self.values[np.ix_(places, places)], self.scored[np.ix_(places, places)]
        return other


def all_passes(size: int, diagonal: int, relation: Relation) -> int:
    """What it takes to score every pair, in one order where the other follows from it."""
    pairs = size * (size - 1)
    return pairs // 2 if relation == "antisymmetric" else pairs + diagonal


def reversals(pairs: int) -> int:
    """How many of so many pairs are scored in both orders: one at least, unless there are next to none.

    Not more: who has met few others should come first as often as second, and a pair in both orders upsets that.
    """
    return max(int(REVERSED * pairs), int(pairs >= 10))


def check_budget(budget: int | None) -> None:
    if budget is not None and budget < 1:
        raise UsageError(f"a budget of {budget} passes decides nothing; expected a positive number")


def check_tolerance(tolerance: float) -> None:
    if not 0 <= tolerance < 1:
        raise UsageError(
            f"a tolerance of {tolerance:g} makes no sense; expected a share from 0 to below 1, such as 0.01"
        )
