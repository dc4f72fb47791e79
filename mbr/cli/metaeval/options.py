"""Options that the tasks share, and the score sets that they make."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from candidates.command.console import Console, Parser, add_message_options
from candidates.common.errors import UsageError
from mbr.cli.common.models import add_model_options, model_options

if TYPE_CHECKING:
    from mbr.metaeval.values import ScoreSet

FORMATS = ("table", "json", "tsv", "latex")


def task_parser(task: str, description: str, quick_start: str) -> Parser:
    name = "mbr-metaeval" if task == "agreement" else f"mbr-metaeval {task}"
    return Parser(name, description, "quick start:\n" + quick_start)


def add_data_options(parser: Parser, *, several: bool = False, table: bool = True) -> None:
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
    if table:
        g.add_argument(
            "--table", metavar="FILE", help="instead: TSV or JSON lines with system, segment and a column per evaluator"
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
    add_model_options(parser, "models (with --score)")


def add_output_options(parser: Parser, *, plot: str | None = None) -> None:
    g = parser.add_argument_group("output")
    g.add_argument("-o", "--output", metavar="FILE", help="default: standard output; written whole or not at all")
    g.add_argument("--format", choices=FORMATS, default="table", help="of the output")
    if plot is not None:
        g.add_argument("--plot", metavar="FILE.svg", help=plot)
    g.add_argument("--force", action="store_true", help="overwrite existing files")
    g = parser.add_argument_group("run")
    g.add_argument("--config", metavar="FILE.yaml", help="options from a file; flags are stronger")
    add_message_options(parser)


def check_files(options: argparse.Namespace) -> None:
    """Refuse outputs that cannot be written, before any work."""
    from candidates.command.config import config_path
    from candidates.common.text import refuse_overwrite, regular_target

    files = [path for name in ("output", "plot") if (path := getattr(options, name, None)) is not None]
    if "" in files or "-" in files:
        raise UsageError("--output and --plot need the name of a file; without -o the output goes to standard output")
    targets = [regular_target(Path(path)) for path in files]
    if len(set(targets)) < len(targets):
        raise UsageError("--output and --plot name the same file")
    if options.output is not None and regular_target(config_path(Path(options.output))) in targets:
        raise UsageError("--plot names the file beside --output that holds the options; give another name")
    for path in files:
        refuse_overwrite(Path(path), force=options.force)


def check_positive(options: argparse.Namespace, *names: str) -> None:
    for name in names:
        value = getattr(options, name, None)
        if value is not None and value < 1:
            raise UsageError(f"--{name.replace('_', '-')} {value} is not a positive number")
    if getattr(options, "seed", 0) < 0:
        raise UsageError(f"--seed {options.seed} is negative")


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
    if getattr(options, "table", None) is not None and len(pairs) > 1:
        raise UsageError("a table holds one language pair; give one --lp with it")
    found = []
    with ExitStack() as stack:
        cache = _cache(options, console, stack)
        for lp in pairs:
            known = _read(options, lp or "", humans, metrics)
            known = known.choose(options.systems, options.exclude_systems or [])
            if not humans:  # otherwise the segments that all people annotated decide
                known = known.complete(getattr(options, "metrics", None) or [])
            for note in known.notes:
                console.info(f"{known.lp}: {note}" if len(pairs) > 1 else note)
            known = replace(known, notes=())
            found.append(_with_own(known, own, options, console, cache, anchored))
    return found


def _read(options: argparse.Namespace, lp: str, humans: Sequence[str], metrics: bool) -> ScoreSet:
    from mbr.metaeval.folders import find_test_set, read_folder
    from mbr.metaeval.tables import read_study

    table = getattr(options, "table", None)
    if (options.data is None) == (table is None):
        where = "--data FOLDER or --table FILE" if hasattr(options, "table") else "--data FOLDER"
        raise UsageError(f"which scores? give {where}" + (", not both" if table is not None else ""))
    chosen = [] if not metrics else getattr(options, "metrics", None)
    if table is not None:
        for name in ("test_set", "reference", "human_systems", "outliers"):
            if getattr(options, name, None):
                raise UsageError(f"--{name.replace('_', '-')} goes with --data; a table has no such thing")
        if options.human is None:
            raise UsageError("which column of the table is the gold? give --human COLUMN")
        wanted = None if chosen is None else [*dict.fromkeys([*chosen, *humans])]
        return read_study(table, options.human, metrics=wanted, lp=lp)
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
    known: ScoreSet,
    own: Iterable[tuple[str, str]],
    options: argparse.Namespace,
    console: Console,
    cache: Any,
    anchored: bool,
) -> ScoreSet:
    from mbr.metaeval.scoring import score_by_name
    from mbr.metaeval.tables import read_own

    for name, path in own:
        known = known.with_metrics(read_own(name, path.replace("{lp}", known.lp), known))
    for word in getattr(options, "score", None) or []:
        scored = score_by_name(
            word,
            known,
            anchored=anchored,
            options=model_options(options),
            cache=cache,
            progress=console.shows_progress,
            tell=console.info,
        )
        known = known.with_metrics(scored)
    return known


def _cache(options: argparse.Namespace, console: Console, stack: ExitStack) -> Any:
    if not getattr(options, "score", None) or options.no_cache:
        return None
    from mbr.cache.judgements import Cache

    return stack.enter_context(Cache(tell=console.warn))


def _named(word: str) -> tuple[str, str]:
    name, equals, path = word.partition("=")
    if not equals or not name or not path:
        raise UsageError(f"--own {word}: expected NAME=FILE")
    if path == "-":
        raise UsageError(f"--own {word}: it cannot be standard input; name a file")
    return name, path
