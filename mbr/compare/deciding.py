"""Settings decode the same lists, one after another; those with the same model share it and its scores.

A setting that fails leaves its reason in place of its decisions, and the others go on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory
from time import process_time
from typing import Any

from candidates.common.errors import ModelError
from candidates.lists import CandidateList
from mbr.cache.scores import Ledger, ScoreStore
from mbr.compare.settings import Setting
from mbr.compare.stages import study_of
from mbr.compare.study import Study, study
from mbr.decide import Decision
from mbr.evaluate.evaluation import reason_of
from mbr.opening import Models, open_decoder
from mbr.pipeline import Decoder
from mbr.recipe import Changes
from mbr.recipe.plan import with_precision
from mbr.signature import Signature
from mbr.terms import Term
from mbr.utilities import Utility

Report = Callable[[str], None]


def silent(message: str) -> None:
    """A `Report` that drops its messages."""


@dataclass(frozen=True)
class Rules:
    """What all settings have in common.

    Args:
        changes: weights of pseudo-references, self rule and seed, for settings that leave them open.
        nbest: how many candidates each list was cut to, for the signatures.
        runtime: how models run (device, threads, ...); goes to every model that takes it.
        dtype: precision of every model that names none.
    """

    changes: Changes = field(default_factory=Changes)
    nbest: int | None = None
    runtime: Mapping[str, Any] = field(default_factory=dict)
    dtype: str | None = None

    @property
    def seed(self) -> int:
        return 1 if self.changes.seed is None else self.changes.seed

    @property
    def options(self) -> dict[str, Any]:
        """Options of every model that judges."""
        return {**self.runtime, **({} if self.dtype is None else {"dtype": self.dtype})}

    def applied_to(self, setting: Setting, lists: Sequence[CandidateList]) -> Setting:
        """The setting for these lists."""
        planned = setting.for_lists(lists, self.changes)
        if self.dtype is None:
            return planned
        return replace(planned, recipe=with_precision(planned.recipe, self.dtype, required=False))


@dataclass(frozen=True)
class Decided:
    """The decisions of a setting and their cost; or, with an `error`, why there are none.

    `seconds` are CPU seconds, or wall-clock seconds with `on_gpu`. Scores that an earlier setting or run computed count
    with the seconds that they took then.
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
        return {place: decision.error for place, decision in enumerate(self.decisions) if decision.error is not None}


def decide_all(
    lists: Sequence[CandidateList],
    settings: Sequence[Setting],
    rules: Rules,
    *,
    scores: Path | None = None,
    studied: Sequence[int] = (),
    progress: bool = False,
    report: Report = silent,
    warn: Report = silent,
    begin: Report = silent,
) -> tuple[list[Decided], list[Study]]:
    """Decode the lists with every setting.

    Args:
        scores: file that keeps scores between runs; None shares them within this run alone.
        studied: places of the lists whose complete matrices are computed for the studies.
        report: receives the notes of models, each once.
        warn: receives the reason at once when a setting fails.
        begin: receives the name of each stage as it begins.

    Returns:
        The decisions of each setting in their order, and a study of each utility with its terms.
    """
    with TemporaryDirectory() as folder, ScoreStore(scores or Path(folder, "scores.sqlite"), warn=warn) as store:
        run = _Run(lists, rules, store, studied, progress, report, warn, begin)
        return run.decide(settings), run.studies


@dataclass
class _Run:
    """One run over all settings. `decided` and `studies` grow as it goes on."""

    lists: Sequence[CandidateList]
    rules: Rules
    store: ScoreStore
    studied: Sequence[int]
    progress: bool
    report: Report
    warn: Report
    begin: Report
    decided: list[Decided] = field(default_factory=list)
    studies: list[Study] = field(default_factory=list)
    reported: set[str] = field(default_factory=set)

    def decide(self, settings: Sequence[Setting]) -> list[Decided]:
        """The decisions of each setting, in their order."""
        order = {setting.label: place for place, setting in enumerate(settings)}
        for same_model in by_model(settings):
            with Models(self.rules.runtime, next(iter(self.lists), None)) as models:
                self.decided += [self._decide(setting, models) for setting in same_model]
                self.begin(study_of(same_model[0]))
                self._study(same_model, models)
        return sorted(self.decided, key=lambda decided: order[decided.setting.label])

    def _decide(self, setting: Setting, models: Models) -> Decided:
        self.begin(setting.label)
        try:
            with ExitStack() as stack:
                ledgers = _Ledgers(self.store, stack)
                decoder = open_decoder(setting.recipe, models=models, memory_of=ledgers, on_error="fallback")
                decoder.show_progress(self.progress)
                self._report_notes(decoder)
                began = process_time()
                decisions = self._decisions(setting, decoder)
        except Exception as exc:  # of any kind: the other settings go on
            return self._failed(setting, exc)
        if all(decision.error is not None for decision in decisions):
            return self._failed(setting, ModelError(f"no segment could be decided: {decisions[0].error}"))
        on_gpu = decoder.utility.on_gpu or any(weighted.term.on_gpu for weighted in decoder.terms)
        seconds = ledgers.seconds
        if not on_gpu:  # the strategy itself, and terms that keep no scores
            seconds += max(process_time() - began - ledgers.aside, 0.0)
        return Decided(setting, tuple(decisions), decoder.signature(self.rules.nbest), seconds, on_gpu)

    def _decisions(self, setting: Setting, decoder: Decoder) -> list[Decision]:
        from tqdm import tqdm

        decisions = []
        with tqdm(total=len(self.lists), unit=" segments", desc=setting.label, disable=not self.progress) as bar:
            for window in decoder.windows(self.lists):
                decisions += window
                bar.update(len(window))
        return decisions

    def _report_notes(self, decoder: Decoder) -> None:
        for note in decoder.notes():
            if note not in self.reported:
                self.report(note)
            self.reported.add(note)

    def _study(self, settings: Sequence[Setting], models: Models) -> None:
        lists = [self.lists[place] for place in self.studied if len(self.lists[place]) > 1]
        failed = {decided.setting.label for decided in self.decided if decided.error is not None}
        studied: list[object] = []
        for setting in settings:
            recipe = setting.recipe
            rules = (recipe.terms, recipe.weight, recipe.weights)
            if setting.label in failed or not lists or recipe.rates or recipe.prefilter is not None or rules in studied:
                continue
            studied.append(rules)
            try:
                with ExitStack() as stack:
                    ledgers = _Ledgers(self.store, stack)
                    decoder = open_decoder(recipe, models=models, memory_of=ledgers, on_error="fallback")
                    self.studies.append(study(setting, decoder, lists))
            except Exception as exc:  # of any kind: the decisions are kept
                self.warn(f"{setting.label}: no complete matrices: {reason_of(exc)}")

    def _failed(self, setting: Setting, error: Exception) -> Decided:
        self.warn(f"{setting.label} failed: {reason_of(error)}")
        return Decided(setting, error=error)


class _Ledgers:
    """A ledger in the store for each utility and term of a decoder, and their sums."""

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


def by_model(settings: Sequence[Setting]) -> Iterator[list[Setting]]:
    """Settings of one utility and model together, in the order in which each model is first named."""
    models = [
        (setting.recipe.utility, sorted((key, str(value)) for key, value in setting.recipe.options.items()))
        for setting in settings
    ]
    order = sorted(range(len(settings)), key=lambda place: (models.index(models[place]), place))
    for _, places in groupby(order, key=lambda place: models[place]):
        yield [settings[place] for place in places]
