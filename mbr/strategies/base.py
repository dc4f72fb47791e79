"""A strategy decides which pairs of one candidate list are scored, as a conversation.

It never touches a model: it yields requests, index pairs [pairs, 2] (hypothesis, pseudo-reference), receives their
scores [pairs], and continues until it can decide; then it returns an `Outcome`. Many conversations run at once, and
their requests are pooled into full batches.

    def first_row(segment):
        scores = yield Ask(np.array([(0, j) for j in range(1, segment.size)]))
        ...
        return Outcome(values, scored)

The pool may end a conversation early by throwing `Enough` into it instead of sending scores: a strategy that is
`anytime` then returns the best decision so far. It has received at least one answer by then.

The decision rule is score(i) = E_j[u(i, j)] + t(i). Scores of pairs are utilities u(i, j) alone; the terms t(i) are
known exactly for every candidate before the first request (`Segment.terms`) and cost no passes.
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

TOLERANCE = 0.01  # the default
REVERSED = 0.02  # share of the passes that score a pair again in the other order, to measure the order bias
LEAST_CHECKS = 8  # pairs in both orders, to estimate what one order of all pairs may lose


@dataclass(frozen=True)
class Segment:
    """What a strategy knows about a candidate list before anything is scored.

    `draws` [N] are uniform random numbers in (0, 1) that depend on the texts and the seed, not on positions in the
    list: a strategy that follows them asks for the same pairs however the list is permuted. `weights` [N] are those
    of the candidates as pseudo-references, `own_weights` [N] the part of them that counts for the candidate itself.
    `diagonal` [N] marks the candidates whose u(i, i) matters to the decision (or costs nothing) and is not zero by
    antisymmetry. `hints` [N, kinds] are cheap scores that may correlate with the expected utilities, on any scale;
    they guide the search and never enter the decision. `terms` [N] are added to the expected utilities, None if there
    are none.
    """

    draws: Floats
    weights: Floats
    own_weights: Floats
    relation: Relation
    diagonal: NDArray[np.bool_]
    hints: Floats | None = None
    terms: Floats | None = None

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

    def take(self, candidates: Pairs) -> Segment:
        """Some of the candidates, in this order."""
        return replace(
            self,
            draws=self.draws[candidates],
            weights=self.weights[candidates],
            own_weights=self.own_weights[candidates],
            diagonal=self.diagonal[candidates],
            hints=None if self.hints is None else self.hints[candidates],
            terms=None if self.terms is None else self.terms[candidates],
        )

    def shares(self) -> Floats:
        """The weight of u(i, j) in the expected utility of i, [N, N]; rows sum to one."""
        weights = np.tile(self.weights, (self.size, 1))
        np.fill_diagonal(weights, self.own_weights)
        return np.asarray(weights / weights.sum(axis=1, keepdims=True))

    def with_terms(self, expected: Floats, candidates: Pairs | slice = np.s_[:]) -> Floats:
        """Scores of some candidates: their expected utilities [candidates] or samples of them, plus their terms.

        Without terms the result is that of terms of zero, to the bit: adding zero makes a negative zero positive.
        """
        return np.asarray(expected + (0.0 if self.terms is None else self.terms[candidates]))


@dataclass(frozen=True)
class Ask:
    """Pairs to score, and the expected regret, as a share, if the conversation ended here (inf: not known yet)."""

    pairs: Pairs
    regret: float = np.inf

    @property
    def count(self) -> int:
        """The number of pairs."""
        return len(self.pairs)


class AskAll(Ask):
    """The pairs that `wanted` [N, N] marks, row by row: in one byte per pair, where a list of them takes sixteen."""

    wanted: NDArray[np.bool_]

    def __init__(self, wanted: NDArray[np.bool_]) -> None:
        object.__setattr__(self, "wanted", wanted)
        object.__setattr__(self, "regret", np.inf)

    @property
    def pairs(self) -> Pairs:
        return np.argwhere(self.wanted)

    @property
    def count(self) -> int:
        return int(np.count_nonzero(self.wanted))


@dataclass(frozen=True)
class AskEach(Ask):
    """One score per candidate: by itself (a quality) or against the mean of all pseudo-references (an aggregate).

    `pairs` name each candidate twice. The weights [N] are those of the mean, as in `Segment`.
    """

    weights: Floats = field(default_factory=lambda: np.empty(0))
    own_weights: Floats = field(default_factory=lambda: np.empty(0))


class Enough(Exception):
    """Thrown into a conversation: decide with the scores so far."""


@dataclass(frozen=True)
class Outcome:
    """Utilities [N, N], which of them were scored, and how certain a decision by them is.

    `values` are utilities u(i, j) without terms. Where all of them are there, `expected` and `ranking` are None, and
    the pipeline computes expected utilities from the values and adds the terms. A strategy that left pairs out
    returns its own estimates of the scores, `expected` [N] = E_j[u(i, j)] + t(i), **terms included**, and its
    ranking by them. A candidate that was not compared is not in the ranking, and its estimate is NaN.

    Regret and contenders of `certainty` are about the same scores, terms included; rho and tau are properties of the
    utility alone.
    """

    values: Scores
    scored: NDArray[np.bool_]
    expected: Floats | None = None
    ranking: tuple[int, ...] | None = None
    certainty: Certainty = field(default_factory=Certainty)


Conversation = Generator[Ask, Scores, Outcome]


@dataclass(frozen=True)
class Strategy:
    """A named way to choose pairs, with its settings.

    `converse(segment)` starts the conversation about one list. `passes(candidates, diagonal, relation)` is the number
    of pairs it asks for, where `diagonal` of the u(i, i) matter; an `adaptive` strategy may ask for fewer.
    `rounds(candidates)` is the approximate number of requests they come in. `settings` go into the signature.
    `alternative` is the strategy to suggest where the utility is not antisymmetric. With `first_slot_only` the scores
    of a row all have its candidate in the first slot and keep the order bias of the utility; so must u(i, i), which is
    scored then, also where antisymmetry would make it zero.
    """

    name: str
    summary: str
    converse: Callable[[Segment], Conversation]
    passes: Callable[[int, int, Relation], int]
    rounds: Callable[[int], int] = lambda size: 1
    needs_antisymmetry: bool = False
    first_slot_only: bool = False
    alternative: str = "full"
    # The kind of utility it needs: one that compares ("pairs"), rates ("quality") or aggregates ("aggregate").
    asks: Literal["pairs", "quality", "aggregate"] = "pairs"
    uses_seed: bool = False
    uses_hints: bool = False
    adaptive: bool = False
    anytime: bool = False
    settings: Mapping[str, object] = field(default_factory=dict)

    def check_total(self, budget: int | None) -> None:
        """Raise UsageError where a budget for all lists makes no sense."""
        if budget is not None and budget < 1:
            raise UsageError(f"a budget of {budget} passes in all decides nothing; expected a positive number")
        if budget is not None and not (self.adaptive and self.anytime):
            raise UsageError(
                "a budget for all lists goes with strategy 'race' or 'prune', which spend more on harder lists; "
                f"{self.name!r} spends the same on every list of the same size"
            )

    def check_fit(self, called: str, utility: Utility | type[Utility]) -> None:
        """Raise UsageError where the strategy cannot use a utility (an object or its class)."""
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
            raise UsageError(
                f"strategy {self.name!r} needs an antisymmetric utility, which {called!r} is not; "
                f"use {self.alternative}"
            )


class PairScores:
    """The scores of one list so far.

    `values` [N, N] holds them; of an antisymmetric pair, the order not scored has the opposite score. `scored` [N, N]
    marks the pairs that were scored in this order.
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
            other_order = ~self.scored[second, first]
            self.values[second[other_order], first[other_order]] = -scores[other_order]

    def take(self, candidates: Pairs) -> PairScores:
        """Those among some of the candidates, in this order."""
        chosen, places = copy(self), np.ix_(candidates, candidates)
        chosen.values, chosen.scored = self.values[places], self.scored[places]
        return chosen


def all_passes(size: int, diagonal: int, relation: Relation) -> int:
    """Passes to score every pair; of an antisymmetric utility in one order, and a few pairs in both (`checks_of`)."""
    pairs = size * (size - 1)
    return pairs // 2 + checks_of(size) if relation == "antisymmetric" else pairs + diagonal


def checks_of(size: int) -> int:
    """How many pairs to score in both orders beside one order of all: 2 %, or none where that is too few to learn from.

    Lists of 29 candidates are the first with enough.
    """
    wanted = int(REVERSED * (size * (size - 1) // 2))
    return wanted if wanted >= LEAST_CHECKS else 0


def reversals(pairs: int) -> int:
    """How many of this number of pairs are scored in both orders: 2 %, and at least one of ten.

    No more: a candidate with few comparisons should come first as often as second, and a pair in both orders upsets
    that balance.
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
