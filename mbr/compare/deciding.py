"""Settings decode the same lists, one after another; those with the same model share it and its scores.

A setting that fails leaves its reason in place of its decisions, and the others go on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from itertools import groupby
from time import process_time
from typing import Any

from candidates.common.errors import ModelError
from candidates.lists import CandidateList
from mbr.cache.scores import Ledger, ScoreStore
from mbr.compare.settings import Setting
from mbr.compare.study import Study, study
from mbr.decide import Decision
from mbr.evaluate.evaluation import reason_of
from mbr.opening import Models, open_decoder
from mbr.recipe import Changes
from mbr.recipe.plan import with_precision
from mbr.signature import Signature
from mbr.terms import Term
from mbr.utilities import Utility

Tell = Callable[[str], None]


def _silent(message: str) -> None:
    pass


@dataclass(frozen=True)
class Rules:
    """What all settings have in common: `changes` where they leave something open, and how models run."""

    changes: Changes = field(default_factory=Changes)
    nbest: int | None = None
    runtime: Mapping[str, Any] = field(default_factory=dict)  # of every model there is: device, threads, ...
    dtype: str | None = None  # of every model that names none

    @property
    def seed(self) -> int:
        return 1 if self.changes.seed is None else self.changes.seed

    @property
    def options(self) -> dict[str, Any]:
        """Options of every model that judges."""
        return {**self.runtime, **({} if self.dtype is None else {"dtype": self.dtype})}

    def applied_to(self, setting: Setting, first: CandidateList) -> Setting:
        """The setting for lists such as this one."""
        planned = setting.for_lists(first, self.changes)
        if self.dtype is None:
            return planned
        return replace(planned, recipe=with_precision(planned.recipe, self.dtype, required=False))


@dataclass(frozen=True)
class Decided:
    """What a setting chose and what that cost; or, with an `error`, why it chose nothing.

    `seconds` are those of the processor, or with `on_gpu` of the clock, and count all that was asked of the utility,
    also what was known from before.
    """

    setting: Setting
    decisions: tuple[Decision, ...] = ()
    signature: Signature | None = None
    seconds: float | None = None
    on_gpu: bool = False
    error: Exception | None = None

    @property
    def passes(self) -> int:
        return sum(decision.passes for decision in self.decisions)

    @property
    def fallbacks(self) -> dict[int, str]:
        """Segments where the first candidate stands in, with the reason."""
        return {k: one.error for k, one in enumerate(self.decisions) if one.error is not None}


@dataclass
class Run:
    """One run over all settings. `found` and `studies` grow as it goes on."""

    lists: Sequence[CandidateList]
    rules: Rules
    store: ScoreStore
    studied: Sequence[int] = ()  # places of the lists whose complete matrices are wanted
    progress: bool = False
    tell: Tell = _silent
    tell_failure: Tell = _silent
    found: list[Decided] = field(default_factory=list)
    studies: list[Study] = field(default_factory=list)

    def decide(self, settings: Sequence[Setting]) -> list[Decided]:
        """The decisions of each setting, in their order."""
        order = {setting.label: place for place, setting in enumerate(settings)}
        notes: set[str] = set()
        for same_model in _by_model(settings):
            with Models(self.rules.runtime) as models:
                for setting in same_model:
                    self.found.append(self._decide(setting, models, notes))
                self._study(same_model, models)
        return sorted(self.found, key=lambda one: order[one.setting.label])

    def _decide(self, setting: Setting, models: Models, notes: set[str]) -> Decided:
        from tqdm import tqdm

        try:
            with ExitStack() as stack:
                ledgers = _Ledgers(self.store, stack)
                decoder = open_decoder(setting.recipe, models=models, memory_of=ledgers, on_error="fallback")
                decoder.show_progress(self.progress)
                for note in decoder.notes():
                    if note not in notes:
                        self.tell(note)
                    notes.add(note)
                began = process_time()
                bar = tqdm(total=len(self.lists), unit=" segments", desc=setting.label, disable=not self.progress)
                decisions = []
                with bar:
                    for window in decoder.windows(self.lists):
                        decisions += window
                        bar.update(len(window))
        except Exception as exc:
            return self._failed(setting, exc)
        if all(decision.error is not None for decision in decisions):
            return self._failed(setting, ModelError(f"no segment could be decided: {decisions[0].error}"))
        seconds = ledgers.seconds
        if not decoder.utility.on_gpu:  # what the strategy itself took
            seconds += max(process_time() - began - ledgers.aside, 0.0)
        signature = decoder.signature(self.rules.nbest)
        return Decided(setting, tuple(decisions), signature, seconds, decoder.utility.on_gpu)

    def _study(self, settings: Sequence[Setting], models: Models) -> None:
        lists = [self.lists[place] for place in self.studied if len(self.lists[place]) > 1]
        failed = {one.setting.label for one in self.found if one.error is not None}
        seen: list[object] = []
        for setting in settings:
            recipe = setting.recipe
            rules = (recipe.terms, recipe.weight, recipe.weights)
            if setting.label in failed or not lists or recipe.rates or recipe.prefilter is not None or rules in seen:
                continue
            seen.append(rules)
            try:
                with ExitStack() as stack:
                    ledgers = _Ledgers(self.store, stack)
                    decoder = open_decoder(recipe, models=models, memory_of=ledgers, on_error="fallback")
                    self.studies.append(study(setting, decoder, lists))
            except Exception as exc:
                self.tell_failure(f"{setting.label}: no complete matrices: {reason_of(exc)}")

    def _failed(self, setting: Setting, error: Exception) -> Decided:
        self.tell_failure(f"{setting.label} failed: {reason_of(error)}")
        return Decided(setting, error=error)


class _Ledgers:
    """A ledger in the store for each utility and term of a decoder, and what they add up to."""

    def __init__(self, store: ScoreStore, stack: ExitStack) -> None:
        self._store = store
        self._stack = stack
        self._ledgers: list[Ledger] = []

    def __call__(self, part: Utility | Term) -> Ledger:
        ledger = self._stack.enter_context(Ledger(self._store, part))
        self._ledgers.append(ledger)
        return ledger

    @property
    def seconds(self) -> float:
        return sum(ledger.spent.seconds for ledger in self._ledgers)

    @property
    def aside(self) -> float:
        return sum(ledger.spent.aside for ledger in self._ledgers)


def _by_model(settings: Sequence[Setting]) -> Iterator[list[Setting]]:
    """Settings of one utility and model together, in the order in which each model is first named."""
    kinds = [
        (one.recipe.utility, sorted((key, str(value)) for key, value in one.recipe.options.items())) for one in settings
    ]
    order = sorted(range(len(settings)), key=lambda place: (kinds.index(kinds[place]), place))
    for _, places in groupby(order, key=lambda place: kinds[place]):
        yield [settings[place] for place in places]
