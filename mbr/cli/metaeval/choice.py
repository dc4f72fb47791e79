"""Task choice: what people think of the translations that metrics choose."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from candidates.command.console import Console, Parser
from mbr.cli.common.options import judge_model_options
from mbr.cli.metaeval.options import (
    add_output_options,
    add_score_set_options,
    read_sets,
    task_parser,
    warn_of_few_draws,
)

if TYPE_CHECKING:
    from mbr.cli.metaeval.output import Grid
    from mbr.metaeval.choice import ChoiceRow, ChoiceStudy

QUICK_START = """\
  mbr-metaeval choice --data mt-metrics-eval-v2 --test-set wmt23 --lp en-de he-en
  mbr-metaeval choice --data mt-metrics-eval-v2 --test-set wmt23 --lp en-de --utility chrf bleu --plot choice.svg
  mbr-metaeval choice --table scores.tsv --human mqm --own mine=mine.jsonl --format json"""


def parser() -> Parser:
    p = task_parser(
        "choice",
        "In each segment a metric chooses the output that it scores highest, and people judge the choice: between a "
        "random choice and an oracle, and against always taking the best single system. Utilities choose by MBR over "
        "the outputs of all systems.",
        QUICK_START,
    )
    add_score_set_options(p, several=True)
    g = p.add_argument_group("choices")
    g.add_argument(
        "--utility",
        nargs="+",
        action="extend",
        metavar="NAME[=MODEL]",
        help="MBR with these over the outputs of each segment; options after commas, as in mbr-compare",
    )
    g.add_argument(
        "--ties",
        choices=("mean", "first"),
        default="mean",
        help="of several outputs with the highest score: their mean, or the first in the file of human scores",
    )
    g.add_argument("--draws", type=int, default=1000, metavar="N", help="of the bootstrap and the tests")
    g.add_argument("--seed", type=int, default=1, help="of both")
    g.add_argument("--no-significance", action="store_true", help="without tests between metrics")
    add_output_options(p, plot="draw metrics on a line from random to oracle")
    return p


def run(options: argparse.Namespace, console: Console) -> int:
    from mbr.cli.metaeval.output import write, write_plot
    from mbr.drawing import stacked
    from mbr.metaeval.choice import choice_study
    from mbr.metaeval.reranking import check_utilities, rerank_by_utility

    words = list(dict.fromkeys(options.utility or []))
    check_utilities(words)
    warn_of_few_draws(options, console)
    studies = []
    for scores in read_sets(options, console):
        for word in words:
            reranked = rerank_by_utility(
                word,
                scores,
                options=judge_model_options(options),
                progress=console.shows_progress,
                report=console.info,
            )
            scores = scores.with_metrics(reranked)
        studies.append(
            choice_study(
                scores,
                ties=options.ties,
                draws=options.draws,
                seed=options.seed,
                significance=not options.no_significance,
            )
        )
    if options.plot is not None:
        write_plot(stacked([study.plot() for study in studies]), options, console)
    records = [study.record() for study in studies]
    several = len(studies) > 1
    signature = " ".join(study.signature() for study in studies)
    write(
        [_grid(study) for study in studies], {"language_pairs": records} if several else records[0], options, signature
    )
    return 0


def _grid(study: ChoiceStudy) -> Grid:
    from mbr.cli.metaeval.agreement import marked
    from mbr.cli.metaeval.output import RULE, Grid

    best = f"{study.best_system} (best system)"
    sanity = [best if row.metric == study.best_system else row.metric for row in study.sanity]
    rows = (*study.rows, *study.sanity)
    cells = [
        [study.lp, row.kind, row.reference, row.rank, row.choice, row.regret, row.rrp, row.gain, row.low, row.high]
        for row in rows
    ]
    shown = [_shown(row, alone=row.metric == study.best_system) for row in rows]
    place = len(study.rows)
    return Grid(
        corner="metric",
        heads=["rank", "choice", "regret", "RRP", f"over {study.best_system}", "95 % interval"],
        keys=["lp", "kind", "reference", "rank", "choice", "choice_regret", "rrp", "gain", "gain_low", "gain_high"],
        names=[*map(marked, study.rows), RULE, *sanity],
        labels=[*(row.metric for row in study.rows), RULE, *(row.metric for row in study.sanity)],
        cells=[*cells[:place], [], *cells[place:]],
        shown=[*shown[:place], [""] * 6, *shown[place:]],
        title=study.title,
        legend=[
            *study.sentences,
            *_legend(study),
            *(f"not official: {sentence}" for sentence in study.assumed),
            study.signature(),
        ],
    )


def _legend(study: ChoiceStudy) -> list[str]:
    from mbr.cli.metaeval.agreement import WITHOUT_REFERENCE, compares_with_none

    tested = "rank: clusters of significance, p <= .05, randomisation over segments; " if study.comparison else ""
    bare = f"{WITHOUT_REFERENCE} compares with no reference; " if any(map(compares_with_none, study.rows)) else ""
    return [
        f"choice: mean {study.human} score of the chosen outputs; regret: 0 for an oracle, 1 for a random choice; "
        "RRP: share of choices with",
        f"the best {study.human} score; interval: paired bootstrap over segments; better than "
        f"{study.best_system} if it is above 0",
        f"{tested}{bare}ties: {study.ties}",
    ]


def _shown(row: ChoiceRow, *, alone: bool) -> list[str]:
    from mbr.cli.metaeval.output import number

    interval = "" if alone else f"{row.low:+.2f} to {row.high:+.2f}"
    gain = "" if alone else f"{row.gain:+.2f}"
    rank = "-" if row.rank is None else str(row.rank)
    return [rank, f"{row.choice:.2f}", number(row.regret), number(row.rrp), gain, interval]
