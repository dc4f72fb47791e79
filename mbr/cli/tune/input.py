"""The lists, references and recipes that the options of mbr-tune ask for."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from candidates.common.errors import InputError, UsageError
from candidates.formats import BadRecord, read_lists
from candidates.lists import CandidateList
from mbr.cli.common.texts import read_texts
from mbr.recipe import Changes, Recipe, TermSpec, plan, read_recipe
from mbr.recipe.files import recipe_for
from mbr.recipe.plan import with_precision
from mbr.recipe.words import option_pairs, parse_strategy
from mbr.strategies import Strategy, get_strategy


def read_development(options: argparse.Namespace) -> tuple[list[CandidateList], list[Sequence[str]]]:
    """The lists, and the references of each. A list that cannot be read ends the run: every list counts."""
    lists: list[CandidateList] = []
    for record in read_lists(
        options.candidates,
        format=options.input_format,
        sources=options.sources,
        nbest=options.nbest,
        logprobs=options.logprobs,
    ):
        if isinstance(record, BadRecord):
            raise record.error
        lists.append(record)
    if not lists:
        raise InputError(f"{options.candidates}: no candidate list; expected development lists to tune on")
    if not options.references:
        return lists, [item.references for item in lists]
    files = [read_texts(path) for path in options.references]
    for file in files:
        if len(file.texts) != len(lists):
            raise InputError(
                f"{file.path} has {len(file.texts)} lines, but there are {len(lists)} segments; expected a line for "
                "each"
            )
    return lists, list(zip(*(file.texts for file in files), strict=True))


def recipe_of(options: argparse.Namespace, lists: Sequence[CandidateList]) -> Recipe:
    """What is weighed: the utility as it would decode these lists, and the terms of --add."""
    chosen = {} if options.model is None else {"model": options.model}
    changes = Changes(options.utility, chosen, weights=options.weights, self_rule=options.self_rule, seed=options.seed)
    planned = plan(changes, origin=lists[0].origin if lists else None, lists=lists)
    plain = replace(planned, weight=1.0, strategy=None, strategy_options={}, prefilter=None, budget_total=None)
    recipe = replace(plain, terms=_terms(options.add or (), options.add_model or ()))
    return recipe if options.dtype is None else with_precision(recipe, options.dtype, required=False)


def baseline_of(options: argparse.Namespace, lists: Sequence[CandidateList]) -> Recipe | None:
    """The recipe of --baseline, or the one that mbr-decode would use; None where the terms alone are weighed."""
    if options.baseline == "none":
        return None
    if options.baseline is not None:
        return read_recipe(options.baseline)
    if options.utility == "none":
        return recipe_for(lists[0].origin)
    chosen = {} if options.model is None else {"model": options.model}
    return plan(Changes(options.utility, chosen), origin=lists[0].origin, lists=lists)


def strategy_of(options: argparse.Namespace) -> Strategy | None:
    if options.strategy is None:
        return None
    name, numbers = parse_strategy(options.strategy)
    return get_strategy(name, **numbers)


def _terms(words: Sequence[str], models: Sequence[str]) -> tuple[TermSpec, ...]:
    """Terms of words such as `logprob` and `reverse,model=FOLDER`, and of models such as `reverse=FOLDER`."""
    terms: dict[str, dict[str, Any]] = {}
    for word in words:
        name, *pairs = word.split(",")
        if "=" in name:
            raise UsageError(f"--add {word!r}: weights are learnt; expected NAME or NAME,KEY=VALUE, such as logprob")
        if name in terms:
            raise UsageError(f"--add names {name!r} twice")
        terms[name] = option_pairs(pairs, f"--add {word!r}")
    for word in models:
        name, equals, model = word.partition("=")
        if not (equals and model) or name not in terms:
            raise UsageError(f"--add-model {word!r}: expected NAME=MODEL of a term that --add names")
        terms[name]["model"] = model
    return tuple(TermSpec(name, 1.0, chosen) for name, chosen in terms.items())
