"""Task resume-metric: how much RESUME to add to a metric?"""

from __future__ import annotations

import argparse
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from candidates.command.console import Console, Parser
from candidates.common.errors import UsageError
from mbr.cli.common.options import judge_model_options, open_judgements
from mbr.cli.metaeval.options import (
    add_output_options,
    add_score_set_options,
    read_sets,
    task_parser,
    warn_of_few_draws,
)

if TYPE_CHECKING:
    from mbr.cli.metaeval.output import Grid
    from mbr.metaeval.postedits import PostEdits
    from mbr.metaeval.resume_sweep import Base, EditScores, ResumeSweep
    from mbr.metaeval.values import Scores, ScoreSet

QUICK_START = """\
  mbr-metaeval resume-metric --data mt-metrics-eval-v2 --test-set wmt23 --lp en-de --score chrf embedding \\
    --model my-resume --post-edits post-editing-test-en-de-test.tar.gz --plot weights.svg"""


def parser() -> Parser:
    p = task_parser(
        "resume-metric",
        "Metric + weight * RESUME for several weights: agreement with people, and how often a post-edit scores above "
        "what it corrects. Each metric's weight is chosen on a part of the segments and measured on the rest.",
        QUICK_START,
    )
    g = p.add_argument_group("RESUME")
    g.add_argument("--model", metavar="MODEL", help="a checkpoint of kind resume (pear-train --kind resume)")
    g.add_argument(
        "--weights", nargs="+", type=float, metavar="X", help="to try, for metrics from 0 to 1 (default: 0.05 ... 10)"
    )
    g.add_argument("--post-edits", metavar="FILE.tar.gz", help="an archive of MLQE-PE, for the post-edit rate")
    add_score_set_options(p)
    g = p.add_argument_group("choice of the weight")
    g.add_argument(
        "--statistics", default="kendall,pairwise_accuracy", metavar="NAMES", help="with commas; the first chooses"
    )
    g.add_argument("--dev-share", type=float, default=0.5, metavar="X", help="of the segments, to choose the weight on")
    g.add_argument("--draws", type=int, default=1000, metavar="N", help="of the bootstrap for intervals")
    g.add_argument("--seed", type=int, default=1, help="of the parts and the draws")
    add_output_options(p, plot="draw the curves")
    return p


def run(options: argparse.Namespace, console: Console) -> int:
    from mbr.cli.metaeval.output import write, write_plot
    from mbr.metaeval.agreement import parse_statistics
    from mbr.metaeval.postedits import read_post_edits
    from mbr.metaeval.resume_sweep import WEIGHTS, resume_sweep
    from mbr.metaeval.scoring import check_names
    from mbr.metaeval.values import model_names, reference_names

    if options.model is None:
        raise UsageError("which RESUME? give --model MODEL, a checkpoint of kind resume")
    statistics = parse_statistics(options.statistics.split(","))
    words = list(dict.fromkeys(options.score or ([] if options.metrics or options.own else ["chrf"])))
    check_names(words)
    if mixed := [word for word in words if "+resume-metric=" in word]:
        raise UsageError(f"--score {mixed[0]}: RESUME is added by this task; name the metric alone")
    warn_of_few_draws(options, console, "intervals")
    options.score, options.metrics = None, options.metrics or []
    (scores,) = read_sets(options, console)
    edits = None if options.post_edits is None else read_post_edits(options.post_edits)
    bases, resume_metric = _scored(options, words, scores, edits, console)
    sweep = resume_sweep(
        scores,
        bases,
        resume_metric,
        weights=options.weights or WEIGHTS,
        statistics=statistics,
        dev_share=options.dev_share,
        draws=options.draws,
        seed=options.seed,
    )
    where = " ".join(filter(None, (scores.name, scores.lp)))
    signature = scores.signature(
        "resume-metric",
        ref=reference_names(metric.reference for metric in (*(base.scores for base in bases), resume_metric)),
        models=model_names(base.scores for base in bases),
        resume=model_names([resume_metric]),
        weights=",".join(f"{weight:g}" for weight in sweep.weights),
        chosen=sweep.select,
        development=sweep.segments[0],
        draws=sweep.draws,
        seed=sweep.seed,
    )
    if options.plot is not None:
        write_plot(sweep.plot(f"{where}: metric + weight * RESUME"), options, console)
    grid = _for_programs(sweep) if options.format == "tsv" else _for_people(sweep, where, signature)
    write([grid], {**scores.description(), "signature": signature, **sweep.record()}, options, signature)
    return 0


