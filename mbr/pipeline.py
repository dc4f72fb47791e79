"""The pipeline: candidate lists -> utility scores, as many as the strategy asks for -> decisions. Start reading here.

Lists are taken in windows of consecutive segments. In a window every list has a conversation with the strategy;
the pairs they all ask for are scored together, each conversation gets its answers, and so on until the last one
has decided. Windows depend on the lists and the settings alone, so a run that goes on at a window's edge gives the
same numbers.

    decoder = Decoder(get_utility("chrf"), get_strategy("full"))
    for decisions in decoder.windows(read_lists("lists.jsonl")):
        ...
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, cast

import numpy as np
from numpy.typing import NDArray

from candidates.common.errors import InputError, MbrError, ModelError, UsageError
from candidates.common.version import __version__
from candidates.formats.files import BadRecord, Record
from candidates.lists import CandidateList
from mbr.cache.scores import Memory
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
from mbr.prefilter import Prefilter
from mbr.signature import Signature
from mbr.strategies import Outcome, Segment, Strategy
from mbr.utilities import MatrixUtility, Utility

OnError = Literal["stop", "skip", "fallback"]
ON_ERROR: tuple[OnError, ...] = ("stop", "skip", "fallback")

# A window closes when its lists want as many passes a round as the utility takes at once, or when it holds this many.
WINDOW_LISTS = 256


@dataclass(frozen=True)
class _Entry:
    """A list as it came, and what of it is compared: all, or the candidates `kept`, with their `hints`."""

    listed: CandidateList
    item: CandidateList
    kept: list[int] | None = None
    hints: NDArray[np.float64] | None = None

    def places(self, ranking: Sequence[int]) -> tuple[int, ...]:
        return tuple(ranking) if self.kept is None else tuple(self.kept[place] for place in ranking)

    def spread(self, expected: NDArray[np.float64]) -> NDArray[np.float64]:
        """NaN for those that were not kept."""
        if self.kept is None:
            return expected
        whole = np.full(len(self.listed), np.nan)
        whole[self.kept] = expected
        return whole


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
    # A cheap first stage that keeps the best of each list.
    prefilter: Prefilter | None = None
    # Passes for all lists together, spent where the regret to expect is largest; all lists are then one window.
    budget_total: int | None = None
    # What knows scores of before, and is told those of now (`mbr.cache.scores`, `mbr.cache.log`).
    memory: Memory | None = None
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
        if self.keep_matrix and self.strategy.asks == "aggregate":
            raise UsageError("strategy 'aggregate' makes no matrix that could be kept; use full")
        self.strategy.check_total(self.budget_total)
        self.strategy.check_fit(self.utility.name, self.utility)

    def signature(self, nbest: int | None = None) -> Signature:
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
                **self._prefilter_settings(),
                "budget-total": self.budget_total,
                "seed": self.seed if self.strategy.uses_seed else None,
                "version": __version__,
            }
        )

    def _prefilter_settings(self) -> dict[str, object]:
        if self.prefilter is None:
            return {}
        return {"prefilter": self.prefilter.name, **{f"prefilter-{k}": v for k, v in self.prefilter.settings.items()}}

    def windows(self, records: Iterable[Record]) -> Iterator[list[Decision]]:
        """Decisions in input order, a window at a time."""
        for window in self._cut(records):
            yield self._decode_window(window)

    def passes(self, item: CandidateList) -> int:
        """How many pairs the strategy asks for, at most."""
        item = item.take(range(self.kept(item)))  # which ones are kept is not known yet
        if len(item) == 1:
            return 0
        return self.strategy.passes(len(item), int(self._diagonal(item).sum()), self.utility.relation)

    def kept(self, item: CandidateList) -> int:
        """How many candidates are left of a list to compare."""
        return len(item) if self.prefilter is None else min(len(item), self.prefilter.keep)

    def _cut(self, records: Iterable[Record]) -> Iterator[list[Record]]:
        if self.budget_total is not None:
            yield list(records)
            return
        window: list[Record] = []
        at_once = 0.0
        for record in records:
            window.append(record)
            if isinstance(record, CandidateList):
                at_once += self.passes(record) / max(self.strategy.rounds(self.kept(record)), 1)
            if at_once >= self.utility.window_passes or len(window) >= WINDOW_LISTS:
                yield window
                window, at_once = [], 0.0
        if window:
            yield window

    def _decode_window(self, window: Sequence[Record]) -> list[Decision]:
        decisions: dict[int, Decision] = {}
        entries: dict[int, _Entry] = {}
        for place, record in enumerate(window):
            if isinstance(record, BadRecord):
                decisions[place] = self._failed(record, record.error)
                continue
            reason = self.check(record)
            if reason is not None:
                decisions[place] = self._failed(record, InputError(f"segment {record.id!r}: {reason}"))
            elif len(record) == 1:
                decisions[place] = self._single(record)
            else:
                entries[place] = _Entry(record, record)
        for place, failure in self._keep_best(entries):
            decisions[place] = self._failed(entries.pop(place).listed, failure)
        talks: dict[int, Talk] = {}
        fair_share = None if self.budget_total is None else self.budget_total // max(len(entries), 1)
        for place, entry in entries.items():
            try:
                talks[place] = self._talk(entry, fair_share)
            except InputError as exc:
                decisions[place] = self._failed(entry.listed, exc)
        for place, talk in hold(talks, self.utility, self.budget_total, self.memory):
            entry = entries[place]
            decisions[place] = self._failed(entry.listed, talk.error) if talk.error else self._decide(talk, entry)
        return [decisions[place] for place in range(len(window))]

    def _keep_best(self, entries: dict[int, _Entry]) -> list[tuple[int, MbrError]]:
        """Let the prefilter look at the lists; returns those it could not judge."""
        if self.prefilter is None or not entries:
            return []
        failures: list[tuple[int, MbrError]] = []
        found = self.prefilter.score([entry.listed for entry in entries.values()])
        for (place, entry), scores in zip(list(entries.items()), found, strict=True):
            if isinstance(scores, MbrError):
                failures.append((place, scores))
                continue
            if scores.shape != (len(entry.listed),) or not np.isfinite(scores).all():
                reason = f"prefilter {self.prefilter.name} gave no finite score for every candidate"
                failures.append((place, ModelError(f"segment {entry.listed.id!r}: {reason}")))
                continue
            kept = self.prefilter.best(scores)
            entries[place] = _Entry(entry.listed, entry.listed.take(kept), kept, scores[kept])
        return failures

    def _talk(self, entry: _Entry, fair_share: int | None) -> Talk:
        item = entry.item
        weights = list_weights(item, self.weights)
        segment = Segment(
            draws=_text_draws(item.texts, self.seed),
            weights=weights,
            own_weights=own_weights(weights, self._copies(item), self.self_rule),
            relation=self.utility.relation,
            diagonal=self._diagonal(item),
            hints=entry.hints,
            fair_share=fair_share,
        )
        return Talk(item, weights, self.strategy.converse(segment), list_prior(item, self.prior))

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

    def _decide(self, talk: Talk, entry: _Entry) -> Decision:
        item, outcome = talk.item, cast(Outcome, talk.outcome)
        expected, ranking = outcome.expected, outcome.ranking
        if expected is None or ranking is None:
            expected = expected_utility(outcome.values, talk.weights, self._copies(item), self.self_rule)
            ranking = rank(expected)
        if not np.isfinite(expected[list(ranking)]).all():
            error = ModelError(f"segment {item.id!r}: an expected utility is not a finite number")
            return self._failed(entry.listed, error)
        flags = {
            "tie": len(ranking) > 1 and expected[ranking[0]] == expected[ranking[1]],
            "truncated": self.utility.truncates(item.source, item.texts),
            "unseen": len(ranking) < len(item),
        }
        return Decision(
            id=item.id,
            candidates=entry.listed,
            ranking=entry.places(ranking),
            expected=entry.spread(expected),
            passes=talk.passes,
            certainty=outcome.certainty,
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


def _nothing_scored(size: int) -> Outcome:
    return Outcome(np.zeros((size, size), np.float32), np.zeros((size, size), np.bool_))


def _text_draws(texts: Sequence[str], seed: int) -> NDArray[np.float64]:
    """Uniform random numbers in (0, 1) that the texts and the seed fix, whatever their places."""
    digests = (hashlib.blake2b(f"{seed} {text}".encode(), digest_size=8).digest() for text in texts)
    return np.array([((int.from_bytes(digest, "big") >> 12) + 0.5) / 2**52 for digest in digests])
