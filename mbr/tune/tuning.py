"""Candidate lists with references in, a recipe with tuned weights out, and what it is worth on lists it did not see.

The steps: features of every candidate (`features.py`), judged qualities (`objective.py`), nested cross-validation
(`validation.py`), weights from all lists (`listwise.py`), gains with intervals (`gains.py`).

    tuned = tune(lists, references, Recipe("chrf", terms=(TermSpec("logprob"), TermSpec("coverage"))), "chrf")
    recipe_yaml(tuned.recipe)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from candidates.common.errors import InputError, UsageError
from candidates.common.version import __version__
from candidates.lists import CandidateList
from mbr.cache.judgements import Cache
from mbr.cache.scores import Ledger, ScoreStore
from mbr.estimate import estimate
from mbr.evaluate.judges import JudgeSpec
from mbr.opening import Models, open_decoder
from mbr.recipe import Recipe
from mbr.signature import Signature
from mbr.strategies import Strategy
from mbr.terms import Term
from mbr.tune.features import Features, features_of, tuning_strategy
from mbr.tune.gains import Column, columns_of, row
from mbr.tune.listwise import Floats, Ints, Problem, fit
from mbr.tune.objective import Objective, check_baselines, judge_lists, mixed, parse_objective
from mbr.tune.validation import Validated, best_penalty, validate
from mbr.tune.values import BEFORE, FIRST, ORACLE, TUNED, Tuned, Weight
from mbr.utilities import Utility

LEAST_LISTS = 20
LEAST_FEATURES = 2
DIGITS = 4  # of a weight in the recipe


@dataclass(frozen=True)
class Work:
    """How tuning runs: what models and judges get, what is kept between runs, and where messages go.

    Args:
        runtime: how models run (device, threads, ...).
        judge_options: options of neural judges.
        scores: file that keeps scores between runs, so that a killed run is continued; None keeps none.
        judgements: the same for judges.
        report: receives notes; `warn` warnings.
    """

    runtime: Mapping[str, Any] = field(default_factory=dict)
    judge_options: Mapping[str, Any] = field(default_factory=dict)
    tokenize: str = "13a"
    scores: Path | None = None
    judgements: Cache | None = None
    progress: bool = False
    report: Callable[[str], None] = lambda message: None
    warn: Callable[[str], None] = lambda message: None


def tune(
    lists: Sequence[CandidateList],
    references: Sequence[Sequence[str]],
    recipe: Recipe,
    objective: str,
    *,
    judges: Sequence[JudgeSpec] = (),
    baseline: Recipe | None = None,
    strategy: Strategy | None = None,
    seed: int = 1,
    draws: int = 1000,
    work: Work | None = None,
) -> Tuned:
    """Learn the weights of a recipe.

    Args:
        lists: development lists.
        references: of each list, one or more.
        recipe: utility and terms; their weights are learnt, the rest stays.
        objective: judge or mix of judges, as `chrf+embedding`.
        judges: more judges to report gains in.
        baseline: a recipe to compare with, too.
        strategy: which pairs of the lists to score (default: all, in one order where the utility allows it).
        seed: of folds, starts and draws.
        draws: of the bootstrap.
        work: how models run, what is kept, where messages go.

    Raises:
        UsageError: the recipe has nothing to weigh, or the objective is none.
        InputError: lists, references or features leave nothing to learn from.
    """
    work = work or Work()
    mix = parse_objective(objective)
    check_baselines(judges)
    check_recipe(recipe)
    check_lists(lists, references)
    looked_at = _look_at(lists, recipe, baseline, strategy, work)
    judged = _judge(lists, references, mix, judges, work)
    features = looked_at.features
    problem = Problem.of(features.values, judged.qualities)
    sources, positive = [item.source for item in lists], [0] if features.of_utility else []
    validated = validate(problem, sources, positive=positive, seed=seed)
    penalty = best_penalty(problem, sources, positive=positive, seed=seed)
    weights = fit(problem, penalty, positive=positive, seed=seed)
    tuned = Tuned(
        recipe=with_weights(recipe, dict(zip(features.names, weights / features.deviations, strict=True))),
        lists=len(lists),
        candidates=sum(map(len, lists)),
        objective=objective,
        penalty=penalty,
        seed=seed,
        draws=draws,
        judges=judged.identities,
    )
    signature = str(looked_at.signature(tuned.recipe))
    return _with_gains(replace(tuned, signature=signature), features, weights, validated, looked_at.before, judged)


def check_recipe(recipe: Recipe) -> None:
    """Refuse a recipe without two things to weigh."""
    names = [*([] if recipe.utility == "none" else [recipe.utility]), *(term.name for term in recipe.terms)]
    if len(names) < LEAST_FEATURES:
        features = f"only {names[0]}" if names else "nothing"
        raise UsageError(
            f"there is {features} to weigh; expected a utility and terms, or two terms: --add logprob coverage"
        )
    if len(set(names)) < len(names):
        raise UsageError(f"{recipe.utility} is both the utility and a term, which is the same evidence; leave out one")
    if recipe.prefilter is not None:
        raise UsageError("weights are tuned on whole lists; leave out the first stage")


def check_lists(lists: Sequence[CandidateList], references: Sequence[Sequence[str]]) -> None:
    """Refuse lists that nothing can be learnt from."""
    for item, texts in zip(lists, references, strict=True):
        if not any(text.strip() for text in texts):
            raise InputError(
                f"segment {item.id!r} has no reference; expected one or more for every list, in the lists or in "
                "files of a line per list (--references)"
            )
    if len({item.source for item in lists}) < LEAST_LISTS:
        raise InputError(f"{len(lists)} lists are too few to tune on; expected {LEAST_LISTS} different sources or more")
    if all(len(item) == 1 for item in lists):
        raise InputError("every list has one distinct candidate; there is nothing to choose, and nothing to tune")


def with_weights(recipe: Recipe, weights: Mapping[str, float]) -> Recipe:
    """The recipe with these weights, to four digits; what has none is left out, the utility too."""
    rounded = {name: float(f"{weight:.{DIGITS}g}") for name, weight in weights.items()}
    terms = tuple(replace(term, weight=rounded[term.name]) for term in recipe.terms if rounded[term.name])
    if rounded.get(recipe.utility, 0.0) > 0:
        return replace(recipe, weight=rounded[recipe.utility], terms=terms)
    return replace(recipe, utility="none", options={}, weight=1.0, strategy=None, strategy_options={}, terms=terms)


@dataclass(frozen=True)
class _LookedAt:
    """What models say of the lists, and what the recipe before chooses [lists]."""

    features: Features
    before: Ints | None
    settings: Mapping[str, Mapping[str, Any]]  # of the loaded utility and terms, by name

    def signature(self, recipe: Recipe) -> Signature:
        """The signature of a recipe of these parts, as mbr-decode prints it."""
        complete = recipe.complete()
        utility = {**recipe.options, **self.settings.get(recipe.utility, {})}
        terms = {term.name: {**term.options, **self.settings[term.name]} for term in recipe.terms}
        fields = complete.fields(utility, complete.make_strategy(), terms, {}, {}, "all")
        return Signature({**fields, "version": __version__})


def _look_at(
    lists: Sequence[CandidateList], recipe: Recipe, baseline: Recipe | None, strategy: Strategy | None, work: Work
) -> _LookedAt:
    """Features of every candidate; every score is computed once, also over several runs."""
    # Strategies that look for the best are led by the recipe before; others score all pairs anyway.
    led = baseline is not None and baseline.utility == recipe.utility
    guide = {term.name: term.weight / baseline.weight for term in baseline.terms} if baseline and led else {}
    terms = tuple(replace(term, weight=guide.get(term.name, 1.0)) for term in recipe.terms)
    plain = replace(recipe, weight=1.0, strategy=None, strategy_options={}, terms=terms)
    with ExitStack() as stack:
        folder = stack.enter_context(TemporaryDirectory())
        store = stack.enter_context(ScoreStore(work.scores or Path(folder, "scores.sqlite"), warn=work.warn))
        models = stack.enter_context(Models(work.runtime, lists[0] if lists else None))

        def ledger(part: Utility | Term) -> Ledger:
            return stack.enter_context(Ledger(store, part))

        open_ = partial(open_decoder, models=models, memory_of=ledger)
        decoder = open_(plain, strategy=strategy or tuning_strategy(plain))
        decoder.show_progress(work.progress)
        for note in decoder.notes():
            work.report(note)
        cost = estimate(decoder, lists)
        pairs = "" if plain.utility == "none" else f", {cost.pairs:,} pairs to score"
        work.report(
            f"{cost.segments:,} lists, {cost.unique:,} candidates{pairs}: about {cost.seconds:,.0f} s, less what "
            "earlier runs have kept"
        )
        features = features_of(decoder, lists)
        before = None
        if baseline is not None:
            decisions = chain.from_iterable(open_(baseline).windows(lists))
            before = np.array([decision.ranking[0] for decision in decisions], np.int64)
        settings = {spec.name: loaded.term.settings() for spec, loaded in zip(plain.terms, decoder.terms, strict=True)}
        settings[plain.utility] = decoder.utility.settings()
        return _LookedAt(features, before, settings)


@dataclass(frozen=True)
class _Judged:
    """The objective of every candidate of each list, and all measures of choices, the objective first."""

    qualities: list[Floats]
    columns: list[Column]
    identities: dict[str, str]


def _judge(
    lists: Sequence[CandidateList],
    references: Sequence[Sequence[str]],
    mix: Objective,
    more: Sequence[JudgeSpec],
    work: Work,
) -> _Judged:
    named = [spec.label for spec, _ in mix]
    judged = [
        judge_lists(
            spec,
            lists,
            [[text for text in texts if text.strip()] for texts in references],
            tokenize=work.tokenize,
            options=work.judge_options,
            cache=work.judgements,
            progress=work.progress,
        )
        for spec in [*(spec for spec, _ in mix), *(spec for spec in more if spec.label not in named)]
    ]
    qualities = mixed(judged[: len(mix)], [weight for _, weight in mix])
    return _Judged(qualities, columns_of(judged, qualities), {judge.spec.label: judge.identity for judge in judged})


def _with_gains(
    tuned: Tuned, features: Features, weights: Floats, validated: Validated, before: Ints | None, judged: _Judged
) -> Tuned:
    """The result with what it is worth: rows beside the first candidate, and each weight's part."""
    drawn = {"draws": tuned.draws, "seed": tuned.seed}
    columns, chosen = judged.columns, validated.choices
    oracle = np.array([int(np.argmax(values)) for values in judged.qualities], np.int64)
    choices = {FIRST: np.zeros_like(chosen), **({} if before is None else {BEFORE: before}), TUNED: chosen}
    choices |= {f"without {name}": row for name, row in zip(features.names, validated.without, strict=True)}
    choices |= {ORACLE: oracle}
    largest = np.abs(weights).max() or 1.0
    recipe = {term.name: term.weight for term in tuned.recipe.terms} | {tuned.recipe.utility: tuned.recipe.weight}
    return replace(
        tuned,
        digits={column.label: column.digits for column in columns},
        rows=tuple(row(label, some, columns, **drawn) for label, some in choices.items()),
        over_baseline={} if before is None else {c.label: c.gain(chosen, before, **drawn) for c in columns},
        weights=tuple(
            Weight(name, recipe.get(name, 0.0), float(weight / largest), columns[0].gain(chosen, other, **drawn))
            for name, weight, other in zip(features.names, weights, validated.without, strict=True)
        ),
    )
