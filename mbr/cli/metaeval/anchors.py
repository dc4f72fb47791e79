"""Task anchors: does a pairwise metric need a human reference?"""

from __future__ import annotations

import argparse
from dataclasses import asdict

from candidates.command.console import Console, Parser
from mbr.cli.metaeval.options import (
    add_data_options,
    add_metric_options,
    add_output_options,
    add_system_options,
    check_files,
    check_positive,
    read_sets,
    task_parser,
)

QUICK_START = """\
  mbr-metaeval anchors --data mt-metrics-eval-v2 --test-set wmt23 --lp en-de --own pear=pear.tsv
  mbr-metaeval anchors --data mt-metrics-eval-v2 --test-set wmt23 --lp en-de --score pear=FOLDER"""


def parser() -> Parser:
    p = task_parser(
        "anchors",
        "A pairwise metric with a fixed other side: the human reference, then each system's output (which is then "
        "taken out). Its rank among all metrics, by the average of SPA and acc_eq*, tells whether the anchor matters.",
        QUICK_START,
    )
    add_data_options(p)
    g = p.add_argument_group("anchors")
    g.add_argument(
        "--anchors", nargs="+", action="extend", metavar="NAME", help="only these (default: reference, all systems)"
    )
    add_metric_options(p)
    add_system_options(p)
    add_output_options(p)
    return p


def run(options: argparse.Namespace, console: Console) -> int:
    check_files(options)
    check_positive(options, "threads", "batch_tokens")

    from mbr.cli.metaeval.output import Grid, described, number, write
    from mbr.metaeval.anchors import anchor_stability

    (known,) = read_sets(options, console, anchored=True)
    found = anchor_stability(known, options.anchors)
    said, head = described("anchors", known, spa="official,sorted")
    columns = ("anchor", "rank", "metrics", "systems", "average", "spa", "acc_eq")
    grid = Grid(
        corner="metric",
        heads=["anchor", "rank", "of", "systems", "average", "SPA", "acc_eq*"],
        keys=columns,
        names=[one.metric for one in found],
        cells=[[getattr(one, name) for name in columns] for one in found],
        shown=[
            [
                one.anchor,
                str(one.rank),
                str(one.metrics),
                str(one.systems),
                *map(number, (one.average, one.spa, one.acc_eq)),
            ]
            for one in found
        ],
        title=f"{known.name} {known.lp}: pairwise metrics with one anchor, agreement with {known.human.name}",
        legend=["compare ranks, not values: each anchor leaves other systems", said],
    )
    write([grid], {**head, "rows": [asdict(one) for one in found]}, options, said)
    return 0
