"""From resolved options to a decoder: the strategy, the utility with its model, the rules of decision.

This module and `run.py` import what they need at their top, and are themselves imported late: --help does without them.
"""

from __future__ import annotations

import argparse
from contextlib import ExitStack
from typing import Any

from candidates.common.errors import UsageError
from mbr.api import get_prefilter
from mbr.cli.decode.records import unfit
from mbr.pipeline import Decoder
from mbr.prefilter import Prefilter, parse_prefilter
from mbr.strategies import Strategy, get_strategy
from mbr.utilities import Utility, get_utility, utility_class, utility_options
from mbr.utilities.ensemble import Ensemble
from mbr.utilities.resume import WithResume

# Options that go to the utility, if given.
UTILITY_OPTIONS = (
    "model",
    "revision",
    "encoder",
    "cache_dir",
    "offline",
    "device",
    "dtype",
    "backend",
    "compute_type",
    "batch_tokens",
    "threads",
    "tokenize",
)

# Of these, the ones that speak of every model there is, and so of RESUME too.
MODEL_OPTIONS = ("cache_dir", "offline", "device", "dtype", "backend", "compute_type", "batch_tokens", "threads")


def build_decoder(options: argparse.Namespace, stack: ExitStack) -> Decoder:
    """The decoder of a run; the stack closes what it holds."""
    # Misfits are told before a model is loaded.
    strategy = _strategy(options)
    _check_prefilter(options)
    return Decoder(
        _utility(options, stack),
        strategy,
        weights=options.weights,
        self_rule=options.self_rule,
        seed=options.seed,
        on_error=options.on_error,
        keep_matrix=options.matrix is not None,
        prior=options.prior,
        prefilter=_prefilter(options, stack),
        budget_total=options.budget_total,
        check=lambda item: unfit(item, options.format),
    )


def _strategy(options: argparse.Namespace) -> Strategy:
    kind, called = utility_class(options.utility), options.utility
    if options.add_resume is not None:
        kind, called = WithResume, f"{called}+resume"
    name = options.strategy or kind.default_strategy
    strategy = get_strategy(name, budget=options.budget, tolerance=options.tolerance)
    if kind is not Ensemble or not strategy.needs_antisymmetry:  # that depends on its members, once they are made
        strategy.check_fit(called, kind)
    if strategy.asks == "aggregate" and options.matrix is not None:
        raise UsageError("--matrix: strategy aggregate makes no matrix; use --strategy full")
    strategy.check_total(options.budget_total)
    return strategy


def _utility(options: argparse.Namespace, stack: ExitStack) -> Utility:
    given = {name: getattr(options, name) for name in UTILITY_OPTIONS if _given(getattr(options, name))}
    if options.member_model:
        given["models"] = dict(pair.split("=", 1) for pair in options.member_model)
    for_resume = {name: given[name] for name in MODEL_OPTIONS if name in given}
    utility = stack.enter_context(get_utility(options.utility, **_own(given, for_resume, options)))
    if options.add_resume is not None:
        utility = WithResume(utility, options.add_resume, options.resume_weight, **for_resume)
        stack.enter_context(utility)
    return utility


def _check_prefilter(options: argparse.Namespace) -> None:
    if options.prefilter is None:
        return
    name, _ = parse_prefilter(options.prefilter)
    takes = () if name == "logprob" else utility_options(name)
    if options.prefilter_model is not None and "model" not in takes:
        raise UsageError(f"--prefilter {name} takes no model; leave out --prefilter-model")


def _prefilter(options: argparse.Namespace, stack: ExitStack) -> Prefilter | None:
    """The first stage, on the same device as the utility."""
    if options.prefilter is None:
        return None
    name, _ = parse_prefilter(options.prefilter)
    rules = {"weights": options.weights, "self_rule": options.self_rule, "seed": options.seed}
    if name == "logprob":
        return get_prefilter(options.prefilter, **rules)
    own = _for_prefilter(options)
    if options.prefilter_model is not None:
        own["model"] = options.prefilter_model
    return get_prefilter(options.prefilter, stack.enter_context(get_utility(name, **own)), **rules)


def _for_prefilter(options: argparse.Namespace) -> dict[str, Any]:
    """The given options that speak of every model and that the prefilter takes."""
    name = "logprob" if options.prefilter is None else parse_prefilter(options.prefilter)[0]
    takes = () if name == "logprob" else utility_options(name)
    return {key: value for key in MODEL_OPTIONS if key in takes and _given(value := getattr(options, key))}


def _own(given: dict[str, Any], for_resume: dict[str, Any], options: argparse.Namespace) -> dict[str, Any]:
    """The given options without those that are another model's as well and that the utility does not take."""
    # With text in, these two are the translator's.
    shared = {"device", "threads"} if options.candidates is None else set()
    if options.add_resume is not None:
        shared |= set(for_resume)
    shared |= _for_prefilter(options).keys()
    others = shared - set(utility_options(options.utility))
    return {name: value for name, value in given.items() if name not in others}


def _given(value: object) -> bool:
    return value is not None and value is not False
