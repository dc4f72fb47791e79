"""mbr-compare: sources or candidate lists in; a report on several utilities, strategies and terms out.

The steps: parse and check (here), settings and judges (`settings.py`), lists (`input.py`), compare (`mbr.compare`),
write (here, with `tables.py`).
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import time
import traceback
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from candidates.command.console import Console, Parser, add_message_options, going_on
from candidates.command.numbers import check_numbers
from candidates.common.errors import MbrError, UsageError
from candidates.formats import INPUT_FORMATS
from candidates.options import add_generation_options, file_option
from mbr.cli.common.options import (
    add_config_option,
    add_judge_model_options,
    add_significance_options,
    open_judgements,
)
from mbr.cli.common.recipes import add_reference_options

if TYPE_CHECKING:
    from mbr.cli.compare.input import Input
    from mbr.compare import Comparison, Setting

QUICK_START = """\
quick start:
  mbr-compare --sources src.txt --references ref.txt --nbest 20 --utility pear chrf --strategy race halving -o report
  mbr-compare --candidates lists.jsonl --utility chrf pear,strategy=half bleu,prefilter=chrf:4 -o lists-report
  mbr-compare --preset pear-table2 --candidates lists.jsonl --references ref.txt -o table2  # GPU; downloads 60 GB"""

FILES = ("report.html", "report.json", "report.tsv")


def parser() -> Parser:
    p = Parser(
        "mbr-compare",
        "Which utility and which strategy to use, and what they cost: decode the same candidate lists with several "
        "settings, judge the choices, and write a page (report.html), the same for programs (report.json) and a table "
        "(report.tsv).",
        QUICK_START,
        file_option=file_option,
        failed="some segments were left out, or the first candidate stands in for a choice",
    )
    _add_input(p)
    _add_settings(p)
    _add_judges(p)
    _add_output(p)
    add_generation_options(p, short_names=False)
    add_judge_model_options(p, "models (all utilities and judges)", "lists, scores and judgements")
    add_config_option(p)
    add_message_options(p)
    return p


def _add_input(p: argparse.ArgumentParser) -> None:
    g = p.add_argument_group("input")
    g.add_argument(
        "--sources",
        metavar="FILE",
        help="text to translate, a sentence per line (- is standard input); or the sources of lists in lines, moses or "
        "fairseq",
    )
    g.add_argument("--candidates", metavar="FILE", help="candidate lists that exist already, instead of text")
    g.add_argument("--input-format", choices=INPUT_FORMATS, help="default: by the file's name")
    g.add_argument("--logprobs", metavar="FILE", help="a log-probability per line of a lines file")
    g.add_argument(
        "--nbest",
        type=int,
        metavar="N",
        help="candidates per source: to generate from text (default: 100), lines per source (lines), else the first N",
    )
    g.add_argument(
        "--references",
        nargs="+",
        action="extend",
        metavar="FILE",
        help="one file for each set of references (default: those in the lists, if any)",
    )


def _add_settings(p: argparse.ArgumentParser) -> None:
    g = p.add_argument_group("settings to compare")
    g.add_argument(
        "--utility",
        nargs="+",
        action="extend",
        metavar="NAME",
        help="NAME, NAME=MODEL, or either with ,key=value: strategy, budget, tolerance, add (NAME:WEIGHT), add-model "
        "(NAME:MODEL), add-option (NAME:KEY:VALUE), weights, prefilter, require (guards, as numbers+tags), label and "
        "the utility's options (default: pear chrf); see mbr-decode --list-utilities",
    )
    g.add_argument(
        "--strategy",
        nargs="+",
        action="extend",
        metavar="NAME[:X]",
        help="for every utility that names none and that it fits: half, race:0.05, halving:500 ... (default: that of "
        "the utility)",
    )
    g.add_argument("--preset", metavar="NAME", help="an experiment by name: pear-table2, pear-judge")
    g.add_argument(
        "--model",
        nargs="+",
        action="extend",
        metavar="NAME=MODEL",
        help="checkpoint of a utility, term or judge that names none: a folder, a file, or a hub name",
    )
    add_reference_options(g)


def _add_judges(p: argparse.ArgumentParser) -> None:
    g = p.add_argument_group("judges")
    g.add_argument(
        "--judge",
        nargs="+",
        action="extend",
        metavar="NAME[=MODEL]",
        help="see mbr-evaluate --list-judges; pear compares with the baseline (default: chrf bleu ter; without "
        "references those of --model that need none, else embedding-qe if its encoder is installed)",
    )
    g.add_argument(
        "--baseline", metavar="LABEL", help="the row that the others are tested against (default: the first)"
    )
    g.add_argument(
        "--oracle",
        default="chrf",
        metavar="NAME",
        help="judge that finds the best candidate of each list by the references; none: no such row",
    )
    g.add_argument("--tokenize", default="13a", metavar="NAME", help="sacrebleu tokenizer for bleu: zh, ja-mecab, ...")
    add_significance_options(g)


def _add_output(p: argparse.ArgumentParser) -> None:
    g = p.add_argument_group("output")
    g.add_argument("-o", "--output", metavar="FOLDER", default="report", help="for the three files")
    g.add_argument(
        "--study",
        type=int,
        default=6,
        metavar="K",
        help="segments whose pairs are all scored in both orders, for heat maps and regret against passes",
    )
    g.add_argument("--title", metavar="TEXT", help="of the page")
    g.add_argument("--force", action="store_true", help="overwrite an earlier report")


