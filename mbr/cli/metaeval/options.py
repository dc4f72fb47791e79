"""Options that the tasks share, and the score sets that they describe."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING

from candidates.command.console import Console, Parser, add_message_options
from candidates.command.numbers import check_numbers
from candidates.common.errors import UsageError
from mbr.cli.common.options import add_config_option, add_judge_model_options, judge_model_options, open_judgements

if TYPE_CHECKING:
    from mbr.cache.judgements import Cache
    from mbr.metaeval.values import ScoreSet

FORMATS = ("table", "json", "tsv", "latex")
INPUTS = ("data", "table", "ratings", "errors", "sources", "before", "after")  # options of one task or another


def task_parser(task: str, description: str, quick_start: str) -> Parser:
    name = "mbr-metaeval" if task == "agreement" else f"mbr-metaeval {task}"
    return Parser(name, description, "quick start:\n" + quick_start)


def add_data_options(parser: Parser, *, several: bool = False) -> None:
    g = parser.add_argument_group("scores")
    g.add_argument("--data", metavar="FOLDER", help="mt-metrics-eval's data, or the folder of one test set")
    g.add_argument("--test-set", metavar="NAME", help="such as wmt23, below --data")
    g.add_argument(
        "--lp",
        nargs="+" if several else None,
        action="extend" if several else "store",
        metavar="LP",
        help="language pair" + ("s, which are averaged" if several else "") + ", such as en-de",
    )
    g.add_argument(
        "--table", metavar="FILE", help="instead: TSV or JSON lines with system, segment and one column per evaluator"
    )
    g.add_argument("--human", metavar="NAME", help="human scores that are the gold (default: mqm)")


def add_system_options(parser: Parser) -> None:
    g = parser.add_argument_group("systems")
    g.add_argument("--systems", nargs="+", action="extend", metavar="NAME", help="only these")
    g.add_argument("--exclude-systems", nargs="+", action="extend", metavar="NAME", help="all but these")
    g.add_argument("--reference", metavar="NAME", help="what metrics compare with (default: that of WMT's results)")
    g.add_argument("--human-systems", action="store_true", help="other references count as systems")
    g.add_argument("--outliers", action="store_true", help="systems that WMT's results leave out count too")


def add_metric_options(parser: Parser) -> None:
    g = parser.add_argument_group("metrics")
    g.add_argument("--metrics", nargs="+", action="extend", metavar="NAME", help="only these (default: all that fit)")
    g.add_argument(
        "--own",
        nargs="+",
        action="extend",
        metavar="NAME=FILE",
        help="your metric: lines system<TAB>score, or a table; with a column `other` a pairwise metric. "
        "Several language pairs: {lp} in the name of the file",
    )
    g.add_argument(
        "--score",
        nargs="+",
        action="extend",
        metavar="NAME[=MODEL]",
        help="score the outputs with a judge or utility of this package (chrf, comet=FOLDER, pear=FOLDER, ...)",
    )
    add_judge_model_options(parser, "models (with --score)")


def add_score_set_options(parser: Parser, *, several: bool = False) -> None:
    """Everything that describes a score set: human scores, metrics, systems."""
    add_data_options(parser, several=several)
    add_metric_options(parser)
    add_system_options(parser)


def add_output_options(parser: Parser, *, plot: str | None = None) -> None:
    g = parser.add_argument_group("output")
    g.add_argument("-o", "--output", metavar="FILE", help="default: standard output; written whole or not at all")
    g.add_argument("--format", choices=FORMATS, default="table", help="of the output")
    if plot is not None:
        g.add_argument("--plot", metavar="FILE.svg", help=plot)
    g.add_argument("--force", action="store_true", help="overwrite existing files")
    add_config_option(parser)
    add_message_options(parser)


def check_options(options: argparse.Namespace) -> None:
    """Refuse files that cannot be written and numbers out of range, before any work."""
    from candidates.command.outputs import check_outputs

    own = [path for word in getattr(options, "own", None) or () for path in _own_files(word, options)]
    check_outputs(
        {"output": options.output, "plot": getattr(options, "plot", None)},
        inputs=[*(getattr(options, name, None) for name in INPUTS), *own],
        config=options.config,
        force=options.force,
    )
    check_numbers(options, positive=("draws", "groups", "repeats", "threads", "batch_tokens"), not_negative=("seed",))


def read_sets(
    options: argparse.Namespace,
    console: Console,
    *,
    humans: Sequence[str] = (),
    metrics: bool = True,
    anchored: bool = False,
) -> list[ScoreSet]:
    """One score set for each language pair, with own and scored metrics, over the chosen systems."""
    from mbr.metaeval.scoring import check_names

    check_names(getattr(options, "score", None) or [])
    own = [_named(word) for word in getattr(options, "own", None) or []]
    pairs = options.lp if isinstance(options.lp, list) else [options.lp]
    pairs = list(dict.fromkeys(pairs)) if options.lp else [""]
    if options.table is not None and len(pairs) > 1:
        raise UsageError("a table holds one language pair; give one --lp with it")
    sets = []
    with ExitStack() as stack:
        cache = open_judgements(options, console, stack) if getattr(options, "score", None) else None
        for lp in pairs:
            scores = _read(options, lp or "", humans, metrics)
            scores = scores.choose(options.systems, options.exclude_systems or [])
            if not humans:  # otherwise the segments that all people annotated decide
                scores = scores.complete(getattr(options, "metrics", None) or [])
            for note in scores.notes:
                console.info(f"{scores.lp}: {note}" if len(pairs) > 1 else note)
            sets.append(_with_own(replace(scores, notes=()), own, options, console, cache, anchored))
    return sets


def _read(options: argparse.Namespace, lp: str, humans: Sequence[str], metrics: bool) -> ScoreSet:
    from mbr.metaeval.folders import find_test_set, read_folder
    from mbr.metaeval.tables import read_study

    table = options.table
    if (options.data is None) == (table is None):
        raise UsageError(
            "which scores? give --data FOLDER or --table FILE" + (", not both" if table is not None else "")
        )
    chosen = [] if not metrics else getattr(options, "metrics", None)
    if table is not None:
        for name in ("test_set", "reference", "human_systems", "outliers"):
            if getattr(options, name, None):
                raise UsageError(f"--{name.replace('_', '-')} goes with --data, not with --table")
        if options.human is None:
            raise UsageError("which column of the table is the gold? give --human COLUMN")
        columns = None if chosen is None else [*dict.fromkeys([*chosen, *humans])]
        return read_study(table, options.human, metrics=columns, lp=lp)
    return read_folder(
        find_test_set(options.data, options.test_set),
        lp,
        options.human or "mqm",
        reference=options.reference,
        human_systems=options.human_systems,
        outliers=options.outliers,
        metrics=chosen,
        evaluators=humans,
    )


def _with_own(
    scores: ScoreSet,
    own: Iterable[tuple[str, str]],
    options: argparse.Namespace,
    console: Console,
    cache: Cache | None,
    anchored: bool,
) -> ScoreSet:
    from mbr.metaeval.scoring import score_by_name
    from mbr.metaeval.tables import read_own

    for name, path in own:
        scores = scores.with_metrics(read_own(name, path.replace("{lp}", scores.lp), scores))
    for word in getattr(options, "score", None) or []:
        scored = score_by_name(
            word,
            scores,
            anchored=anchored,
            options=judge_model_options(options),
            cache=cache,
            progress=console.shows_progress,
            report=console.info,
        )
        scores = scores.with_metrics(scored)
    return scores


def _own_files(word: str, options: argparse.Namespace) -> list[str]:
    _, path = _named(word)
    pairs = options.lp if isinstance(options.lp, list) else [options.lp]
    return [path.replace("{lp}", lp or "") for lp in pairs]


def _named(word: str) -> tuple[str, str]:
    name, equals, path = word.partition("=")
    if not equals or not name or not path:
        raise UsageError(f"--own {word}: expected NAME=FILE")
    if path == "-":
        raise UsageError(f"--own {word}: it cannot be standard input; name a file")
    return name, path
