"""Task correlation: which metrics agree with each other."""

from __future__ import annotations

import argparse

from candidates.command.console import Console, Parser
from mbr.cli.metaeval.options import add_output_options, add_score_set_options, read_sets, task_parser

QUICK_START = """\
  mbr-metaeval correlation --data mt-metrics-eval-v2 --test-set wmt23 --lp en-de --plot correlation.svg
  mbr-metaeval correlation --table scores.tsv --human mqm --own mine=mine.jsonl --format tsv"""


def parser() -> Parser:
    p = task_parser(
        "correlation",
        "Pearson correlations of metrics' differences between translations of one segment, people included; similar "
        "metrics stand beside each other.",
        QUICK_START,
    )
    add_score_set_options(p)
    add_output_options(p, plot="draw a heat map")
    return p


def run(options: argparse.Namespace, console: Console) -> int:
    from mbr.cli.metaeval.output import Grid, write, write_plot
    from mbr.metaeval.correlation import correlate
    from mbr.metaeval.values import model_names, reference_names

    (scores,) = read_sets(options, console)
    matrix = correlate(scores).clustered()
    where = " ".join(filter(None, (scores.name, scores.lp)))
    title = f"{where}: correlations, {len(scores.systems)} systems, {scores.annotated} segments"
    signature = scores.signature(
        "correlation",
        ref=reference_names(metric.reference for metric in scores.metrics),
        models=model_names(scores.metrics),
    )
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
        legend=[signature],
    )
    record = {**scores.description(), "signature": signature, **matrix.record()}
    if options.plot is not None:
        write_plot(matrix.plot(where), options, console)
    write([grid], record, options, signature)
    return 0
