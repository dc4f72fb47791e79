"""The pipeline: candidate lists -> utility scores, as many as the strategy asks for -> decisions. Start reading here.

Lists are taken in windows of consecutive segments. In a window every list has a conversation with the strategy;
the pairs they all ask for are scored together, each conversation gets its answers, and so on until the last one
has decided. Windows depend on the lists and the settings alone, so a run that goes on at a window's edge gives the
same numbers.

    >>> from mbr import rerank
    >>> rerank("A dog.", ["Ein Hund.", "Der Hund.", "Ein Hund"], utility="chrf").text
    'Ein Hund.'
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Literal, cast

import numpy as np
from numpy.typing import NDArray

from candidates.errors import InputError, MbrError, ModelError, UsageError
from candidates.files import BadRecord, Record
from candidates.lists import Candidate, CandidateList
from mbr.decide import (
    SELF_RULES,
    WEIGHTS,
    Decision,
    SelfRule,
    Weights,
    expected_utility,
    list_prior,
    list_weights,
    own_weights,
    rank,
)
from mbr.matrix import UtilityMatrix
from mbr.pool import Talk, hold
from mbr.signature import Signature
from mbr.strategies import Outcome, Segment, Strategy, get_strategy
from mbr.utilities import MatrixUtility, Utility, get_utility

OnError = Literal["stop", "skip", "fallback"]
ON_ERROR: tuple[OnError, ...] = ("stop", "skip", "fallback")

# A window closes when its lists want as many passes as the utility takes at once, or when it holds this many lists.
WINDOW_LISTS = 256


@dataclass(frozen=True)
class Decoder:
    """A utility, a strategy and the rules of decision, ready to decode any number of lists."""

    utility: Utility
    strategy: Strategy
    weights: Weights = "count"
    self_rule: SelfRule = "exclude"
    seed: int = 1
    on_error: OnError = "stop"
    keep_matrix: bool = False
    # How much the generator's own length-normalised log-probability counts beside the utility.
    prior: float = 0.0
    # A reason why a list cannot be used, or None; for checks that belong to the caller's output.
    check: Callable[[CandidateList], str | None] = lambda item: None

    def __post_init__(self) -> None:
        for name, value, allowed in (
            ("weights", self.weights, WEIGHTS),
            ("self_rule", self.self_rule, SELF_RULES),
            ("on_error", self.on_error, ON_ERROR),
        ):
            if value not in allowed:
                raise UsageError(f"{name} {value!r} is unknown; expected one of {', '.join(allowed)}")
        if not (math.isfinite(self.prior) and self.prior >= 0):
            raise UsageError(f"prior {self.prior} is not a number from 0 on")
        self.strategy.check_fit(self.utility.name, self.utility.relation)

    def signature(self, nbest: int | None = None) -> Signature:
        from mbr import __version__

        return Signature(
            {
                "utility": self.utility.name,
                **self.utility.settings(),
                "strategy": self.strategy.name,
                **self.strategy.settings,
                "self": self.self_rule,
                "nbest": "all" if nbest is None else nbest,
                "weights": self.weights,
                "prior": self.prior or None,
                "seed": self.seed if self.strategy.uses_seed else None,
                "version": __version__,
            }
        )

    def windows(self, records: Iterable[Record]) -> Iterator[list[Decision]]:
        """Decisions in input order, a window at a time."""
        for window in self._cut(records):
            yield self._decode_window(window)

    def passes(self, item: CandidateList) -> int:
        """How many pairs the strategy asks for."""
        if len(item) == 1:
            return 0
        return self.strategy.passes(len(item), int(self._diagonal(item).sum()), self.utility.relation)

    def _cut(self, records: Iterable[Record]) -> Iterator[list[Record]]:
        window: list[Record] = []
        passes = 0
        for record in records:
            window.append(record)
            passes += self.passes(record) if isinstance(record, CandidateList) else 0
            if passes >= self.utility.window_passes or len(window) >= WINDOW_LISTS:
                yield window
                window, passes = [], 0
        if window:
            yield window

    def _decode_window(self, window: Sequence[Record]) -> list[Decision]:
        decisions: dict[int, Decision] = {}
        talks: dict[int, Talk] = {}
        for place, record in enumerate(window):
            if isinstance(record, BadRecord):
                decisions[place] = self._failed(record, record.error)
                continue
            try:
                weights = list_weights(record, self.weights)
                prior = list_prior(record, self.prior)
                reason = self.check(record)
                if reason is not None:
                    raise InputError(f"segment {record.id!r}: {reason}")
            except InputError as exc:
                decisions[place] = self._failed(record, exc)
                continue
            if len(record) == 1:
                decisions[place] = self._single(record)
            else:
                talks[place] = Talk(record, weights, self.strategy.talk(self._segment(record, weights)), prior)
        for place, talk in hold(talks, self.utility):
            decisions[place] = self._failed(talk.item, talk.error) if talk.error else self._decide(talk)
        return [decisions[place] for place in range(len(window))]

    def _segment(self, item: CandidateList, weights: NDArray[np.float64]) -> Segment:
        return Segment(
            draws=_text_draws(item.texts, self.seed),
            weights=weights,
            own_weights=own_weights(weights, self._copies(item), self.self_rule),
            relation=self.utility.relation,
            diagonal=self._diagonal(item),
        )

    def _diagonal(self, item: CandidateList) -> NDArray[np.bool_]:
        """Whose u(i, i) matters (or costs nothing) and is not zero by antisymmetry."""
        if self.utility.relation == "antisymmetric":
            return np.zeros(len(item), np.bool_)
        if self.self_rule == "include" or isinstance(self.utility, MatrixUtility):
            return np.ones(len(item), np.bool_)
        return self._copies(item) > 1

    def _copies(self, item: CandidateList) -> NDArray[np.float64]:
        """How many listed entries stand behind each weight."""
        return np.array(item.counts, np.float64) if self.weights == "count" else np.ones(len(item))

    def _decide(self, talk: Talk) -> Decision:
        item, outcome = talk.item, cast(Outcome, talk.outcome)
        expected, ranking = outcome.expected, outcome.ranking
        if expected is None or ranking is None:
            expected = expected_utility(outcome.values, talk.weights, self._copies(item), self.self_rule)
            ranking = rank(expected)
        if not np.isfinite(expected[list(ranking)]).all():
            return self._failed(item, ModelError(f"segment {item.id!r}: an expected utility is not a finite number"))
        flags = {
            "tie": len(ranking) > 1 and expected[ranking[0]] == expected[ranking[1]],
            "truncated": self.utility.truncates(item.source, item.texts),
            "unseen": len(ranking) < len(item),
        }
        return Decision(
            id=item.id,
            candidates=item,
            ranking=ranking,
            expected=expected,
            passes=talk.passes,
            estimated_regret=outcome.estimated_regret,
            flags=tuple(flag for flag, raised in flags.items() if raised),
            matrix=self._matrix(item.id, item.texts, outcome, talk.passes),
        )

    def _single(self, item: CandidateList) -> Decision:
        """One distinct candidate is chosen without scoring."""
        matrix = self._matrix(item.id, item.texts, _nothing_scored(1))
        return Decision(item.id, item, (0,), np.zeros(0), flags=("single",), matrix=matrix)

    def _matrix(self, id: str | int, texts: tuple[str, ...], outcome: Outcome, passes: int = 0) -> UtilityMatrix | None:
        if not self.keep_matrix:
            return None
        name, relation = self.utility.name, self.utility.relation
        return UtilityMatrix(outcome.values, outcome.scored, name, relation, passes, id, texts)

    def _failed(self, record: Record, error: MbrError) -> Decision:
        if self.on_error == "stop":
            raise error
        stand_in = self.on_error == "fallback" and isinstance(record, CandidateList)
        return Decision(
            id=record.id,
            candidates=record if isinstance(record, CandidateList) else None,
            ranking=(0,) if stand_in else (),
            expected=np.zeros(0),
            flags=("fallback",) if self.on_error == "fallback" else (),
            error=str(error),
            matrix=self._matrix(record.id, (), _nothing_scored(0)),
            source=record.source,
        )


def decode(
    lists: Iterable[CandidateList | tuple[str, Sequence[str]]],
    utility: str | Utility = "pear",
    *,
    strategy: str | None = None,
    budget: int | None = None,
    weights: Weights = "count",
    self_rule: SelfRule = "exclude",
    seed: int = 1,
    on_error: OnError = "stop",
    keep_matrix: bool = False,
    prior: float = 0.0,
    **options: Any,
) -> Iterator[Decision]:
    """Decode candidate lists (or `(source, candidates)` pairs), streaming, in order.

    `budget`: passes per list, with strategy "halving". `prior`: weight of the generator's own log-probability per
    word beside the utility. `options` go to the utility:
    `decode(lists, "pear", model="Prosho/pear", device="cuda")`.
    """
    ready = get_utility(utility, **options) if isinstance(utility, str) else utility
    if options and not isinstance(utility, str):
        raise UsageError(f"options {', '.join(options)} go with a utility's name; this utility is already made")
    decoder = Decoder(
        ready,
        get_strategy(strategy or ready.default_strategy, budget=budget),
        weights=weights,
        self_rule=self_rule,
        seed=seed,
        on_error=on_error,
        keep_matrix=keep_matrix,
        prior=prior,
    )
    return chain.from_iterable(decoder.windows(_as_records(lists)))


def rerank(
    source: str,
    candidates: Sequence[str | Candidate],
    utility: str | Utility = "pear",
    **settings: Any,
) -> Decision:
    """The decision for one source. `settings` as for `decode`."""
    return next(decode([CandidateList.of(source, candidates)], utility, **settings))


def utility_matrix(
    source: str,
    candidates: Sequence[str],
    utility: str | Utility = "pear",
    **settings: Any,
) -> UtilityMatrix:
    """The utility matrix of one list, over its distinct texts (`matrix.texts`)."""
    decision = rerank(source, candidates, utility, keep_matrix=True, **settings)
    return cast(UtilityMatrix, decision.matrix)


def _nothing_scored(size: int) -> Outcome:
    return Outcome(np.zeros((size, size), np.float32), np.zeros((size, size), np.bool_))


def _as_records(lists: Iterable[CandidateList | tuple[str, Sequence[str]]]) -> Iterator[Record]:
    for index, item in enumerate(lists):
        if isinstance(item, (CandidateList, BadRecord)):
            yield item
        else:
            yield CandidateList.of(item[0], item[1], id=index)


def _text_draws(texts: Sequence[str], seed: int) -> NDArray[np.float64]:
    """Uniform random numbers in (0, 1) that the texts and the seed fix, whatever their places."""
    digests = (hashlib.blake2b(f"{seed} {text}".encode(), digest_size=8).digest() for text in texts)
    return np.array([((int.from_bytes(digest, "big") >> 12) + 0.5) / 2**52 for digest in digests])
