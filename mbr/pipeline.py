"""The pipeline: candidate lists -> utility scores, as many as the strategy asks for -> decisions. Start reading here.

Lists are taken in windows of consecutive segments. In a window every list has a conversation with the strategy; the
pairs that all of them ask for are scored together (`mbr.pool`), each conversation gets its scores, and so on until the
last one has decided. Windows depend on the lists and the settings alone, so a run that goes on at a window's edge gives
the same numbers.

    with open_decoder(Recipe("chrf")) as decoder:
        for decisions in decoder.windows(read_lists("lists.jsonl")):
            ...
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, cast

import numpy as np
from numpy.typing import NDArray

from candidates.common.arrivals import PAUSE, Pause, without_pauses
from candidates.common.closing import Closing
from candidates.common.errors import InputError, MbrError, ModelError, ResourceError, UsageError
from candidates.common.version import __version__
from candidates.formats import BadRecord, Record
from candidates.lists import CandidateList
from mbr.cache.scores import Memory
from mbr.compared import Compared
from mbr.decide import Certainty, Decision, rank
from mbr.evidence import Evidence, Failed, Gathered, WeightedTerm
from mbr.guards import Guards
from mbr.matrix import UtilityMatrix
from mbr.pool import OpenConversation, Pool, until_all_end
from mbr.prefilter import Prefilter
from mbr.recipe import Recipe
from mbr.signature import Signature
from mbr.strategies import Outcome, Segment, Strategy
from mbr.terms.hints import hints_of
from mbr.utilities import MatrixUtility, PairUtility, QualityUtility, Utility

OnError = Literal["stop", "skip", "fallback"]
ON_ERROR: tuple[OnError, ...] = ("stop", "skip", "fallback")

Floats = NDArray[np.float64]

# A window closes when its lists want as many passes per round as the utility takes at once, or when it holds this many.
WINDOW_LISTS = 256
# Utilities from the utility and for the strategy, the scores on their way, and three marks per pair.
BYTES_PER_PAIR = 3 * 4 + 3


class ListConversation(OpenConversation):
    """The conversation of one list, and what `Decoder.finish` needs to know of it: the values of the terms by name."""

    def __init__(self, compared: Compared, terms: Mapping[str, Floats], strategy: Strategy, segment: Segment) -> None:
        super().__init__(compared.item, strategy.converse(segment))
        self.compared = compared
        self.terms = terms
        self.added = segment.terms


@dataclass(frozen=True)
class Decoder(Closing):
    """A recipe with its loaded parts, ready to decode any number of lists. `mbr.opening.open_decoder` makes it."""

    recipe: Recipe
    utility: Utility
    strategy: Strategy
    terms: tuple[WeightedTerm, ...] = ()
    # A cheap first stage that keeps the best of each list.
    prefilter: Prefilter | None = None
    # Rules that candidates must keep; candidates that break one leave before anything is computed.
    guards: Guards = field(default_factory=Guards)
    on_error: OnError = "stop"
    keep_matrix: bool = False
    # Holds scores of earlier runs and takes in those of this one (`mbr.cache`).
    memory: Memory | None = None
    # A reason why a list cannot be used, or None; for checks that belong to the caller's output.
    check: Callable[[CandidateList], str | None] = lambda item: None
    # Models that are closed with the decoder.
    models: Closing | None = None

    def __post_init__(self) -> None:
        if self.on_error not in ON_ERROR:
            raise UsageError(f"on_error {self.on_error!r} is unknown; expected one of {', '.join(ON_ERROR)}")
        if self.keep_matrix and self.strategy.asks == "aggregate":
            raise UsageError("strategy 'aggregate' makes no matrix that could be kept; use full")
        self.strategy.check_total(self.recipe.budget_total)
        self.strategy.check_fit(self.utility.name, self.utility)

    def close(self) -> None:
        if self.models is not None:
            self.models.close()

    def notes(self) -> list[str]:
        """Messages for the user about the loaded parts."""
        first_stage = self.prefilter.notes if self.prefilter else ()
        added = [note for weighted in self.terms for note in weighted.term.notes()]
        return list(dict.fromkeys([*first_stage, *self.utility.notes(), *added]))

    def reports(self) -> list[tuple[str, dict[str, Any]]]:
        """Sentences on the work of the utility and of utilities that are terms, with their numbers."""
        parts = [self.utility, *(getattr(weighted.term, "utility", None) for weighted in self.terms)]
        return [entry for part in dict.fromkeys(parts) if part is not None for entry in part.report()]

    def show_progress(self, show: bool) -> None:
        """Whether models show progress bars of their own."""
        self.utility.progress = show
        for weighted in self.terms:
            weighted.term.progress = show

    def signature(self, nbest: int | None = None) -> Signature:
        """The signature of the recipe, with the settings of the loaded utility and terms."""
        terms = {
            spec.name: _loaded(spec.options, weighted.term.settings())
            for spec, weighted in zip(self.recipe.terms, self.terms, strict=True)
        }
        first_stage = self.prefilter.settings if self.prefilter else {}
        scoring = {name: value for name, value in self.recipe.options.items() if name not in self.utility.run_options}
        utility = _loaded(scoring, self.utility.settings())
        loaded = self.guards.guards
        guards = {spec.name: _loaded(spec.options, loaded[spec.name].settings()) for spec in self.recipe.guards}
        listed = "all" if nbest is None else nbest
        fields = self.recipe.fields(utility, self.strategy, terms, first_stage, guards, listed)
        if self.prefilter is not None:
            fields["prefilter"] = self.prefilter.name
        return Signature({**fields, "version": __version__})

    def windows(self, records: Iterable[Record | Pause]) -> Iterator[list[Decision]]:
        """Decisions in input order, a window at a time."""
        return map(self.decide, self.cut(records))

    def cut(self, records: Iterable[Record | Pause]) -> Iterator[list[Record]]:
        """Windows of consecutive records; without pauses they depend on the records and the recipe alone."""
        if self.recipe.budget_total is not None:  # a budget for all lists needs all of them
            yield list(without_pauses(records))
            return
        window: list[Record] = []
        at_once = 0.0
        for record in records:
            if record is not PAUSE:
                window.append(record)
            if isinstance(record, CandidateList):
                at_once += self.passes(record) / max(self.strategy.rounds(self.kept(record)), 1)
            full = at_once >= self.utility.window_passes or len(window) >= WINDOW_LISTS
            if window and (full or record is PAUSE):
                yield window
                window, at_once = [], 0.0
        if window:
            yield window

    def decide(self, window: Sequence[Record]) -> list[Decision]:
        """The decisions of one window, in its order."""
        pool = Pool[int](self.utility, self.memory)
        decisions: dict[int, Decision] = {}
        for place, started in enumerate(self.start(window)):
            if isinstance(started, Decision):
                decisions[place] = started
            else:
                pool.add(place, started)
        for place, conversation in until_all_end(pool, self.recipe.budget_total):
            decisions[place] = self.finish(cast(ListConversation, conversation))
        return [decisions[place] for place in range(len(window))]

    def start(self, records: Sequence[Record]) -> list[Decision | ListConversation]:
        """Of each record a conversation to score for, or the decision where nothing needs scoring.

        Candidates that break a rule leave first; then the first stage and the terms are computed, for all records
        together.
        """
        results: dict[int, Decision | ListConversation] = {}
        lists: dict[int, Compared] = {}
        for place, record in enumerate(records):
            opened = self._opened(record)
            if isinstance(opened, Decision):
                results[place] = opened
            else:
                lists[place] = opened
        for place, evidence in self._evidence.of(lists).items():
            results[place] = self._conversation(evidence)
        return [results[place] for place in range(len(records))]

    def start_in_portions(self, record: Record, most: int) -> Generator[int, None, Decision | ListConversation]:
        """`start` of one record, which pauses after about `most` passes: yields the passes of each portion."""
        opened = self._opened(record)
        if isinstance(opened, Decision):
            return opened
        evidence = yield from self._evidence.in_portions(opened, most)
        return self._conversation(evidence)

    def decide_in_portions(self, record: Record, most: int) -> Generator[int, None, Decision]:
        """The decision of one record, with a pause after about `most` passes: yields the passes of each portion."""
        started = yield from self.start_in_portions(record, most)
        if isinstance(started, Decision):
            return started
        pool = Pool[int](self.utility, self.memory)
        pool.add(0, started)
        while len(pool):
            before = started.passes
            pool.step(None, lambda conversation: portion_alone(self.utility, conversation, most))
            yield started.passes - before
        return self.finish(started)

    def finish(self, conversation: ListConversation) -> Decision:
        """The decision of a conversation that has ended."""
        compared = conversation.compared
        if conversation.error is not None:
            return self.failed(compared, conversation.error)
        item, outcome = compared.item, cast(Outcome, conversation.outcome)
        if outcome.expected is None or outcome.ranking is None:
            expected = self.recipe.references.expected(outcome.values, item)
            scores = expected if conversation.added is None else expected + conversation.added
            ranking = rank(scores)
        else:
            scores, ranking = outcome.expected, outcome.ranking
            expected = scores if conversation.added is None else scores - conversation.added
        if not np.isfinite(scores[list(ranking)]).all():
            return self.failed(compared, ModelError(f"segment {item.id!r}: a score is not a finite number"))
        flags = {
            "tie": len(ranking) > 1 and scores[ranking[0]] == scores[ranking[1]],
            "truncated": self.utility.truncates(item.source, item.texts),
            "unseen": len(ranking) < len(item),
        }
        return Decision(
            id=item.id,
            candidates=compared.listed,
            ranking=compared.places(ranking),
            expected=compared.spread(expected),
            scores=compared.spread(self.recipe.weight * scores),
            terms={name: compared.spread(values) for name, values in conversation.terms.items()},
            passes=conversation.passes,
            certainty=outcome.certainty,
            flags=(*(flag for flag, raised in flags.items() if raised), *compared.flags(ranking[0])),
            matrix=self._matrix(item.id, item.texts, outcome, conversation.passes),
            dropped_candidates=compared.verdict.dropped,
        )

    def failed(self, failed: Record | Compared, error: MbrError) -> Decision:
        """What stands for a decision that could not be made; raises where errors stop the run.

        A fallback is the first candidate that the guards keep.
        """
        if self.on_error == "stop":
            raise error
        fallback = self.on_error == "fallback"
        if isinstance(failed, CandidateList):
            failed = Compared.guarded(failed, self.guards) if fallback else Compared.all(failed)
        record, first = (failed.listed, failed.kept[0]) if isinstance(failed, Compared) else (failed, None)
        broken = failed.flags(0) if fallback and isinstance(failed, Compared) else ()
        return Decision(
            id=record.id,
            candidates=record if isinstance(record, CandidateList) else None,
            ranking=() if first is None or not fallback else (first,),
            expected=np.zeros(0),
            scores=np.zeros(0),
            certainty=Certainty(None, None),
            flags=("fallback", *broken) if fallback else (),
            error=str(error),
            matrix=self._matrix(record.id, (), _nothing_scored(0)),
            dropped_candidates=failed.verdict.dropped if isinstance(failed, Compared) else {},
            source=record.source,
        )

    def passes_of(self, size: int) -> int:
        """How many pairs the strategy asks for, at most, of a list of this many distinct candidates."""
        return self.passes(CandidateList.of("", [str(number) for number in range(size)]))

    def passes(self, item: CandidateList) -> int:
        """How many pairs the strategy asks for, at most."""
        item = item.take(range(self.kept(item)))  # which ones are kept is not known yet
        if len(item) == 1:
            return 0
        return self.strategy.passes(len(item), int(self._diagonal(item).sum()), self.utility.relation)

    def kept(self, item: CandidateList) -> int:
        """How many candidates are left of a list to compare."""
        return len(item) if self.prefilter is None else min(len(item), self.prefilter.keep)

    def _matrix_bytes(self, item: CandidateList) -> int:
        """Memory that comparing the candidates of a list takes: there is a score of every pair, or room for it."""
        return BYTES_PER_PAIR * self.kept(item) ** 2 if self.strategy.asks == "pairs" else 0

    @property
    def _evidence(self) -> Evidence:
        terms = {spec.name: weighted.term for spec, weighted in zip(self.recipe.terms, self.terms, strict=True)}
        return Evidence(terms, self.prefilter, self.recipe.references)

    def _opened(self, record: Record) -> Decision | Compared:
        """The candidates of a record that guards leave, or the decision where none need comparing."""
        if isinstance(record, BadRecord):
            return self.failed(record, record.error)
        if (reason := self.check(record)) is not None:
            return self.failed(record, InputError(f"segment {record.id!r}: {reason}"))
        compared = Compared.guarded(record, self.guards)
        if len(compared.item) == 1:
            return self._single(compared)
        if (needed := self._matrix_bytes(compared.item)) > (there := memory_bytes()):
            return self.failed(compared, _too_large(compared.item, needed, there))
        return compared

    def _conversation(self, evidence: Gathered | Failed) -> Decision | ListConversation:
        compared = evidence.compared
        if isinstance(evidence, Failed):
            return self.failed(compared, evidence.error)
        try:
            segment = self._segment(compared.item, evidence.terms, evidence.first_stage)
            return ListConversation(compared, evidence.terms, self.strategy, segment)
        except InputError as exc:
            return self.failed(compared, exc)

    def _segment(self, item: CandidateList, terms: Mapping[str, Floats], first_stage: Floats | None) -> Segment:
        references = self.recipe.references
        evidence = [*terms.values(), *([] if first_stage is None else [first_stage])]
        return Segment(
            draws=_text_draws(item.texts, self.recipe.seed),
            weights=references.of(item),
            own_weights=references.own(item),
            relation=self.utility.relation,
            diagonal=self._diagonal(item),
            terms=self._added(terms),
            hints=hints_of(item, evidence, references) if self.strategy.uses_hints else None,
        )

    def _added(self, terms: Mapping[str, Floats]) -> Floats | None:
        """What the terms add to the expected utilities [N], in units of the utility."""
        if not terms:
            return None
        weights = {spec.name: spec.weight / self.recipe.weight for spec in self.recipe.terms}
        return np.asarray(sum(weights[name] * values for name, values in terms.items()))

    def _diagonal(self, item: CandidateList) -> NDArray[np.bool_]:
        """Whose u(i, i) matters (or costs nothing) and is not zero by antisymmetry."""
        if self.utility.relation == "antisymmetric" and not self.strategy.first_slot_only:
            return np.zeros(len(item), np.bool_)
        if self.recipe.self_rule == "include" or isinstance(self.utility, MatrixUtility):
            return np.ones(len(item), np.bool_)
        return self.recipe.references.copies(item) > 1

    def _single(self, compared: Compared) -> Decision:
        """One distinct candidate, or one that guards leave, is chosen without scoring; its numbers are NaN."""
        listed, unscored = compared.listed, np.full(len(compared.listed), np.nan)
        return Decision(
            id=listed.id,
            candidates=listed,
            ranking=compared.kept,
            expected=unscored,
            scores=unscored,
            flags=("single", *compared.flags(0)),
            matrix=self._matrix(listed.id, compared.item.texts, _nothing_scored(1)),
            dropped_candidates=compared.verdict.dropped,
        )

    def _matrix(self, id: str | int, texts: tuple[str, ...], outcome: Outcome, passes: int = 0) -> UtilityMatrix | None:
        if not self.keep_matrix:
            return None
        name, relation = self.utility.name, self.utility.relation
        return UtilityMatrix(outcome.values, outcome.scored, name, relation, passes, id, texts)


def portion_alone(utility: Utility, conversation: OpenConversation, most: int) -> int:
    """How many pairs to score next for a conversation that is alone: whole batches, so that no bit changes."""
    pairs = len(conversation.waiting_pairs)
    if pairs > most and isinstance(utility, PairUtility):
        untouched = not conversation.arranged and pairs == len(conversation.asked.pairs)
        if untouched and (batches := utility.batches(conversation.triples())):
            conversation.arrange(batches)
        return conversation.whole_batches(most)
    return min(pairs, most) if isinstance(utility, QualityUtility) else pairs


def memory_bytes() -> int:
    """The memory of this machine."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _too_large(item: CandidateList, needed: int, there: int) -> ResourceError:
    return ResourceError(
        f"segment {item.id!r}: the pairs of {len(item):,} candidates take about {needed / 2**30:,.1f} GiB, and this "
        f"machine has {there / 2**30:,.1f}; read fewer candidates (--nbest), keep the best of a first stage "
        "(--prefilter), or compare each with the mean of all (--strategy aggregate)"
    )


def _nothing_scored(size: int) -> Outcome:
    return Outcome(np.zeros((size, size), np.float32), np.zeros((size, size), np.bool_))


def _text_draws(texts: Sequence[str], seed: int) -> Floats:
    """Uniform random numbers in (0, 1) that the texts and the seed fix, whatever their places."""
    digests = (hashlib.blake2b(f"{seed} {text}".encode(), digest_size=8).digest() for text in texts)
    return np.array([((int.from_bytes(digest, "big") >> 12) + 0.5) / 2**52 for digest in digests])


def _loaded(options: Mapping[str, object], settings: Mapping[str, object]) -> dict[str, object]:
    """The settings of a part, in their own order whatever was asked for, then options that it does not report."""
    return {**settings, **{name: value for name, value in options.items() if name not in settings}}
