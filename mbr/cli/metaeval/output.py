"""Results of the tasks as a table for people, TSV, LaTeX or JSON; to standard output or a file."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from candidates.command.console import Console
from mbr.cli.common.layout import short_name, side_by_side, tsv
from mbr.cli.common.output import table_width, write_output

RULE = "\0"  # a name that stands for a line between rows


@dataclass(frozen=True)
class Grid:
    """Rows by name and columns by head: raw values for TSV, texts for tables that people read."""

    corner: str  # what the rows are
    heads: Sequence[str]  # for people
    keys: Sequence[str]  # for programs
    names: Sequence[str]  # for people
    cells: Sequence[Sequence[Any]]  # raw
    shown: Sequence[Sequence[str]]  # for people
    title: str = ""
    legend: Sequence[str] = ()
    labels: Sequence[str] | None = None  # for programs, where they differ from `names`


def render(grids: Sequence[Grid], format: str, width: int, record: Any) -> str:
    if format == "json":
        return json.dumps(record, ensure_ascii=False, allow_nan=False, indent=1) + "\n"
    if format == "tsv":
        return _tsv(grids)
    if format == "latex":
        return "\n".join(map(_latex, grids))
    return "\n".join(_table(grid, width) for grid in grids)


def write(grids: Sequence[Grid], record: Any, options: argparse.Namespace, signature: str) -> None:
    """Write a result in the format of the options: grids for people, TSV and LaTeX, the record for JSON."""
    write_output(render(grids, options.format, table_width(options), record), options, signature)


def write_plot(svg: str, options: argparse.Namespace, console: Console) -> None:
    from candidates.common.text import atomic_output

    with atomic_output(options.plot, force=options.force) as stream:
        stream.write(svg.encode())
    console.info(f"drew {options.plot}")


def number(value: float | None, digits: int = 3) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def _table(grid: Grid, width: int) -> str:
    rows = [place for place, name in enumerate(grid.names) if name != RULE]
    names = [grid.corner, *(short_name(grid.names[place]) for place in rows)]
    columns = [[head, *(grid.shown[place][number] for place in rows)] for number, head in enumerate(grid.heads)]
    blocks = []
    for block in side_by_side(names, columns, width).split("\n\n"):
        lines = block.rstrip("\n").split("\n")
        for place in (place for place, name in enumerate(grid.names) if name == RULE):
            lines.insert(2 + place, lines[1])
        blocks.append("\n".join(lines) + "\n")
    title = f"{grid.title}\n\n" if grid.title else ""
    legend = "\n" + "".join(line + "\n" for line in grid.legend) if grid.legend else ""
    return title + "\n".join(blocks) + legend


def _tsv(grids: Sequence[Grid]) -> str:
    """One table where all grids have the same columns, else one below the other with an empty line between them."""
    tables: list[list[Sequence[Any]]] = []
    for grid in grids:
        header = (grid.corner.replace(" ", "_"), *grid.keys)
        labels = grid.names if grid.labels is None else grid.labels
        rows = [(label, *cells) for label, cells in zip(labels, grid.cells, strict=True) if label != RULE]
        if tables and tuple(tables[-1][0]) == header:
            tables[-1] += rows
        else:
            tables.append([header, *rows])
    return "\n".join(map(tsv, tables))


def _latex(grid: Grid) -> str:
    """A tabular for the package booktabs."""
    rows = [
        "\\begin{tabular}{l" + "r" * len(grid.heads) + "}",
        "\\toprule",
        " & ".join(map(_escaped, (grid.corner, *grid.heads))) + " \\\\",
        "\\midrule",
    ]
    for name, cells in zip(grid.names, grid.shown, strict=True):
        rows.append("\\midrule" if name == RULE else " & ".join(map(_escaped, (name, *cells))) + " \\\\")
    return "\n".join([f"% {grid.title}", *rows, "\\bottomrule", "\\end{tabular}"]) + "\n"


def _escaped(text: str) -> str:
    marks = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
    marks |= {mark: "\\" + mark for mark in "&%$#_{}"}
    escaped = "".join(marks.get(letter, letter) for letter in text)
    return "{}" + escaped if escaped.startswith(("[", "*")) else escaped  # no option of the line break before it
