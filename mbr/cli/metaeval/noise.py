"""Task noise: how robust are statistics?"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from candidates.command.console import Console, Parser
from mbr.cli.metaeval.options import (
    add_clip_option,
    add_data_options,
    add_output_options,
    add_system_options,
    read_sets,
    task_parser,
)

if TYPE_CHECKING:
    from mbr.cli.metaeval.output import Grid
    from mbr.metaeval.noise import NoiseStudy

QUICK_START = """\
  mbr-metaeval noise --data mt-metrics-eval-v2 --test-set wmt23 --lp en-de --plot noise.svg
  mbr-metaeval noise --table scores.tsv --human mqm --statistics pdp,acc_eq,spa --repeats 20 --format json"""


def parser() -> Parser:
    p = task_parser(
        "noise",
        "How far does each statistic fall from perfect agreement towards that of random scores when human scores are "
        "compared with themselves after noise was added? (score degradation proportion)",
        QUICK_START,
    )
    add_data_options(p)
    add_system_options(p)
    g = p.add_argument_group("study")
    g.add_argument(
        "--statistics", default="segment_pearson,global_pearson,acc_eq,pdp", metavar="NAMES", help="with commas"
    )
    g.add_argument("--repeats", type=int, default=10, metavar="N", help="of every level, averaged")
    g.add_argument("--seed", type=int, default=1, help="of the noise")
    add_clip_option(g)
    p.set_defaults(level="segment")
    add_output_options(p, plot="draw the curves")
    return p


def run(options: argparse.Namespace, console: Console) -> int:
    from mbr.cli.metaeval.output import write, write_plot
    from mbr.metaeval.agreement import parse_statistics
    from mbr.metaeval.clipping import Clip
    from mbr.metaeval.noise import noise_study

    statistics = parse_statistics(options.statistics.split(","))
    (scores,) = read_sets(options, console, metrics=False)
    clip = Clip.parse(options.clip) if options.clip else None
    study = noise_study(scores.gold, statistics, repeats=options.repeats, seed=options.seed, clip=clip)
    where = " ".join(filter(None, (scores.name, scores.lp)))
    signature = scores.signature("noise", repeats=study.repeats, seed=study.seed)
    grids = [_for_programs(study)] if options.format == "tsv" else _for_people(study, signature)
    if options.plot is not None:
        write_plot(study.plot(f"{where}, {scores.human.name}"), options, console)
    write(grids, {**scores.description(), "signature": signature, **study.record()}, options, signature)
    return 0


def _for_people(study: NoiseStudy, signature: str) -> list[Grid]:
    """A grid for each kind of noise, levels side by side."""
    from mbr.cli.metaeval.output import Grid, number
    from mbr.metaeval.noise import KINDS
    from mbr.metaeval.statistics import LABELS

    grids = []
    for kind, lines in study.sdp.items():
        levels = [f"{level:g}" for level in study.levels[kind]]
        grids.append(
            Grid(
                corner="statistic",
                heads=levels,
                keys=levels,
                names=[LABELS[name] for name in lines],
                cells=[list(line) for line in lines.values()],
                shown=[[number(value) for value in line] for line in lines.values()],
                title=f"{kind}: {KINDS[kind]}; levels in standard deviations ({study.deviation:.3g})",
                legend=[] if kind != list(study.sdp)[-1] else ["0: undisturbed, 1: as bad as random scores", signature],
            )
        )
    return grids


def _for_programs(study: NoiseStudy) -> Grid:
    """A row for each statistic, kind of noise and level."""
    from mbr.cli.metaeval.output import Grid

    rows = [
        (name, kind, level, value)
        for kind, lines in study.sdp.items()
        for name, line in lines.items()
        for level, value in zip(study.levels[kind], line, strict=True)
    ]
    return Grid(
        corner="statistic",
        heads=[],
        keys=["noise", "level", "sdp"],
        names=[row[0] for row in rows],
        cells=[row[1:] for row in rows],
        shown=[],
    )
