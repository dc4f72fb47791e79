"""Task anchors: does a pairwise metric need a human reference?"""

from __future__ import annotations

import argparse

from candidates.command.console import Console, Parser
from mbr.cli.metaeval.options import add_output_options, add_score_set_options, read_sets, task_parser

QUICK_START = """\
  mbr-metaeval anchors --data mt-metrics-eval-v2 --test-set wmt23 --lp en-de --own pear=pear.tsv
  mbr-metaeval anchors --data mt-metrics-eval-v2 --test-set wmt23 --lp en-de --score pear=en-de"""


def parser() -> Parser:
    p = task_parser(
        "anchors",
        "A pairwise metric with a fixed other side: the human reference, then each system's output (which is then "
        "taken out). Its rank among all metrics, by the average of SPA and acc_eq*, shows whether the anchor matters.",
        QUICK_START,
    )
    add_score_set_options(p)
    g = p.add_argument_group("anchors")
    g.add_argument(
        "--anchors", nargs="+", action="extend", metavar="NAME", help="only these (default: reference, all systems)"
    )
    add_output_options(p)
    return p


def run(options: argparse.Namespace, console: Console) -> int:
    from mbr.cli.metaeval.output import Grid, number, write
    from mbr.metaeval.anchors import anchor_stability

    (scores,) = read_sets(options, console, anchored=True)
    results = anchor_stability(scores, options.anchors)
    signature = scores.signature("anchors", spa="official,sorted")
    columns = ("anchor", "rank", "metrics", "systems", "average", "spa", "acc_eq")
    grid = Grid(
        corner="metric",
        heads=["anchor", "rank", "of", "systems", "average", "SPA", "acc_eq*"],
        keys=columns,
        names=[result.metric for result in results],
        cells=[[getattr(result, name) for name in columns] for result in results],
        shown=[
            [
                result.anchor,
                str(result.rank),
                str(result.metrics),
                str(result.systems),
                *map(number, (result.average, result.spa, result.acc_eq)),
            ]
            for result in results
        ],
        title=f"{scores.name} {scores.lp}: pairwise metrics with one anchor, agreement with {scores.human.name}",
        legend=["compare ranks, not values: each anchor leaves other systems", signature],
    )
    rows = [result.record() for result in results]
    write([grid], {**scores.description(), "signature": signature, "rows": rows}, options, signature)
    return 0
