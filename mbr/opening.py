"""The one place that builds a decoder: models loaded, strategy made, terms and first stage put together.

A recipe names things; here they are loaded, each model once, and closed together.

    with open_decoder(Recipe("chrf")) as decoder:
        for decisions in decoder.windows(lists):
            ...
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any

import numpy as np

from candidates.common.closing import Closing
from candidates.common.errors import MbrError, ModelError
from candidates.lists import CandidateList
from mbr.cache.scores import Memory
from mbr.decide import Decision
from mbr.evidence import WeightedTerm
from mbr.guards import Guards, get_guard
from mbr.pipeline import Decoder, OnError
from mbr.prefilter import Prefilter, ScorePortions, Scores, by_term
from mbr.recipe.value import Options, Recipe
from mbr.strategies import Strategy
from mbr.terms import TERMS, Term, get_term, term_options
from mbr.terms.of_utility import OfUtility
from mbr.utilities import UTILITIES, QualityUtility, Utility, get_utility, utility_options
from mbr.utilities.settling import settle

AUTO = "auto"  # the dtype that a model chooses by itself
Runtime = Mapping[str, Any]  # device, threads, batch_tokens, cache_dir, offline: how models run
MemoryOf = Callable[[Utility | Term], Memory | None]


class Models(Closing):
    """Loaded utilities and terms, each once for all decoders that use it. Closing it closes them all.

    `runtime` options go to every model that takes them. On the list `first`, models of dtype `auto` check that the
    precision they chose keeps the choice (`mbr.utilities.settling`).
    """

    def __init__(self, runtime: Runtime | None = None, first: CandidateList | None = None) -> None:
        self._runtime = dict(runtime or {})
        self._first = first
        self._stack = ExitStack()
        self._loaded: dict[str, Utility | Term] = {}

    def utility(self, name: str, options: Options) -> Utility:
        utility = self._load(f"utility {name}", options, utility_options(name), lambda o: get_utility(name, **o))
        assert isinstance(utility, Utility)
        return utility

    def term(self, name: str, options: Options) -> Term:
        """A term; a utility as a term shares its model with the utility itself."""
        if name not in TERMS:
            return OfUtility(self.utility(name, options))
        term = self._load(f"term {name}", options, term_options(name), lambda o: get_term(name, **o))
        assert isinstance(term, Term)
        return term

    def close(self) -> None:
        self._loaded.clear()
        self._stack.close()

    def _load(
        self, called: str, options: Options, taken: list[str], make: Callable[[dict[str, Any]], Utility | Term]
    ) -> Utility | Term:
        key = f"{called} {sorted(options.items(), key=str)}"
        if key not in self._loaded:
            shared = {name: value for name, value in self._runtime.items() if name in taken}
            part = make({**shared, **options})
            self._stack.enter_context(part)
            if self._first is not None and isinstance(part, Utility):
                settle(part, self._first)
            self._loaded[key] = part
        return self._loaded[key]


@dataclass(frozen=True)
class DecoderPlan:
    """Everything that `open_decoder` needs, as a value that can be sent to another machine."""

    recipe: Recipe
    runtime: Runtime = field(default_factory=dict)
    on_error: OnError = "stop"
    keep_matrix: bool = False
    check: Callable[[CandidateList], str | None] = lambda item: None

    def open(self, first: CandidateList | None = None) -> Decoder:
        """The decoder; `first` as in `open_decoder`."""
        return open_decoder(
            self.recipe,
            runtime=self.runtime,
            first=first,
            on_error=self.on_error,
            keep_matrix=self.keep_matrix,
            check=self.check,
        )


def open_decoder(
    recipe: Recipe,
    *,
    runtime: Runtime | None = None,
    first: CandidateList | None = None,
    models: Models | None = None,
    utility: Utility | None = None,
    strategy: Strategy | None = None,
    prefilter: Prefilter | None = None,
    memory_of: MemoryOf = lambda part: None,
    on_error: OnError = "stop",
    keep_matrix: bool = False,
    check: Callable[[CandidateList], str | None] = lambda item: None,
) -> Decoder:
    """A decoder that makes its choices by the recipe. Closing it closes the models that it has loaded.

    Where the recipe leaves a precision open (dtype `auto`), that of the decoder names the one that was chosen.

    Args:
        runtime: how models run (`RUNTIME_OPTIONS`); goes to every model that takes it.
        first: a list of the input, on which models of dtype `auto` check that they keep the choice.
        models: loaded models to share; they stay open.
        utility: an object to use in place of what the recipe names; so are `strategy` and `prefilter`.
        memory_of: what holds scores of earlier runs for a utility or term, if anything does.
        on_error: what a segment without a decision does: stop, skip, or fallback to the first candidate.
        keep_matrix: whether decisions keep their utility matrices.
        check: a reason why a list cannot be used, or None; for checks that belong to the caller's output.
    """
    if strategy is None:
        recipe.check(utility)
    owned = Models(runtime, first) if models is None else None
    source = models or owned
    assert source is not None
    with ExitStack() as stack:
        if owned is not None:
            stack.enter_context(owned)
        if utility is not None and first is not None:
            settle(utility, first)
        ready = utility or source.utility(recipe.utility, recipe.options)
        terms = tuple(WeightedTerm(source.term(spec.name, spec.options), spec.weight) for spec in recipe.terms)
        for weighted in terms:
            weighted.term.memory = memory_of(weighted.term)
        first_stage = prefilter or _prefilter(recipe, source, memory_of)
        decoder = Decoder(
            recipe=_settled(recipe, ready, terms, first_stage),
            utility=ready,
            strategy=strategy or recipe.make_strategy(),
            terms=terms,
            prefilter=first_stage,
            guards=Guards({guard.name: get_guard(guard.name, **guard.options) for guard in recipe.guards}),
            on_error=on_error,
            keep_matrix=keep_matrix,
            memory=memory_of(ready),
            check=check,
            models=owned,
        )
        stack.pop_all()  # they are the decoder's to close
        return decoder


def _settled(recipe: Recipe, utility: Utility, terms: Sequence[WeightedTerm], first_stage: Prefilter | None) -> Recipe:
    """The recipe with the precisions that models of dtype `auto` chose, so that it makes the same choices elsewhere."""

    def named(options: Options, settings: Mapping[str, object]) -> Options:
        return {**options, "dtype": settings["dtype"]} if options.get("dtype") == AUTO else options

    loaded = zip(recipe.terms, terms, strict=True)
    spec = recipe.prefilter
    return replace(
        recipe,
        options=named(recipe.options, utility.settings()),
        terms=tuple(replace(term, options=named(term.options, weighted.term.settings())) for term, weighted in loaded),
        prefilter=spec and replace(spec, options=named(spec.options, first_stage.settings if first_stage else {})),
    )


def _prefilter(recipe: Recipe, models: Models, memory_of: MemoryOf) -> Prefilter | None:
    """The first stage; a utility chooses with its own strategy, by the rules of the decision that follows."""
    spec = recipe.prefilter
    if spec is None:
        return None
    if spec.name not in UTILITIES:
        term = models.term(spec.name, spec.options)
        term.memory = memory_of(term)
        return by_term(str(spec), spec.keep, term, recipe.references)
    stage = Recipe(
        spec.name, spec.options, weights=recipe.weights, self_rule=recipe.self_rule, seed=recipe.seed
    ).complete()
    decoder = open_decoder(stage, models=models, memory_of=memory_of, on_error="skip")
    return by_decoder(str(spec), spec.keep, decoder)


def by_decoder(name: str, keep: int, decoder: Decoder) -> Prefilter:
    """Keep the best by the expected utilities of another decoder."""
    utility, strategy = decoder.utility, decoder.strategy

    def score(lists: Sequence[CandidateList]) -> list[Scores | MbrError]:
        return [_scores(decision) for decision in chain.from_iterable(decoder.windows(lists))]

    def portions(item: CandidateList, most: int) -> ScorePortions:
        decision = yield from decoder.decide_in_portions(item, most)
        return _scores(decision)

    def cost(lists: Sequence[CandidateList]) -> dict[str, Any]:
        if not isinstance(utility, QualityUtility):
            return {}
        return utility.cost([(item.source, text) for item in lists for text in item.texts])

    settings = {**utility.settings(), "strategy": strategy.name, **strategy.settings}
    return Prefilter(name, keep, score, settings, tuple(utility.notes()), cost, decoder.passes_of, portions)


def _scores(decision: Decision) -> Scores | MbrError:
    """Expected utilities; candidates that the strategy left out come last."""
    if decision.error is not None:
        return ModelError(decision.error)
    return np.nan_to_num(decision.scores, nan=float(np.nanmin(decision.scores)))
