"""Task post-edits: does a metric score a post-edit above the translation that it corrects?"""

from __future__ import annotations

import argparse
from contextlib import ExitStack
from typing import Any

from candidates.command.console import Console, Parser
from candidates.common.errors import UsageError
from mbr.cli.common.options import add_judge_model_options, judge_model_options, open_judgements
from mbr.cli.metaeval.options import add_output_options, task_parser

QUICK_START = """\
  mbr-metaeval post-edits --data post-editing-test-en-de-test.tar.gz --score chrf bleu
  mbr-metaeval post-edits --sources src.txt --before mt.txt --after pe.txt \\
    --score chrf bleu --add resume-metric=0.2,model=my-resume"""


def parser() -> Parser:
    p = task_parser(
        "post-edits",
        "The machine translation serves as the reference: how often does a metric score the post-edit above it? "
        "Items that the post-editor did not change do not count.",
        QUICK_START,
    )
    g = p.add_argument_group("post-edits (one line per item)")
    g.add_argument("--data", metavar="FILE.tar.gz", help="an archive of MLQE-PE with .src, .mt and .pe")
    g.add_argument("--sources", metavar="FILE", help="instead: the source text,")
    g.add_argument("--before", metavar="FILE", help="the machine translations,")
    g.add_argument("--after", metavar="FILE", help="and the post-edits")
    g = p.add_argument_group("metrics")
    g.add_argument(
        "--score",
        nargs="+",
        action="extend",
        metavar="NAME[=MODEL]",
        help="judges or utilities of this package (default: chrf)",
    )
    g.add_argument(
        "--add",
        metavar="resume-metric=WEIGHT,model=MODEL",
        help="also each of them with RESUME added, as --score chrf+resume-metric=0.2,model=MODEL does for one",
    )
    add_judge_model_options(p, "models")
    add_output_options(p)
    return p


def run(options: argparse.Namespace, console: Console) -> int:
    files = [options.sources, options.before, options.after]
    if (options.data is None) == (None in files) or (options.data is not None and any(files)):
        raise UsageError("which post-edits? give --data FILE.tar.gz, or --sources, --before and --after")

    from mbr.cli.metaeval.output import Grid, write
    from mbr.evaluate.residual import parse_residual, split_residual
    from mbr.metaeval.postedits import post_edit_rate, read_post_edits
    from mbr.metaeval.scoring import check_names, metric_by_name
    from mbr.metaeval.signature import signature

    words = list(dict.fromkeys(options.score or ["chrf"]))
    if options.add is not None:
        parse_residual(options.add, f"--add {options.add!r}")
        words += [f"{word}+{options.add}" for word in words]
    check_names(words)
    edits = read_post_edits(options.data, [file for file in files if file is not None])
    with ExitStack() as stack:
        running: dict[str, Any] = {
            "options": judge_model_options(options),
            "cache": open_judgements(options, console, stack),
            "progress": console.shows_progress,
            "report": console.info,
        }
        rates = []
        for word in words:
            base, residual = split_residual(word)
            name = base + (residual.suffix if residual else "")
            rates.append(post_edit_rate(name, metric_by_name(word, **running), edits))
    line = signature("post-edits", items=rates[0].items, unchanged=rates[0].unchanged)
    grid = Grid(
        corner="metric",
        heads=["post-edit rate", "ties"],
        keys=["rate", "ties", "items", "unchanged"],
        names=[rate.metric for rate in rates],
        cells=[[rate.rate, rate.ties, rate.items, rate.unchanged] for rate in rates],
        shown=[[f"{100 * rate.rate:.1f} %", f"{100 * rate.ties:.1f} %"] for rate in rates],
        title=f"{rates[0].items} items that a post-editor changed ({rates[0].unchanged} others)",
        legend=["how often the post-edit scores above the machine translation, which is the reference", line],
    )
    write([grid], {"signature": line, "rows": [rate.record() for rate in rates]}, options, line)
    return 0
