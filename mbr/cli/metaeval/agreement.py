"""The default task: a table of metrics and their agreement with people."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from candidates.command.console import Console, Parser
from mbr.cli.metaeval.command import TASKS
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

if TYPE_CHECKING:
    from mbr.cli.metaeval.output import Grid
    from mbr.metaeval.agreement import Row, Table

QUICK_START = """\
  mbr-metaeval --data mt-metrics-eval-v2 --test-set wmt23 --lp en-de --human mqm
  mbr-metaeval --data mt-metrics-eval-v2 --test-set wmt23 --lp en-de --own mine=scores.tsv --score chrf --significance
  mbr-metaeval --table scores.tsv --human mqm --statistics acc-eq,pdp --format latex

tasks (mbr-metaeval TASK --help):
"""
DEFAULT_STATISTICS = "spa,acc_eq,pdp,segment-pearson,global-pearson,kendall,pairwise-accuracy"
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
FREE = "*"
MARKS = {"human": " (human)", "own": " (own)"}


def parser() -> Parser:
    tasks = "\n".join(f"  {name:<12} {what}" for name, what in TASKS.items())
    p = task_parser(
        "agreement",
        "How well do metrics agree with people? SPA, acc_eq*, PDP, Pearson and Kendall correlations with the official "
        "toolkit's digits, in seconds; ranks by significance; rows for sanity beside every table.",
        QUICK_START + tasks,
    )
    add_data_options(p, several=True)
    add_metric_options(p)
    add_system_options(p)
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
        help="with commas; of spa, acc_eq, pdp, segment-pearson, global-pearson, kendall, pairwise-accuracy, "
        "system-pearson",
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
    check_files(options)
    check_positive(options, "draws", "threads", "batch_tokens")

    from mbr.metaeval.agreement import meta_evaluate, parse_statistics

    parse_statistics(options.statistics.split(","))  # a wrong name is told before files are read
    sets = read_sets(options, console)
    return write_table("agreement", options, console, partial(meta_evaluate, sets), significance=options.significance)


def write_table(
    task: str, options: argparse.Namespace, console: Console, make: Callable[..., Table], *, significance: bool
) -> int:
    """Make a table as the options of statistics say, and write it."""
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
    said = signature_of(task, table, options)
    grids = [grid(one, signature_of(task, one, options)) for one in (table, *table.parts)]
    grids = [grids[0], *(replace(one, legend=one.legend[-1:]) for one in grids[1:])]
    write(grids, as_json(table, said), options, said)
    rows = len([row for row in table.rows if row.kind != "sanity"])
    console.info(
        f"{rows} evaluator{'' if rows == 1 else 's'}, {len(table.statistics)} statistics "
        f"in {time.monotonic() - began:.1f} s"
    )
    return 0


def _bars(console: Console) -> Callable[[str], Callable[[Iterable[int]], Iterable[int]]]:
    def bar(what: str) -> Callable[[Iterable[int]], Iterable[int]]:
        def shown(steps: Iterable[int]) -> Iterable[int]:
            from tqdm import tqdm

            return tqdm(steps, desc=f"testing {what}", unit="draw", leave=False)

        return shown if console.shows_progress else lambda steps: steps

    return bar


def signature_of(task: str, table: Table, options: argparse.Namespace) -> str:
    from mbr.cli.metaeval.output import signature

    random = table.comparisons or any(row.kind == "sanity" for row in table.rows)
    return signature(
        task,
        set=table.test_set,
        lp="+".join(filter(None, table.lps)),
        human=table.human,
        ref="+".join(dict.fromkeys(row.reference for row in table.rows if row.reference is not None)),
        systems="+".join(str(len(systems)) for systems in table.systems),
        segments="+".join(map(str, table.segments)),
        spa=("symmetric" if table.symmetric else "official,sorted") if "spa" in table.statistics else None,
        draws=options.draws if table.comparisons else None,
        seed=options.seed if random else None,
    )


def grid(table: Table, said: str) -> Grid:
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
        free = row.kind == "metric" and row.reference is None and _told(table)
        names.append(row.metric + (FREE if free else MARKS.get(row.kind, "")))
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
        legend=[*_legend(table), said],
    )


def _shown(row: Row, name: str) -> str:
    from mbr.cli.metaeval.output import number

    text = number(row.values.get(name))
    if name in row.ranks:
        text += f" ({row.ranks[name]})".rjust(5)
    return f"{text} ?" if name in ("spa", "average") and row.constant else text


def _told(table: Table) -> bool:
    """Whether anything is known of what metrics compare with."""
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
    said = []
    by = HEADS[table.ranked_by] + (" of SPA and acc_eq*" if table.ranked_by == "average" else "")
    tested = "ranks, and numbers in brackets: clusters, p <= .05; " if table.comparisons else ""
    pearson = "; r: Pearson correlation" if any("pearson" in name for name in table.statistics) else ""
    said.append(f"{tested}ranked by {by}{pearson}")
    if any(row.reference is None and row.kind == "metric" for row in table.rows) and _told(table):
        said.append(f"{FREE} compares with no reference")
    if any(row.constant for row in table.rows) and "spa" in table.statistics:
        said.append("? says the same of all systems: its SPA means nothing")
    if any(row.kind == "sanity" for row in table.rows):
        said.append("below the line: what knows nothing of translation; no metric should be near it")
    return said


def as_json(table: Table, said: str) -> dict[str, Any]:
    several = len(table.lps) > 1
    found: dict[str, Any] = {
        "test_set": table.test_set,
        "lp": list(table.lps) if several else table.lps[0],
        "human": table.human,
        "systems": [list(systems) for systems in table.systems] if several else list(table.systems[0]),
        "segments": list(table.segments) if several else table.segments[0],
        "statistics": list(table.statistics),
        "spa_variant": "symmetric" if table.symmetric else "official, systems sorted by name",
        "ranked_by": table.ranked_by,
        "signature": said,
        "rows": [_row_json(row) for row in table.rows],
    }
    if table.comparisons:
        found["significance"] = {
            name: {"metrics": list(one.names), "p": one.p.tolist(), "draws": len(one.draws)}
            for name, one in table.comparisons.items()
        }
    if table.notes or table.warnings:
        found["notes"] = [*table.notes, *table.warnings]
    if several:
        found["language_pairs"] = [as_json(part, said) for part in table.parts]
    return found


def _row_json(row: Row) -> dict[str, Any]:
    return {
        "metric": row.metric,
        "kind": row.kind,
        "reference": row.reference,
        **row.values,
        **({"spa_meaningless": True} if row.constant and "spa" in row.values else {}),
        "rank": row.rank,
        **({"ranks": dict(row.ranks)} if row.ranks else {}),
    }