def command(argv: Sequence[str] | None = None) -> int:
    from candidates.command.config import with_config

    p = parser()
    options = p.parse_args(with_config(p, sys.argv[1:] if argv is None else argv))
    console = Console("mbr-compare", quiet=options.quiet, log_format=options.log_format)
    _check(options)

    from candidates.common.text import regular_target
    from mbr.cli.compare.input import read_input
    from mbr.cli.compare.settings import judges_of, nbest_of, oracle_of, settings_of

    # Misfits end here, before anything is read or loaded.
    options.nbest = nbest_of(options)
    settings, oracle = settings_of(options), oracle_of(options)
    judges_of(options)
    began = time.monotonic()
    with going_on(_way_on(options)), ExitStack() as stack:
        lists = read_input(options, settings, oracle, stack, console)
        _make_folder(regular_target(Path(options.output)))
        done = _compare(options, settings, oracle, lists, stack, console)
    _print_table(done)
    _write(done, options)
    return _report(done, options, console, time.monotonic() - began)


def _way_on(options: argparse.Namespace) -> str:
    if options.no_cache:
        return "without --no-cache, a second run would continue where this one ended"
    return "a second run continues where this one ended (what was scored is kept)"


def _make_folder(folder: Path) -> None:
    """Create the folder before the work, so that one that cannot be written to costs nothing."""
    from candidates.common.text import disk_errors

    with disk_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        if not os.access(folder, os.W_OK):
            raise UsageError(f"cannot write to {folder}; check the folder")


def _check(options: argparse.Namespace) -> None:
    from candidates.command.streams import check_standard_output
    from candidates.common.text import check_output

    if options.candidates is None and options.sources is None:
        raise UsageError("nothing to compare; give --sources FILE to translate, or --candidates FILE with lists")
    words = [options.candidates, options.sources, options.logprobs, *(options.references or [])]
    if words.count("-") > 1:
        raise UsageError("only one of --candidates, --sources, --logprobs and --references can be standard input")
    check_numbers(
        options, not_negative=("bootstrap", "trials", "seed", "study"), positive=("threads", "batch_tokens", "nbest")
    )
    folder = Path(options.output)
    check_output(folder, folder=True)
    for name in FILES if folder.is_dir() else ():
        check_output(folder / name, force=options.force, inputs=[*words, options.config])
    check_standard_output()  # for the table


def _compare(
    options: argparse.Namespace,
    settings: Sequence[Setting],
    oracle: str | None,
    lists: Input,
    stack: ExitStack,
    console: Console,
) -> Comparison:
    from candidates.common.cache import cache_folder
    from mbr.cli.compare.settings import rules_of
    from mbr.compare import compare

    return compare(
        lists.records,
        settings,
        lists.judges,
        references=lists.references,
        rules=rules_of(options, options.nbest or lists.origin.get("nbest")),
        baseline=options.baseline,
        oracle=oracle,
        first=lists.first,
        study=options.study,
        draws=options.bootstrap,
        trials=options.trials,
        tokenize=options.tokenize,
        scores=None if options.no_cache else cache_folder() / "scores.sqlite",
        judgements=open_judgements(options, console, stack),
        origin=lists.origin,
        progress=console.shows_progress,
        report=console.info,
        warn=console.warn,
    )


def _write(done: Comparison, options: argparse.Namespace) -> None:
    """Write the three files, each whole or not at all, and the options beside them."""
    from candidates.command.config import save_config
    from candidates.common.text import atomic_output
    from mbr.cli.compare.tables import json_text, tsv_text
    from mbr.compare.page import page

    folder = Path(options.output)
    contents = (page(done, options.title), json_text(done), tsv_text(done))
    for name, content in zip(FILES, contents, strict=True):
        with atomic_output(folder / name, force=options.force) as stream:
            stream.write(content.encode())
    failed = len(done.left_out) + sum(len(row.fallbacks) for row in done.rows)
    save_config(folder / FILES[0], options, f"mbr-compare, {len(done.rows)} rows", failed)


def _print_table(done: Comparison) -> None:
    from candidates.command.colour import print_table
    from mbr.cli.common.layout import WIDTH
    from mbr.cli.compare.tables import text_table

    print_table(text_table(done, shutil.get_terminal_size((WIDTH, 0)).columns))


def _report(done: Comparison, options: argparse.Namespace, console: Console, seconds: float) -> int:
    from candidates.common.words import counted

    errors = [*(row.error for row in done.rows), *(judge.error for judge in done.evaluation.judges)]
    failed = [error for error in errors if error is not None]
    for error in failed:
        if not isinstance(error, (MbrError, MemoryError, OSError)):
            traceback.print_exception(error)
    console.info(
        f"{Path(options.output, FILES[0])} is ready: {counted(len(done.rows), 'row')}, "
        f"{counted(len(done.lists), 'segment')}, {counted(len(done.evaluation.judges), 'judge')} in {seconds:.1f} s"
        + (f"; {len(failed)} of them failed" if failed else "")
        + (f"; {counted(len(done.left_out), 'segment')} left out" if done.left_out else ""),
        rows=len(done.rows),
        segments=len(done.lists),
        failed=len(failed),
        left_out=len(done.left_out),
        seconds=round(seconds, 3),
    )
    return done.exit_code()
