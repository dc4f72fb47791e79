"""Task correlation: which metrics say the same."""

from __future__ import annotations

import argparse

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
  mbr-metaeval correlation --data mt-metrics-eval-v2 --test-set wmt23 --lp en-de --plot correlation.svg
  mbr-metaeval correlation --table scores.tsv --human mqm --own mine=scores.jsonl --format tsv"""


def parser() -> Parser:
    p = task_parser(
        "correlation",
        "Pearson correlations of metrics' differences between translations of one segment, people included; metrics "
        "that say the same stand beside each other.",
        QUICK_START,
    )
    add_data_options(p)
    add_metric_options(p)
    add_system_options(p)
    add_output_options(p, plot="draw a heat map")
    return p


def run(options: argparse.Namespace, console: Console) -> int:
    check_files(options)
    check_positive(options, "threads", "batch_tokens")

    from mbr.cli.metaeval.output import Grid, described, write, write_plot
    from mbr.metaeval.correlation import correlate

    (known,) = read_sets(options, console)
    matrix = correlate(known).clustered()
    where = " ".join(filter(None, (known.name, known.lp)))
    title = f"{where}: correlations, {len(known.systems)} systems, {known.annotated} segments"
    said, head = described("correlation", known)
    values = matrix.values.tolist()
    grid = Grid(
        corner="evaluator",
        heads=[str(number) for number in range(1, len(matrix.names) + 1)],
        keys=list(matrix.names),
        names=[f"{number} {name}" for number, name in enumerate(matrix.names, 1)],
        labels=matrix.names,
        cells=values,
        shown=[[f"{value:.2f}".replace("0.", ".") for value in row] for row in values],
        title=title,
        legend=[said],
    )
    found = {**head, "metrics": list(matrix.names), "correlations": values}
    if options.plot is not None:
        write_plot(matrix.plot(where), options, console)
    write([grid], found, options, said)
    return 0
