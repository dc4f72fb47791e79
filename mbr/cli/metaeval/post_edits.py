"""Task post-edits: does a metric see that a post-edit is better than what it corrects?"""

from __future__ import annotations

import argparse
from contextlib import ExitStack
from dataclasses import asdict

from candidates.command.console import Console, Parser
from candidates.common.errors import UsageError
from mbr.cli.common.models import add_model_options, model_options
from mbr.cli.metaeval.options import add_output_options, check_files, check_positive, task_parser

QUICK_START = """\
  mbr-metaeval post-edits --data post-editing-test-en-de-test.tar.gz --score chrf bleu
  mbr-metaeval post-edits --sources src.txt --before mt.txt --after pe.txt --score chrf pear --add-resume FOLDER"""


def parser() -> Parser:
    p = task_parser(
        "post-edits",
        "The machine translation is taken for the reference: how often does a metric score the post-edit above it? "
        "Items that the post-editor left as they were do not count.",
        QUICK_START,
    )
    g = p.add_argument_group("post-edits (one line per item)")
    g.add_argument("--data", metavar="FILE.tar.gz", help="an archive of MLQE-PE with .src, .mt and .pe")
    g.add_argument("--sources", metavar="FILE", help="instead: what was translated,")
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
    g.add_argument("--add-resume", metavar="MODEL", help="also each of them with RESUME added")
    g.add_argument("--resume-weight", type=float, default=0.2, metavar="W", help="of RESUME")
    add_model_options(p, "models")
    add_output_options(p)
    return p


def run(options: argparse.Namespace, console: Console) -> int:
    check_files(options)
    check_positive(options, "threads", "batch_tokens")
    files = [options.sources, options.before, options.after]
    if (options.data is None) == (None in files) or (options.data is not None and any(files)):
        raise UsageError("which post-edits? give --data FILE.tar.gz, or --sources, --before and --after")

    from mbr.cache.judgements import Cache
    from mbr.cli.metaeval.output import Grid, signature, write
    from mbr.metaeval.postedits import Metric, post_edit_rate, read_post_edits
    from mbr.metaeval.scoring import check_names, metric_by_name

    words = list(dict.fromkeys(options.score or ["chrf"]))
    check_names(words)
    edits = read_post_edits(options.data, [file for file in files if file is not None])
    rates = []
    with ExitStack() as stack:
        cache = None if options.no_cache else stack.enter_context(Cache(tell=console.warn))
        metrics: dict[str, Metric] = {
            word: metric_by_name(
                word,
                options=model_options(options),
                cache=cache,
                progress=console.shows_progress,
                tell=console.info,
            )
            for word in words
        }
        if options.add_resume is not None:
            from pear.resume_metric import ResumeMetric, with_resume_metric

            model = stack.enter_context(ResumeMetric.load(options.add_resume, **model_options(options)))
            weight = options.resume_weight
            metrics |= {
                f"{word} + {weight:g} RESUME": with_resume_metric(metrics[word], model, weight) for word in words
            }
        for name, metric in metrics.items():
            rates.append(post_edit_rate(name, metric, edits))
    said = signature("post-edits", items=rates[0].items, unchanged=rates[0].unchanged)
    grid = Grid(
        corner="metric",
        heads=["post-edit rate", "ties"],
        keys=["rate", "ties", "items", "unchanged"],
        names=[one.metric for one in rates],
        cells=[[one.rate, one.ties, one.items, one.unchanged] for one in rates],
        shown=[[f"{100 * one.rate:.1f} %", f"{100 * one.ties:.1f} %"] for one in rates],
        title=f"{rates[0].items} items that a post-editor changed ({rates[0].unchanged} others)",
        legend=["how often the post-edit scores above the machine translation, which is the reference", said],
    )
    write([grid], {"signature": said, "rows": [asdict(one) for one in rates]}, options, said)
    return 0
