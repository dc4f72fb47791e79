"""What mbr-decode refuses before anything is read or loaded, and the changes to a recipe that its options ask for."""

from __future__ import annotations

import argparse
import math
from typing import Any

from candidates.command.console import Console
from candidates.common.errors import UsageError
from candidates.common.words import agreeing
from candidates.options import given_options
from mbr.cli.common.shards import SUFFIX, Shard
from mbr.cli.decode.cluster import check_cluster
from mbr.cli.decode.explain import check_explain
from mbr.cli.decode.route import parse_route
from mbr.recipe import Changes, PrefilterSpec
from mbr.recipe.words import option_pairs, parse_strategy, parse_terms, required

MOST_TOP = 10_000  # as --nbest
# Options of the utility that have flags of their own and may change a score; --dtype is for all models.
UTILITY_OPTIONS = ("model", "revision", "encoder", "tokenize")


def check(options: argparse.Namespace, console: Console) -> None:
    """Refuse what does not fit together."""
    if options.matrix and options.matrix.endswith(".gz"):
        raise UsageError("an .npz file is compressed already; leave out .gz")
    for name in ("threads", "top", "batch_tokens"):
        if getattr(options, name) is not None and getattr(options, name) < 1:
            raise UsageError(f"--{name.replace('_', '-')} {getattr(options, name)} is not a positive number")
    if options.top > MOST_TOP:  # text has as many lines for each source, whatever its list holds
        raise UsageError(f"--top {options.top} is out of range; expected a number from 1 to {MOST_TOP}")
    check_cluster(options)
    check_explain(options)
    _check_production(options)
    if options.resume and not options.output:
        raise UsageError("--resume needs an output file (-o FILE)")
    if options.nbest == 1:
        console.warn(
            "--nbest 1 keeps one candidate per source, so there is nothing to choose; mbrs's --nbest is --top here"
        )
    if [options.candidates, options.sources, options.logprobs].count("-") > 1:
        raise UsageError("only one of --candidates, --sources and --logprobs can be standard input")
    if options.candidates is None:
        _check_text_input(options, console)
    else:
        _check_no_generation(options)
    _check_outputs(options)


def _check_production(options: argparse.Namespace) -> None:
    if (options.route is None) != (options.route_output is None):
        raise UsageError("--route and --route-output go together: --route 'margin<0.1' --route-output check.jsonl")
    if options.route is not None:
        from mbr.terms import TERMS
        from mbr.utilities import utility_names

        parse_route(options.route, [*TERMS, *utility_names()])
    if options.price_per_hour is not None:
        if options.report is None:
            raise UsageError("--price-per-hour goes with --report, which has what the run cost")
        if not 0 <= options.price_per_hour < math.inf:
            raise UsageError(f"--price-per-hour {options.price_per_hour} is not a price; expected 0 or more")
    if options.shard is None:
        return
    Shard.parse(options.shard)
    if options.output is None:
        raise UsageError("--shard needs an output file (-o FILE), beside which mbr-merge finds the pieces")
    for name in ("ray", "budget_total"):
        if getattr(options, name) is not None:
            raise UsageError(f"--shard cuts the input for machines apart; leave out --{name.replace('_', '-')}")
    if options.line_buffered:
        raise UsageError("--line-buffered answers lines as they come; leave it out with --shard")


def _check_no_generation(options: argparse.Namespace) -> None:
    generation = [*given_options(options), *(["--save-candidates"] if options.save_candidates is not None else [])]
    if generation:
        raise UsageError(f"{agreeing(generation, 'goes', 'go')} with text; --candidates holds lists that exist already")


def _check_outputs(options: argparse.Namespace) -> None:
    from candidates.command.outputs import check_outputs, input_models
    from candidates.command.streams import check_standard_output

    if options.dry_run or options.print_recipe or options.explain is not None:
        check_standard_output()
        return
    inputs = [options.candidates, options.sources, options.logprobs, options.recipe, options.glossary]
    check_outputs(
        {"output": None, **output_files(options)},
        inputs=[*inputs, *input_models(options.model, options.encoder, options.prefilter_model)],
        config=options.config,
        force=options.force,
        journaled=True,
        resume=options.resume,
        others={
            **({} if options.budget_total is None else {".scores": "the scores of an unfinished run"}),
            **({} if options.shard is None else {SUFFIX: "the pieces of a shard"}),
        },
    )


def output_files(options: argparse.Namespace) -> dict[str, str]:
    """The files a run writes, by option."""
    names = ("output", "matrix", "save_candidates", "route_output", "report")
    return {name.replace("_", "-"): path for name in names if (path := getattr(options, name)) is not None}


def changes_of(options: argparse.Namespace) -> Changes:
    """What the options ask for, to be applied to the recipe."""
    utility_options: dict[str, Any] = {
        name: value for name in UTILITY_OPTIONS if (value := getattr(options, name)) is not None
    }
    for name, value in option_pairs(options.option or (), "--option").items():
        if name in utility_options:
            raise UsageError(f"--option {name} and --{name.replace('_', '-')} are the same option; give one of them")
        utility_options[name] = value
    strategy, strategy_options = (None, {}) if options.strategy is None else parse_strategy(options.strategy)
    for name in ("budget", "tolerance"):
        if (value := getattr(options, name)) is not None:
            if name in strategy_options:
                raise UsageError(f"--strategy {options.strategy} and --{name} are the same option; give one of them")
            strategy_options[name] = value
    terms, term_options = parse_terms(options.add or (), options.add_model or ())
    changes = Changes(
        utility=options.utility,
        options=utility_options,
        strategy=strategy,
        strategy_options=strategy_options,
        terms=terms,
        term_options=term_options,
        weights=options.weights,
        self_rule=options.self_rule,
        prefilter=_prefilter(options),
        guards=None if options.require is None else required(options.require),
        seed=options.seed,
        budget_total=options.budget_total,
    )
    return changes if options.glossary is None else changes.with_glossary(options.glossary)


def _prefilter(options: argparse.Namespace) -> PrefilterSpec | None:
    if (options.filter is None) != (options.keep is None):
        raise UsageError("--filter and --keep go together: --filter cometkiwi --keep 30")
    if options.filter is not None and options.prefilter is not None:
        raise UsageError("--prefilter NAME:K and --filter NAME --keep K are the same option; give one of them")
    word = options.prefilter if options.filter is None else f"{options.filter}:{options.keep}"
    if word is None:
        if options.prefilter_model is not None:
            raise UsageError("--prefilter-model goes with --prefilter or --filter, which name the utility")
        return None
    return PrefilterSpec.parse(word, {} if options.prefilter_model is None else {"model": options.prefilter_model})


def _check_text_input(options: argparse.Namespace, console: Console) -> None:
    for name in ("input_format", "logprobs"):
        if getattr(options, name) is not None:
            raise UsageError(f"--{name.replace('_', '-')} goes with --candidates; text is read line by line")
    if options.save_candidates and not options.save_candidates.removesuffix(".gz").endswith(".jsonl"):
        raise UsageError(
            f"--save-candidates {options.save_candidates}: expected a name that ends in .jsonl, which holds any text; "
            "mbr-generate writes the other formats"
        )
    if options.dry_run:
        raise UsageError(
            "--dry-run counts the pairs of lists that exist; make them first (mbr-generate), then give --candidates"
        )
    if options.sources is None:
        options.sources = "-"
    if not options.print_recipe:
        console.announce_typing(options.sources)
