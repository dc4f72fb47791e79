"""Task parity: people among the metrics."""

from __future__ import annotations

import argparse
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from candidates.command.console import Console, Parser
from candidates.common.errors import UsageError
from mbr.cli.metaeval.agreement import add_statistics_options, make_table, write_tables
from mbr.cli.metaeval.options import (
    add_output_options,
    add_score_set_options,
    read_sets,
    task_parser,
    warn_of_few_draws,
)

if TYPE_CHECKING:
    from mbr.metaeval.values import ScoreSet

QUICK_START = """\
  mbr-metaeval parity --table wmt20.en-de.tsv --human mqm-col1 --humans mqm-col2 mqm-col3 --exclude-systems ref
  mbr-metaeval parity --data mt-metrics-eval-v2 --test-set wmt23 --lp en-de --human mqm --humans da-sqm
  mbr-metaeval parity --table wmt20.en-de.tsv --human mqm-col1 mqm-col2 psqm-col1 --exclude-systems ref
  mbr-metaeval parity --ratings mqm_generalMT.tsv --groups 3
  mbr-metaeval parity --ratings mqm.tsv psqm.tsv --data mt-metrics-eval-v2 --test-set wmt23 --lp en-de"""


def parser() -> Parser:
    p = task_parser(
        "parity",
        "Do metrics agree with people as well as people do? One human column is the gold, others are evaluators beside "
        "the metrics, on the segments that all of them annotated.",
        QUICK_START,
    )
    add_score_set_options(p, golds=True)
    g = p.add_argument_group("people")
    g.add_argument("--humans", nargs="+", action="extend", metavar="NAME", help="other human scores or columns")
    g.add_argument(
        "--ratings",
        nargs="+",
        action="extend",
        metavar="FILE",
        help="judgments with raters: marked MQM errors, or a table with system, segment, rater and score (pSQM, ESA, "
        "...); evaluators with disjoint raters are made of each on as many segments as possible. Metrics of --data or "
        "--table stand beside them",
    )
    g.add_argument("--groups", type=int, metavar="K", help="evaluators to make of each of --ratings (default: 3)")
    g = add_statistics_options(p, "spa,acc_eq")
    g.add_argument("--no-significance", action="store_true", help="plain ranks, without tests")
    add_output_options(p)
    return p


def run(options: argparse.Namespace, console: Console) -> int:
    from mbr.metaeval.agreement import parse_statistics
    from mbr.metaeval.parity import human_parity

    parse_statistics(options.statistics.split(","))
    if not options.no_significance:
        warn_of_few_draws(options, console, "ranks")
    began = time.monotonic()
    golds = list(dict.fromkeys(options.human or []))
    humans = [name for name in dict.fromkeys([*golds[1:], *(options.humans or [])]) if name not in golds[:1]]
    if options.ratings is not None:
        scores = _rated(options, console)
        golds, humans = [scores.human.name], []
    elif options.groups is not None:
        raise UsageError("--groups goes with --ratings FILE")
    else:
        (scores,) = read_sets(options, console, human=golds[0] if golds else None, humans=humans)
    tables = [
        make_table(
            options,
            console,
            partial(human_parity, scores, humans, gold=gold),
            significance=not options.no_significance,
            quiet=number > 0,
        )
        for number, gold in enumerate(golds or [None])
    ]
    return write_tables("parity", options, console, [(table, {}) for table in tables], began)


def _rated(options: argparse.Namespace, console: Console) -> ScoreSet:
    """Evaluators that are made of raters, the first of them the gold, beside metrics where there are any."""
    from mbr.metaeval.raters import beside_metrics, read_evaluators, together
    from mbr.metaeval.ratings import read_rating_table

    beside = options.data is not None or options.table is not None
    metric_options = ("test_set", "own", "score", "metrics", "reference", "human_systems", "outliers", "domain", "clip")
    for name in ("human", "humans", *(() if beside else metric_options)):
        if getattr(options, name):
            why = "which makes all its people of its files" if beside else "unless --data or --table has metrics"
            raise UsageError(f"--{name.replace('_', '-')} does not go with --ratings, {why}")
    groups = options.groups or 3
    only, without = options.systems, options.exclude_systems or []
    tables = [
        read_evaluators(list(read_rating_table(path, options.lp)), groups, name=name, only=only, without=without)
        for name, path in _names(options.ratings).items()
    ]
    people = together(tables)
    if not beside:
        return people
    (scores,) = read_sets(options, console)
    return beside_metrics(people, scores)


def _names(paths: list[str]) -> dict[str, str]:
    """The names of evaluators by file: `raters` of one file, the names of several."""
    if len(paths) == 1:
        return {"raters": paths[0]}
    names = {Path(path).name.split(".")[0]: path for path in paths}
    if len(names) < len(paths):
        raise UsageError("--ratings: two files have the same name; rename one, evaluators are called by it")
    return names
