"""Task oracle: what do statistics reward?"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from candidates.command.console import Console, Parser
from candidates.common.errors import UsageError
from mbr.cli.metaeval.options import add_output_options, task_parser

if TYPE_CHECKING:
    from mbr.metaeval.oracle import Errors

QUICK_START = """\
  mbr-metaeval oracle --errors mqm_ted_ende.tsv
  mbr-metaeval oracle --data mt-metrics-eval-v2 --test-set wmt23 --lp en-de --human mqm.merged"""


def parser() -> Parser:
    p = task_parser(
        "oracle",
        "Metrics that see one kind of MQM error only and see it perfectly: how acc_eq* and PDP reward them, and how "
        "that correlates with the importance, the weight and the number of these errors.",
        QUICK_START,
    )
    g = p.add_argument_group("errors")
    g.add_argument("--errors", metavar="FILE", help="Google's MQM table, a row for each marked error")
    g.add_argument("--data", metavar="FOLDER", help="instead: mt-metrics-eval's data, or the folder of one test set")
    g.add_argument("--test-set", metavar="NAME", help="such as wmt23, below --data")
    g.add_argument("--lp", metavar="LP", help="language pair, such as en-de")
    g.add_argument("--human", metavar="NAME", help="of <lp>.NAME.seg.rating (default: mqm.merged, else mqm)")
    g.add_argument(
        "--exclude-systems",
        nargs="+",
        action="extend",
        metavar="NAME",
        help="all but these; with --data, references and outliers are left out anyway",
    )
    add_output_options(p)
    return p


def run(options: argparse.Namespace, console: Console) -> int:
    from mbr.cli.metaeval.output import Grid, number, write
    from mbr.metaeval.oracle import oracle_study

    errors, left_out = _errors(options)
    for name in options.exclude_systems or []:
        if name not in errors.systems():
            raise UsageError(f"no system {name!r}; there are {', '.join(errors.systems())}")
    study = oracle_study(errors, without=[*(options.exclude_systems or []), *left_out])
    signature = study.signature()
    columns = ("importance", "count", "weight", "acc_eq", "pdp")
    oracles = Grid(
        corner="category",
        heads=["importance", "count", "weight", "acc_eq*", "PDP"],
        keys=columns,
        names=[oracle.category for oracle in study.oracles],
        cells=[[getattr(oracle, name) for name in columns] for oracle in study.oracles],
        shown=[
            [
                f"{oracle.importance:.1f}",
                str(oracle.count),
                f"{oracle.weight:.2f}",
                number(oracle.acc_eq),
                number(oracle.pdp),
            ]
            for oracle in study.oracles
        ],
        title=f"{study.name}: oracles of error categories, {len(study.systems)} systems, {study.segments} segments",
    )
    ranks = Grid(
        corner="Spearman with",
        heads=["acc_eq*", "PDP"],
        keys=["acc_eq", "pdp"],
        names=list(study.spearman),
        cells=[list(row.values()) for row in study.spearman.values()],
        shown=[[number(value) for value in row.values()] for row in study.spearman.values()],
        legend=["importance: sum of penalties; weight: importance / count", signature],
    )
    write([oracles, ranks], study.record(), options, signature)
    return 0


def _errors(options: argparse.Namespace) -> tuple[Errors, list[str]]:
    """The errors, and systems that are references or outliers."""
    from mbr.metaeval.folders import find_test_set
    from mbr.metaeval.oracle import RATINGS, read_mqm_errors, read_ratings
    from pear.data.folders import EvalFolder
    from pear.data.test_sets import official

    if (options.errors is None) == (options.data is None):
        raise UsageError("which errors? give --errors FILE or --data FOLDER, one of them")
    if options.errors is not None:
        for name in ("test_set", "lp", "human"):
            if getattr(options, name) is not None:
                raise UsageError(f"--{name.replace('_', '-')} goes with --data")
        return read_mqm_errors(options.errors), []
    files = EvalFolder.open(find_test_set(options.data, options.test_set), options.lp or "")
    merged = (files.path / "human-scores" / f"{files.lp}.mqm.merged{RATINGS}").is_file()
    human = options.human or ("mqm.merged" if merged else "mqm")
    listed = official(files.name, files.lp)
    return read_ratings(files, human), [*files.references, *(() if listed is None else listed.outliers)]
