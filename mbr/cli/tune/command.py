"""mbr-tune: candidate lists with references in, a recipe with tuned weights out, with what it gains on unseen lists.

The steps: parse and check (here), lists and recipe (`input.py`), tune (`mbr.tune`), write (here, with `tables.py`).
With --parallel a word-translation table is trained instead (`mbr.alignment`).
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING

from candidates.command.console import Console
from candidates.command.numbers import check_numbers
from candidates.common.errors import UsageError
from mbr.cli.tune.arguments import parser

if TYPE_CHECKING:
    from mbr.tune import Tuned

# Options that --parallel has no use for.
OF_TUNING = ("candidates", "references", "sources", "logprobs", "input_format", "nbest", "add", "add_model", "model",
             "strategy", "judge", "baseline", "report", "weights", "self_rule", "seed")  # fmt: skip


def command(argv: Sequence[str] | None = None) -> int:
    from candidates.command.config import with_config

    p = parser()
    options = p.parse_args(with_config(p, sys.argv[1:] if argv is None else argv))
    console = Console("mbr-tune", quiet=options.quiet, log_format=options.log_format)
    _check(options)
    if options.parallel is not None:
        return _train_table(options, console)
    began = time.monotonic()
    with ExitStack() as stack:
        tuned = _tune(options, console, stack)

    from mbr.tune.caveats import caveats

    _write(tuned, options, console)
    for message in caveats(tuned):
        console.warn(message)
    console.info(
        f"tuned on {tuned.lists:,} lists in {time.monotonic() - began:.1f} s",
        lists=tuned.lists,
        gain=round(tuned.gain.difference, 6),
    )
    console.info(tuned.signature)
    return 0


def _check(options: argparse.Namespace) -> None:
    from candidates.command.outputs import check_outputs, input_models

    if (options.candidates is None) == (options.parallel is None):
        raise UsageError("give --candidates FILE with lists to tune on, or --parallel FILE with sentence pairs")
    check_numbers(options, not_negative=("seed",), positive=("bootstrap", "threads", "batch_tokens", "nbest"))
    words = [options.candidates, options.sources, options.logprobs, options.parallel, *(options.references or [])]
    if words.count("-") > 1:
        raise UsageError("only one of --candidates, --sources, --logprobs and --references can be standard input")
    if "" in words:
        raise UsageError("--candidates, --sources, --references and --parallel need names; found an empty word")
    if options.parallel is not None:
        foreign = [name for name in OF_TUNING if getattr(options, name) is not None]
        if foreign:
            raise UsageError(f"--{foreign[0].replace('_', '-')} goes with --candidates, not with --parallel")
        if options.output is None:
            raise UsageError("--parallel needs a name for the table: -o FILE.npz")
    outputs = {"output": options.output, "report": options.report}
    models = input_models(options.model, options.baseline)
    check_outputs(outputs, inputs=[*words, *models], config=options.config, force=options.force)


def _tune(options: argparse.Namespace, console: Console, stack: ExitStack) -> Tuned:
    from candidates.common.cache import cache_folder
    from mbr.cli.common.options import judge_model_options, open_judgements
    from mbr.cli.tune.input import baseline_of, read_development, recipe_of, strategy_of
    from mbr.evaluate.judges import parse_judges
    from mbr.recipe import RUNTIME_OPTIONS
    from mbr.tune import Work, tune
    from mbr.tune.objective import parse_objective

    # Misfits end here, before anything is read or loaded.
    parse_objective(options.objective)
    judges, strategy = parse_judges(options.judge or []), strategy_of(options)
    recipe_of(options, ()).check()
    lists, references = read_development(options)
    recipe = recipe_of(options, lists)
    models = judge_model_options(options)
    work = Work(
        runtime={name: value for name, value in models.items() if name in RUNTIME_OPTIONS},
        judge_options=models,
        tokenize=options.tokenize,
        scores=None if options.no_cache else cache_folder() / "scores.sqlite",
        judgements=open_judgements(options, console, stack),
        progress=console.shows_progress,
        report=console.info,
        warn=console.warn,
    )
    return tune(
        lists,
        references,
        recipe,
        options.objective,
        judges=judges,
        baseline=baseline_of(options, lists),
        strategy=strategy,
        seed=1 if options.seed is None else options.seed,
        draws=options.bootstrap,
        work=work,
    )


def _write(tuned: Tuned, options: argparse.Namespace, console: Console) -> None:
    """The recipe to its file and the tables to standard output; without a file, the recipe to standard output."""
    from candidates.command.colour import print_table
    from candidates.common.text import atomic_output
    from mbr.cli.common.output import write_output
    from mbr.cli.tune.tables import recipe_text, report_text

    if options.report is not None:
        with atomic_output(options.report, force=options.force) as stream:
            stream.write((json.dumps(tuned.record(), ensure_ascii=False, indent=1) + "\n").encode())
    write_output(recipe_text(tuned), options, tuned.signature)
    if options.output is None:
        console.info(f"gains and weights\n\n{report_text(tuned)}")
    else:
        print_table(report_text(tuned))


def _train_table(options: argparse.Namespace, console: Console) -> int:
    from pathlib import Path

    from mbr.alignment.training import read_parallel, train, write_table

    began = time.monotonic()
    table = train(read_parallel(options.parallel), {"data": Path(options.parallel).name})
    size = write_table(table, options.output, force=options.force)
    used, read = table.header["pairs"], table.header["of_pairs"]
    if used < read:
        console.warn(
            f"{used:,} of {read:,} sentence pairs were used; others have no words or too many, or are too many"
        )
    console.info(
        f"{options.output}: {used:,} sentence pairs, {len(table.source_words):,} and {len(table.target_words):,} "
        f"words, {len(table.targets):,} entries, {size / 1e6:.2f} MB in {time.monotonic() - began:.1f} s; use it with "
        f"--add coverage=WEIGHT --add-model coverage={options.output}",
        pairs=used,
        bytes=size,
    )
    return 0
