"""The default task: a table of metrics and their agreement with people."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from candidates.command.console import Console, Parser
from mbr.cli.metaeval.command import TASKS
from mbr.cli.metaeval.options import add_output_options, add_score_set_options, read_sets, task_parser

if TYPE_CHECKING:
    from mbr.cli.metaeval.output import Grid
    from mbr.metaeval.agreement import Row, Table

QUICK_START = """\
  mbr-metaeval --data mt-metrics-eval-v2 --test-set wmt23 --lp en-de --human mqm
  mbr-metaeval --data mt-metrics-eval-v2 --test-set wmt23 --lp en-de --own mine=mine.tsv --score chrf --significance
  mbr-metaeval --table scores.tsv --human mqm --statistics acc_eq,pdp --format latex

tasks (mbr-metaeval TASK --help):
"""
DEFAULT_STATISTICS = "spa,acc_eq,pdp,segment_pearson,global_pearson,kendall,pairwise_accuracy"
HEADS = {
    "average": "average",
    "spa": "SPA",
    "acc_eq": "acc_eq*",
    "pdp": "PDP",
    "segment_pearson": "segment r",
    "global_pearson": "global r",
    "kendall": "Kendall",
    "pairwise_accuracy": "sys. acc.",
    "system_pearson": "system r",
}
WITHOUT_REFERENCE = "*"
MARKS = {"human": " (human)", "own": " (own)"}


def parser() -> Parser:
    tasks = "\n".join(f"  {name:<12} {what}" for name, what in TASKS.items())
    p = task_parser(
        "agreement",
        "How well do metrics agree with people? SPA, acc_eq*, PDP, Pearson and Kendall correlations with the official "
        "toolkit's digits, in seconds; ranks by significance; sanity rows in every table.",
        QUICK_START + tasks,
    )
    add_score_set_options(p, several=True)
    g = add_statistics_options(p, DEFAULT_STATISTICS)
    g.add_argument("--significance", action="store_true", help="test all pairs of metrics; ranks become clusters")
    add_output_options(p)
    return p


def add_statistics_options(p: Parser, default: str) -> argparse._ArgumentGroup:
    g = p.add_argument_group("statistics")
    g.add_argument(
        "--statistics",
        default=default,
        metavar="NAMES",
        help="separated by commas; of spa, acc_eq, pdp, segment_pearson, global_pearson, kendall, pairwise_accuracy, "
        "system_pearson",
    )
    g.add_argument("--rank-by", metavar="NAME", help="(default: the average of SPA and acc_eq*, else the first)")
    g.add_argument(
        "--spa",
        choices=("official", "symmetric"),
        default="official",
        help="official: depends a little on the order of systems, which is that of their names; symmetric: does not",
    )
    g.add_argument("--draws", type=int, default=1000, metavar="N", help="of significance tests")
    g.add_argument("--seed", type=int, default=1, help="of significance tests and the random row")
    g.add_argument("--no-sanity", action="store_true", help="without constant, random, length and source-only")
    return g


def run(options: argparse.Namespace, console: Console) -> int:
    from mbr.metaeval.agreement import meta_evaluate, parse_statistics

    parse_statistics(options.statistics.split(","))  # refuses a wrong name before files are read
    sets = read_sets(options, console)
    return write_table("agreement", options, console, partial(meta_evaluate, sets), significance=options.significance)


def write_table(
    task: str, options: argparse.Namespace, console: Console, make: Callable[..., Table], *, significance: bool
) -> int:
    """Make a table with the options of statistics, and write it."""
    from mbr.cli.metaeval.output import write

    began = time.monotonic()
    table = make(
        statistics=options.statistics.split(","),
        rank_by=options.rank_by,
        significance=significance,
        draws=options.draws,
        seed=options.seed,
        symmetric=options.spa == "symmetric",
        sanity=not options.no_sanity,
        progress=_bars(console),
    )
    for note in table.notes:
        console.info(note)
    for warning in table.warnings:
        console.warn(warning)
    signature = table.signature(task)
    parts = [grid(part, part.signature(task)) for part in table.parts]
    parts = [replace(part, legend=part.legend[-1:]) for part in parts]
    write([grid(table, signature), *parts], table.record(signature), options, signature)
    rows = len([row for row in table.rows if row.kind != "sanity"])
    console.info(
        f"{rows} evaluator{'' if rows == 1 else 's'}, {len(table.statistics)} statistics "
        f"in {time.monotonic() - began:.1f} s"
    )
    return 0


def _bars(console: Console) -> Callable[[str], Callable[[Iterable[int]], Iterable[int]]]:
    def bar(label: str) -> Callable[[Iterable[int]], Iterable[int]]:
        def shown(steps: Iterable[int]) -> Iterable[int]:
            from tqdm import tqdm

            return tqdm(steps, desc=f"testing {label}", unit="draw", leave=False)

        return shown if console.shows_progress else lambda steps: steps

    return bar


def grid(table: Table, signature: str) -> Grid:
    from mbr.cli.metaeval.output import RULE, Grid

    columns = [*(["average"] if {"spa", "acc_eq"} <= set(table.statistics) else []), *table.statistics]
    keys = [key for name in columns for key in ([name, "epsilon"] if name == "acc_eq" else [name])]
    clusters = [f"{name}_rank" for name in columns if name in table.comparisons]
    names: list[str] = []
    labels: list[str] = []
    cells: list[list[float | str | None]] = []
    shown: list[list[str]] = []
    for row in table.rows:
        if row.kind == "sanity" and RULE not in names:
            names.append(RULE)
            labels.append(RULE)
            cells.append([])
            shown.append([""] * (1 + len(columns)))
        without_reference = row.kind == "metric" and row.reference is None and _references_known(table)
        names.append(row.metric + (WITHOUT_REFERENCE if without_reference else MARKS.get(row.kind, "")))
        labels.append(row.metric)
        ranks = [row.ranks.get(name) for name in columns if name in table.comparisons]
        values = [row.values.get(key) for key in keys]
        cells.append(["mean" if table.parts else table.lps[0], row.kind, row.reference, row.rank, *values, *ranks])
        shown.append([str(row.rank or "-"), *(_shown(row, name) for name in columns)])
    return Grid(
        corner="metric",
        heads=["rank", *(HEADS[name] for name in columns)],
        keys=["lp", "kind", "reference", "rank", *keys, *clusters],
        names=names,
        labels=labels,
        cells=cells,
        shown=shown,
        title=_title(table),
        legend=[*_legend(table), signature],
    )


def _shown(row: Row, name: str) -> str:
    from mbr.cli.metaeval.output import number

    text = number(row.values.get(name))
    if name in row.ranks:
        text += f" ({row.ranks[name]})".rjust(5)
    return f"{text} ?" if name in ("spa", "average") and row.constant else text


def _references_known(table: Table) -> bool:
    """Whether the files say what metrics compare with; mt-metrics-eval's do, a table does not."""
    return any(row.reference is not None for row in table.rows)


