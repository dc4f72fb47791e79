"""The default task: a table of metrics and their agreement with people."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from candidates.command.console import Console, Parser
from mbr.cli.metaeval.command import TASKS
from mbr.cli.metaeval.download import add_download_options, download
from mbr.cli.metaeval.options import (
    add_output_options,
    add_score_set_options,
    read_sets,
    task_parser,
    warn_of_few_draws,
)

if TYPE_CHECKING:
    from mbr.cli.metaeval.output import Grid
    from mbr.metaeval.agreement import Row, Table
    from mbr.metaeval.choice import ChoiceRow

QUICK_START = """\
  mbr-metaeval --data mt-metrics-eval-v2 --test-set wmt23 --lp en-de --human mqm
  mbr-metaeval --data mt-metrics-eval-v2 --test-set wmt23 --lp en-de --own mine=mine.tsv --score chrf --significance
  mbr-metaeval --table scores.tsv --human mqm --statistics acc_eq,pdp --format latex

tasks (mbr-metaeval TASK --help):
"""
DEFAULT_STATISTICS = "spa,acc_eq,pdp,segment_pearson,global_pearson,kendall,pairwise_accuracy,choice,choice_regret,rrp"
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
    "choice": "choice",
    "choice_regret": "regret",
    "rrp": "RRP",
}
WITHOUT_REFERENCE = "*"
MARKS = {"human": " (human)", "own": " (own)"}


def parser() -> Parser:
    tasks = "\n".join(f"  {name:<13} {what}" for name, what in TASKS.items())
    p = task_parser(
        "agreement",
        "How well do metrics agree with people? SPA, acc_eq*, PDP, Pearson and Kendall correlations with the official "
        "toolkit's digits, in seconds; ranks by significance; sanity rows in every table.",
        QUICK_START + tasks,
    )
    add_score_set_options(p, several=True, golds=True, breakdown=True)
    add_download_options(p)
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
        "system_pearson, choice, choice_regret, rrp",
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
    from mbr.metaeval.documents import domain_names, in_domains

    if options.download is not None:
        return download(options, console)
    parse_statistics(options.statistics.split(","))  # refuses a wrong name before files are read
    if options.significance:
        warn_of_few_draws(options, console, "ranks")
    began = time.monotonic()
    results = []
    for gold in list(dict.fromkeys(options.human or [None])):
        sets = read_sets(options, console, human=gold)
        table = make_table(options, console, partial(meta_evaluate, sets), significance=options.significance)
        parts: dict[str, Table] = {}
        if options.domain is not None and len(options.domain) != 1:
            names = options.domain or domain_names(sets)
            shares = {name: [part for part in sets if name in domain_names([part])] for name in names}
            parts = {
                name: make_table(
                    options,
                    console,
                    partial(meta_evaluate, [in_domains(part, [name]) for part in having]),
                    significance=False,
                    quiet=True,
                )
                for name, having in shares.items()
            }
            if not parts:
                in_domains(sets[0], [])  # raises: no domains are known
        results.append((table, parts))
    return write_tables("agreement", options, console, results, began)


def make_table(
    options: argparse.Namespace,
    console: Console,
    make: Callable[..., Table],
    *,
    significance: bool,
    quiet: bool = False,
) -> Table:
    """A table with the options of statistics; its notes go to the console unless `quiet`."""
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
    for note in () if quiet else table.notes:
        console.info(note)
    for warning in () if quiet else table.warnings:
        console.warn(warning)
    return table


def write_tables(
    task: str,
    options: argparse.Namespace,
    console: Console,
    results: Sequence[tuple[Table, Mapping[str, Table]]],
    began: float,
) -> int:
    """Write a table for each gold, with those of its domains; where there are several golds, their ranks at the end."""
    from mbr.cli.metaeval.output import write

    grids: list[Grid] = []
    records = []
    several = len(results) > 1
    for table, domains in results:
        signature = table.signature(task)
        added = {"human": table.human} if several else {}
        main = grid(table, signature, {**added, **({"domain": ""} if domains else {})})
        parts = [grid(part, part.signature(task), added) for part in table.parts]
        grids += [main, *(replace(part, legend=part.legend[-1:]) for part in parts)]
        if domains and options.format == "tsv":
            grids += [grid(part, signature, {**added, "domain": name}) for name, part in domains.items()]
        elif domains:
            grids.append(_beside("domain", table, domains))
        record = table.record(signature)
        if domains:
            record["domains"] = [part.record(part.signature(task)) for part in domains.values()]
        records.append(record)
    tables = [table for table, _ in results]
    if several and options.format != "tsv":
        grids.append(_beside("gold", tables[0], {table.human: table for table in tables}))
    signature = tables[0].signature(task) if not several else " ".join(table.signature(task) for table in tables)
    write(grids, {"golds": records} if several else records[0], options, signature)
    rows = len([row for row in tables[0].rows if row.kind != "sanity"])
    console.info(
        f"{rows} evaluator{'' if rows == 1 else 's'}, {len(tables[0].statistics)} statistics "
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


def _beside(what: str, first: Table, tables: Mapping[str, Table]) -> Grid:
    """The statistic that ranks, with ranks in brackets: a column for each domain or gold."""
    from mbr.cli.metaeval.output import Grid, number

    names = list(dict.fromkeys(row.metric for table in (first, *tables.values()) for row in table.rows))
    by_name = {key: {row.metric: row for row in table.rows} for key, table in tables.items()}
    values = [
        [row.values.get(table.ranked_by) if (row := by_name[key].get(name)) else None for key, table in tables.items()]
        for name in names
    ]
    ranks = [[row.rank if (row := by_name[key].get(name)) else None for key in tables] for name in names]
    sizes = ", ".join(f"{key} {'+'.join(map(str, table.segments))}" for key, table in tables.items())
    return Grid(
        corner="metric",
        heads=list(tables),
        keys=list(tables),
        names=names,
        cells=values,
        shown=[
            [number(value) + ("" if rank is None else f" ({rank})".rjust(5)) for value, rank in zip(*row, strict=True)]
            for row in zip(values, ranks, strict=True)
        ],
        title=f"{HEADS[first.ranked_by]} by {what}; annotated {_unit(first)}s: {sizes}",
        legend=["in brackets: ranks"],
    )


def grid(table: Table, signature: str, added: Mapping[str, str] | None = None) -> Grid:
    """`added` are columns for programs, with the same value in each row."""
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
        names.append(marked(row))
        labels.append(row.metric)
        ranks = [row.ranks.get(name) for name in columns if name in table.comparisons]
        values = [row.values.get(key) for key in keys]
        where = "mean" if table.parts else table.lps[0]
        cells.append([*(added or {}).values(), where, row.kind, row.reference, row.rank, *values, *ranks])
        shown.append([str(row.rank or "-"), *(_shown(row, name) for name in columns)])
    return Grid(
        corner="metric",
        heads=["rank", *(HEADS[name] for name in columns)],
        keys=[*(added or {}), "lp", "kind", "reference", "rank", *keys, *clusters],
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


def marked(row: Row | ChoiceRow) -> str:
    """The name of a row, with a mark where it compares with no reference, and the kind of rows that were added."""
    return row.metric + (WITHOUT_REFERENCE if compares_with_none(row) else "") + MARKS.get(row.kind, "")


def compares_with_none(row: Row | ChoiceRow) -> bool:
    from mbr.metaeval.values import SOURCE_ONLY

    return row.reference == SOURCE_ONLY


def _title(table: Table) -> str:
    changes = [f"{key} {value}" for key, value in table.settings.items() if key != "level"]
    if len(table.lps) == 1:
        where = " ".join(filter(None, (table.test_set, table.lps[0], *changes)))
        return (
            f"{where}: agreement with {table.human}, {len(table.systems[0])} systems, "
            f"{table.segments[0]} annotated {_unit(table)}s"
        )
    mean = "WMT's official mean" if table.is_main_result else "mean"
    where = " ".join((table.test_set, *changes))
    return f"{where}: agreement with {table.human}, {mean} of {', '.join(table.lps)}"


def _unit(table: Table) -> str:
    return table.settings.get("level", "segment")


def _legend(table: Table) -> list[str]:
    lines = []
    by = HEADS[table.ranked_by] + (" of SPA and acc_eq*" if table.ranked_by == "average" else "")
    tested = "ranks, and numbers in brackets: clusters, p <= .05; " if table.comparisons else ""
    pearson = "; r: Pearson correlation" if any("pearson" in name for name in table.statistics) else ""
    lines.append(f"{tested}ranked by {by}{pearson}")
    if "choice_regret" in table.statistics:
        lines.append("regret of choices: 0 for an oracle, 1 for a random choice; lower is better")
    if any(map(compares_with_none, table.rows)):
        lines.append(f"{WITHOUT_REFERENCE} compares with no reference")
    if any(row.constant for row in table.rows) and "spa" in table.statistics:
        lines.append("? gives all systems the same scores: its SPA is meaningless")
    if any(row.kind == "sanity" for row in table.rows):
        lines.append("below the line: scores without knowledge of translation; every metric should be far above")
    lines += [f"not official: {sentence}" for sentence in table.assumed]
    return lines
