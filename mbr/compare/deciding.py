"""Settings decode the same lists, one after another; those with the same model share it and its scores.

A setting that fails leaves its reason in place of its decisions, and the others go on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import groupby
from time import process_time
from typing import Any

from candidates.common.errors import ModelError
from candidates.lists import CandidateList
from mbr.api import get_prefilter
from mbr.cache.scores import Ledger, ScoreStore
from mbr.compare.settings import Setting
from mbr.compare.study import Study, study
from mbr.decide import Decision, SelfRule, Weights
from mbr.evaluate.evaluation import reason_of
from mbr.pipeline import Decoder
from mbr.prefilter import Prefilter, parse_prefilter
from mbr.signature import Signature
from mbr.utilities import Utility, get_utility, utility_options

Tell = Callable[[str], None]


def _silent(message: str) -> None:
    pass


@dataclass(frozen=True)
class Rules:
    """What all settings have in common; `weights` and `prior` where they do not say otherwise."""

    weights: Weights = "count"
    self_rule: SelfRule = "exclude"
    seed: int = 1
    nbest: int | None = None
    options: Mapping[str, Any] = field(default_factory=dict)  # of every model there is: device, threads, ...


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
        told: set[str] = set()
        for same_model in _by_model(settings):
            try:
                with get_utility(same_model[0].utility, **self._options(same_model[0])) as utility:
                    utility.progress = self.progress
                    for note in utility.notes():
                        if note not in told:
                            self.tell(note)
                        told.add(note)
                    for setting in same_model:
                        self.found.append(self._decide(setting, utility))
                    self._study(same_model, utility)
            except Exception as exc:
                for setting in same_model:
                    if setting.label not in {one.setting.label for one in self.found}:
                        self.found.append(self._failed(setting, exc))
        return sorted(self.found, key=lambda one: order[one.setting.label])

    def _decide(self, setting: Setting, utility: Utility) -> Decided:
        from tqdm import tqdm

        try:
            with ExitStack() as stack:
                ledger = stack.enter_context(Ledger(self.store, utility))
                first_stage, first_ledger = self._prefilter(setting, stack)
                began = process_time()
                decoder = Decoder(
                    utility,
                    setting.make_strategy(),
                    weights=self._weights(setting),
                    self_rule=self.rules.self_rule,
                    seed=self.rules.seed,
                    on_error="fallback",
                    prior=setting.prior or 0.0,
                    prefilter=first_stage,
                    memory=ledger,
                )
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
        ledgers = [one.spent for one in (ledger, first_ledger) if one is not None]
        seconds = sum(spent.seconds for spent in ledgers)
        if not utility.on_gpu:  # what the strategy itself took
            seconds += max(process_time() - began - sum(spent.aside for spent in ledgers), 0.0)
        signature = decoder.signature(self.rules.nbest)
        return Decided(setting, tuple(decisions), signature, seconds, utility.on_gpu)

    def _study(self, settings: Sequence[Setting], utility: Utility) -> None:
        lists = [self.lists[place] for place in self.studied if len(self.lists[place]) > 1]
        failed = {one.setting.label for one in self.found if one.error is not None}
        seen = set()
        for setting in settings:
            if setting.label in failed:
                continue
            rules = (setting.prior or 0.0, self._weights(setting))
            if not lists or setting.rates or setting.prefilter is not None or rules in seen:
                continue
            seen.add(rules)
            try:
                with Ledger(self.store, utility) as ledger:
                    decoder = Decoder(
                        utility,
                        setting.make_strategy(),
                        weights=rules[1],
                        self_rule=self.rules.self_rule,
                        seed=self.rules.seed,
                        prior=rules[0],
                        memory=ledger,
                    )
                    self.studies.append(study(setting, decoder, lists))
            except Exception as exc:
                self.tell_failure(f"{setting.label}: no complete matrices: {reason_of(exc)}")

    def _prefilter(self, setting: Setting, stack: ExitStack) -> tuple[Prefilter | None, Ledger | None]:
        if setting.prefilter is None:
            return None, None
        rules: dict[str, Any] = {
            "weights": self._weights(setting),
            "self_rule": self.rules.self_rule,
            "seed": self.rules.seed,
        }
        name, _ = parse_prefilter(setting.prefilter)
        if name == "logprob":
            return get_prefilter(setting.prefilter, **rules), None
        model = {} if setting.prefilter_model is None else {"model": setting.prefilter_model}
        options = {key: value for key, value in self.rules.options.items() if key in utility_options(name)}
        utility = stack.enter_context(get_utility(name, **options, **model))
        ledger = stack.enter_context(Ledger(self.store, utility))
        return get_prefilter(setting.prefilter, utility, **rules, memory=ledger), ledger

    def _options(self, setting: Setting) -> dict[str, Any]:
        known = utility_options(setting.utility)
        common = {key: value for key, value in self.rules.options.items() if key in known}
        return common | dict(setting.options)

    def _weights(self, setting: Setting) -> Weights:
        return setting.weights or self.rules.weights

    def _failed(self, setting: Setting, error: Exception) -> Decided:
        self.tell_failure(f"{setting.label} failed: {reason_of(error)}")
        return Decided(setting, error=error)


def _by_model(settings: Sequence[Setting]) -> Iterator[list[Setting]]:
    """Settings of one utility and model together, in the order in which each model is first named."""
    kinds = [
        (setting.utility, sorted((key, str(value)) for key, value in setting.options.items())) for setting in settings
    ]
    order = sorted(range(len(settings)), key=lambda place: (kinds.index(kinds[place]), place))
    for _, places in groupby(order, key=lambda place: kinds[place]):
        yield [settings[place] for place in places]
