"""Task parity: people among the metrics."""

from __future__ import annotations

import argparse
from functools import partial
from typing import TYPE_CHECKING

from candidates.command.console import Console, Parser
from candidates.common.errors import UsageError
from mbr.cli.metaeval.agreement import add_statistics_options, write_table
from mbr.cli.metaeval.options import add_output_options, add_score_set_options, read_sets, task_parser

if TYPE_CHECKING:
    from mbr.metaeval.values import ScoreSet

QUICK_START = """\
  mbr-metaeval parity --table wmt20.en-de.tsv --human mqm-col1 --humans mqm-col2 mqm-col3 --exclude-systems ref
  mbr-metaeval parity --data mt-metrics-eval-v2 --test-set wmt23 --lp en-de --human mqm --humans da-sqm
  mbr-metaeval parity --ratings mqm_generalMT.tsv --groups 3"""


def parser() -> Parser:
    p = task_parser(
        "parity",
        "Do metrics agree with people as well as people do? One human column is the gold, others are evaluators beside "
        "the metrics, on the segments that all of them annotated.",
        QUICK_START,
    )
    add_score_set_options(p)
    g = p.add_argument_group("people")
    g.add_argument("--humans", nargs="+", action="extend", metavar="NAME", help="other human scores or columns")
    g.add_argument(
        "--ratings",
        metavar="FILE",
        help="instead of scores: judgments with raters (Google's MQM tables), from which evaluators with disjoint "
        "raters are made on as many segments as possible",
    )
    g.add_argument("--groups", type=int, metavar="K", help="number of evaluators to make of --ratings (default: 3)")
    g = add_statistics_options(p, "spa,acc_eq")
    g.add_argument("--no-significance", action="store_true", help="plain ranks, without tests")
    add_output_options(p)
    return p


def run(options: argparse.Namespace, console: Console) -> int:
    from mbr.metaeval.agreement import parse_statistics
    from mbr.metaeval.parity import human_parity

    parse_statistics(options.statistics.split(","))
    if options.ratings is not None:
        scores = _rated(options)
    elif options.groups is not None:
        raise UsageError("--groups goes with --ratings FILE")
    else:
        (scores,) = read_sets(options, console, humans=options.humans or [])
    table = partial(human_parity, scores, options.humans or [])
    return write_table("parity", options, console, table, significance=not options.no_significance)


def _rated(options: argparse.Namespace) -> ScoreSet:
    from mbr.metaeval.raters import read_evaluators
    from pear.data import read_judgments
    from pear.data.judgments import guess_format

    others = ("data", "test_set", "table", "human", "humans", "own", "score", "metrics")
    for name in (*others, "reference", "human_systems", "outliers"):
        if getattr(options, name):
            raise UsageError(
                f"--{name.replace('_', '-')} does not go with --ratings, which makes all its evaluators of one file"
            )
    format = guess_format(options.ratings)
    # Judgments of pairs shown side by side are read as single ones.
    judgments = list(read_judgments(options.ratings, "mqm" if format == "sxs" else format, lp=options.lp))
    return read_evaluators(judgments, options.groups or 3, only=options.systems, without=options.exclude_systems or [])