def _title(table: Table) -> str:
    if len(table.lps) == 1:
        where = " ".join(filter(None, (table.test_set, table.lps[0])))
        return (
            f"{where}: agreement with {table.human}, {len(table.systems[0])} systems, "
            f"{table.segments[0]} annotated segments"
        )
    return f"{table.test_set}: agreement with {table.human}, mean of {', '.join(table.lps)}"


def _legend(table: Table) -> list[str]:
    lines = []
    by = HEADS[table.ranked_by] + (" of SPA and acc_eq*" if table.ranked_by == "average" else "")
    tested = "ranks, and numbers in brackets: clusters, p <= .05; " if table.comparisons else ""
    pearson = "; r: Pearson correlation" if any("pearson" in name for name in table.statistics) else ""
    lines.append(f"{tested}ranked by {by}{pearson}")
    if any(row.reference is None and row.kind == "metric" for row in table.rows) and _references_known(table):
        lines.append(f"{WITHOUT_REFERENCE} compares with no reference")
    if any(row.constant for row in table.rows) and "spa" in table.statistics:
        lines.append("? gives all systems the same scores: its SPA is meaningless")
    if any(row.kind == "sanity" for row in table.rows):
        lines.append("below the line: scores without knowledge of translation; every metric should be far above")
    return lines