def _scored(
    options: argparse.Namespace, words: list[str], scores: ScoreSet, edits: PostEdits | None, console: Console
) -> tuple[list[Base], Scores]:
    """The metrics, with their scores of post-edits where there are any, and RESUME."""
    from mbr.evaluate.residual import Residual
    from mbr.metaeval.resume_sweep import Base
    from mbr.metaeval.scoring import family_of, resume_scores, score_by_name

    bases = [Base(metric) for metric in scores.metrics]
    if bases and edits is not None:
        console.info("no post-edit rate of metrics that are read from files: they have no scores of post-edits")
    with ExitStack() as stack:
        running: dict[str, Any] = {
            "options": judge_model_options(options),
            "cache": open_judgements(options, console, stack),
            "progress": console.shows_progress,
            "report": console.info,
        }
        for word in words:
            base = Base(score_by_name(word, scores, **running), family_of(word))
            bases.append(base if edits is None else replace(base, edits=_edited(word, options.model, edits, running)))
        scores.with_metrics(*(base.scores for base in bases[len(scores.metrics) :]))  # refuses a name that is taken
        return bases, resume_scores(Residual(1.0, options.model), scores, **running)


def _edited(word: str, model: str, edits: PostEdits, running: dict[str, Any]) -> EditScores:
    from mbr.metaeval.postedits import scored_edits
    from mbr.metaeval.resume_sweep import EditScores
    from mbr.metaeval.scoring import metric_by_name

    names = (word, f"resume-metric={model}")
    base, residual = (scored_edits(name, metric_by_name(name, **running), edits) for name in names)
    return EditScores(*base, *residual)


def _for_people(sweep: ResumeSweep, where: str, signature: str) -> Grid:
    """A row for each metric: the weight, and every statistic without RESUME and with it, on the rest."""
    from mbr.cli.metaeval.output import Grid, number
    from mbr.metaeval.statistics import LABELS, LOWER_IS_BETTER

    labels = [LABELS.get(name, name) for name in sweep.statistics]
    edited = any(swept.post_edits is not None for swept in sweep.metrics)
    heads = ["weight", *(f"{label}{part}" for label in labels for part in ("", " + RESUME")), f"gain in {labels[0]}"]
    shown: list[list[str]] = []
    for swept in sweep.metrics:
        place = sweep.weights.index(swept.chosen)
        pairs = [number(swept.rest[name][at]) for name in sweep.statistics for at in (0, place)]
        rates = [] if swept.post_edits is None else [swept.post_edits[0], swept.post_edits[place]]
        shown.append(
            [
                f"{swept.chosen:g}",
                *pairs,
                f"{swept.gain:+.3f} [{swept.low:+.3f}, {swept.high:+.3f}]",
                *([" -> ".join(f"{100 * rate:.1f} %" for rate in rates) or "-"] if edited else []),
            ]
        )
    return Grid(
        corner="metric",
        heads=[*heads, *(["post-edit rate"] if edited else [])],
        keys=[],
        names=[swept.metric for swept in sweep.metrics],
        cells=[[] for _ in sweep.metrics],
        shown=shown,
        title=f"{where}: metric + weight * RESUME, measured on {sweep.segments[1]} segments",
        legend=[
            f"weights were chosen on {sweep.segments[0]} other segments by {labels[0]}, out of "
            + ", ".join(f"{weight:g}" for weight in sweep.weights),
            "[95 % interval over segments, paired bootstrap]; weight 0 is the metric alone",
            *(["a positive gain is a decrease: lower is better"] if sweep.select in LOWER_IS_BETTER else []),
            signature,
        ],
    )


def _for_programs(sweep: ResumeSweep) -> Grid:
    """A row for each metric and weight."""
    from mbr.cli.metaeval.output import Grid

    parts = ("development", "rest")
    names, cells = [], []
    for swept in sweep.metrics:
        for place, weight in enumerate(sweep.weights):
            values = [getattr(swept, part)[name][place] for part in parts for name in sweep.statistics]
            rate = None if swept.post_edits is None else swept.post_edits[place]
            names.append(swept.metric)
            cells.append([weight, weight == swept.chosen, *values, rate])
    keys = [f"{part}_{name}" for part in parts for name in sweep.statistics]
    return Grid(
        corner="metric",
        heads=[],
        keys=["weight", "chosen", *keys, "post_edit_rate"],
        names=names,
        cells=cells,
        shown=[],
    )
