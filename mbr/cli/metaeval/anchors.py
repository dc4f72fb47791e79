"""Task anchors: does a pairwise metric need a human reference?"""

from __future__ import annotations

import argparse

from candidates.command.console import Console, Parser
from mbr.cli.metaeval.options import add_output_options, add_score_set_options, read_sets, task_parser

QUICK_START = """\
  mbr-metaeval anchors --data mt-metrics-eval-v2 --test-set wmt23 --lp en-de --own pear=pear.tsv
  mbr-metaeval anchors --data mt-metrics-eval-v2 --test-set wmt23 --lp en-de --score pear=en-de
  mbr-metaeval anchors --data mt-metrics-eval-v2 --test-set wmt24 --lp official --own pear=pear.{lp}.tsv --plot a.svg"""


def parser() -> Parser:
    p = task_parser(
        "anchors",
        "A pairwise metric with a fixed other side: the human reference, then each system's output (which is then "
        "taken out). Its rank among all metrics, by the average of SPA and acc_eq* (of the mean over several language "
        "pairs), shows whether the anchor matters.",
        QUICK_START,
    )
    add_score_set_options(p, several=True)
    g = p.add_argument_group("anchors")
    g.add_argument(
        "--anchors", nargs="+", action="extend", metavar="NAME", help="only these (default: reference, all systems)"
    )
    add_output_options(p, plot="draw the ranks")
    return p


def run(options: argparse.Namespace, console: Console) -> int:
    from mbr.cli.metaeval.output import Grid, number, write, write_plot
    from mbr.metaeval.anchors import anchor_plot, anchor_stability
    from mbr.metaeval.signature import signature as signed
    from mbr.metaeval.values import model_names

    sets = read_sets(options, console, anchored=True)
    results = anchor_stability(sets, options.anchors)
    first = sets[0]
    humans = "+".join(dict.fromkeys(scores.human.name for scores in sets))
    signature = signed(
        "anchors",
        set=first.name,
        lp="+".join(filter(None, (scores.lp for scores in sets))),
        human=humans,
        systems="+".join(str(len(scores.systems)) for scores in sets),
        segments="+".join(str(scores.annotated) for scores in sets),
        **first.settings,
        models=model_names(metric for scores in sets for metric in scores.metrics),
        spa="official,sorted",
    )
    where = " ".join(filter(None, (first.name, ", ".join(scores.lp for scores in sets))))
    title = f"{where}: pairwise metrics with one anchor, agreement with {humans}"
    if options.plot is not None:
        write_plot(anchor_plot(results, title), options, console)
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
        title=title,
        legend=["compare ranks, not values: each anchor leaves other systems", signature],
    )
    rows = [result.record() for result in results]
    described = [scores.description() for scores in sets]
    record = described[0] if len(sets) == 1 else {"test_set": first.name, "language_pairs": described}
    write([grid], {**record, "signature": signature, "rows": rows}, options, signature)
    return 0
