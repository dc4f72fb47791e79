"""Options that the tasks share, and the score sets that they describe."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING

from candidates.command.console import Console, Parser, add_message_options
from candidates.command.numbers import check_numbers
from candidates.common.errors import UsageError
from mbr.cli.common.options import add_config_option, add_judge_model_options, judge_model_options, open_judgements

if TYPE_CHECKING:
    from mbr.cache.judgements import Cache
    from mbr.metaeval.values import ScoreSet

OFFICIAL = "official"  # stands for the language pairs of a test set's main result
FORMATS = ("table", "json", "tsv", "latex")
PLOT_SUFFIX = ".svg"
FEW_DRAWS = 100
INPUTS = (
    "data",
    "table",
    "ratings",
    "errors",
    "sources",
    "before",
    "after",
    "post_edits",
)  # options of one task or another


def task_parser(task: str, description: str, quick_start: str) -> Parser:
    name = "mbr-metaeval" if task == "agreement" else f"mbr-metaeval {task}"
    return Parser(name, description, "quick start:\n" + quick_start)


def add_data_options(parser: Parser, *, several: bool = False, golds: bool = False) -> None:
    g = parser.add_argument_group("scores")
    g.add_argument("--data", metavar="FOLDER", help="mt-metrics-eval's data, or the folder of one test set")
    g.add_argument("--test-set", metavar="NAME", help="such as wmt23, below --data")
    g.add_argument(
        "--lp",
        nargs="+" if several else None,
        action="extend" if several else "store",
        metavar="LP",
        help="language pair" + ("s, or `official`: those of WMT's main result" if several else "") + ", such as en-de",
    )
    g.add_argument(
        "--table", metavar="FILE", help="instead: TSV or JSON lines with system, segment and one column per evaluator"
    )
    g.add_argument(
        "--human",
        nargs="+" if golds else None,
        action="extend" if golds else "store",
        metavar="NAME",
        help="human scores that are the gold (default: the official ones of the language pair, else mqm)"
        + ("; several: a table for each" if golds else ""),
    )


def add_system_options(parser: Parser) -> None:
    g = parser.add_argument_group("systems")
    g.add_argument("--systems", nargs="+", action="extend", metavar="NAME", help="only these")
    g.add_argument("--exclude-systems", nargs="+", action="extend", metavar="NAME", help="all but these")
    g.add_argument(
        "--reference",
        nargs="+",
        action="extend",
        metavar="[LP=]NAME",
        help="what metrics compare with, for all language pairs or for one (default: that of WMT's results)",
    )
    g.add_argument(
        "--human-systems",
        action=argparse.BooleanOptionalAction,
        help="other references count as systems (default: as in WMT's results)",
    )
    g.add_argument("--outliers", action="store_true", help="systems that WMT's results leave out count too")


def add_segment_options(parser: Parser, *, breakdown: bool = False) -> None:
    """Options that choose among segments or change their scores; `breakdown`: --domain may stand without a name."""
    g = parser.add_argument_group("segments")
    g.add_argument(
        "--domain",
        nargs="*" if breakdown else "+",
        action="extend",
        metavar="NAME",
        help="only segments of these domains" + ("; without a name all, with a column for each" if breakdown else ""),
    )
    g.add_argument("--level", choices=("segment", "document"), default="segment", help="what has one score per system")
    add_clip_option(g)


def add_clip_option(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--clip",
        metavar="LOW:HIGH|P%",
        help="cut human scores to these bounds (--clip=-10:0), or all scores to their percentiles P and 100 - P (1%%)",
    )


def add_metric_options(parser: Parser) -> None:
    g = parser.add_argument_group("metrics")
    g.add_argument("--metrics", nargs="+", action="extend", metavar="NAME", help="only these (default: all that fit)")
    g.add_argument(
        "--own",
        nargs="+",
        action="extend",
        metavar="NAME=FILE",
        help="your metric: lines system<TAB>score, or a table; with a column `other` a pairwise metric. "
        "Several language pairs: {lp} in the name of the file. FILE,reference=refB: it compares with refB; "
        "FILE,reference=src: with none",
    )
    g.add_argument(
        "--score",
        nargs="+",
        action="extend",
        metavar="NAME[=MODEL]",
        help="score the outputs with a judge or utility of this package (chrf, comet=FOLDER, pear=FOLDER, ...); RESUME "
        "is added by +resume-metric=WEIGHT,model=MODEL",
    )
    add_judge_model_options(parser, "models (with --score)")


def add_score_set_options(
    parser: Parser, *, several: bool = False, golds: bool = False, breakdown: bool = False
) -> None:
    """Everything that describes a score set: human scores, metrics, systems, segments."""
    add_data_options(parser, several=several, golds=golds)
    add_metric_options(parser)
    add_system_options(parser)
    add_segment_options(parser, breakdown=breakdown)


def add_output_options(parser: Parser, *, plot: str | None = None) -> None:
    g = parser.add_argument_group("output")
    g.add_argument("-o", "--output", metavar="FILE", help="default: standard output; written whole or not at all")
    g.add_argument("--format", choices=FORMATS, default="table", help="of the output")
    if plot is not None:
        g.add_argument("--plot", metavar="FILE.svg", help=plot)
    g.add_argument("--force", action="store_true", help="overwrite existing files")
    add_config_option(parser)
    add_message_options(parser)


def check_options(options: argparse.Namespace) -> None:
    """Refuse files that cannot be written and numbers out of range, before any work."""
    from candidates.command.outputs import check_outputs

    own = [path for word in getattr(options, "own", None) or () for path in _own_files(word, options)]
    check_outputs(
        {"output": options.output, "plot": getattr(options, "plot", None)},
        inputs=[*(getattr(options, name, None) for name in INPUTS), *own],
        config=options.config,
        force=options.force,
    )
    plot = getattr(options, "plot", None)
    if plot is not None and not plot.endswith(PLOT_SUFFIX):
        raise UsageError(f"--plot {plot}: plots are drawn as SVG; expected a name that ends in {PLOT_SUFFIX}")
    check_numbers(options, positive=("draws", "groups", "repeats", "threads", "batch_tokens"), not_negative=("seed",))


def warn_of_few_draws(options: argparse.Namespace, console: Console, what: str = "intervals and ranks") -> None:
    if options.draws < FEW_DRAWS:
        console.warn(f"few draws (--draws {options.draws}): {what} mean little; give 1000")


def read_sets(
    options: argparse.Namespace,
    console: Console,
    *,
    human: str | None = None,
    humans: Sequence[str] = (),
    metrics: bool = True,
    anchored: bool = False,
) -> list[ScoreSet]:
    """One score set for each language pair, with own and scored metrics, over the chosen systems and segments.

    `human` is the gold where options name several, `humans` are other people's scores.
    """
    from mbr.metaeval.clipping import Clip
    from mbr.metaeval.scoring import check_names

    check_names(getattr(options, "score", None) or [])
    clip = Clip.parse(options.clip) if options.clip else None
    own = [_named(word) for word in getattr(options, "own", None) or []]
    pairs = _language_pairs(options)
    references = _references(options, pairs)
    gold = human if human is not None or isinstance(options.human, list) else options.human
    sets = []
    with ExitStack() as stack:
        cache = open_judgements(options, console, stack) if getattr(options, "score", None) else None
        for lp in pairs:
            scores = _read(options, lp, gold, references, humans, metrics)
            scores = scores.choose(options.systems, options.exclude_systems or [])
            if not humans:  # otherwise the segments that all people annotated decide
                scores = scores.complete(getattr(options, "metrics", None) or [])
            for note in (*scores.notes, *(f"not official: {sentence}" for sentence in scores.assumed)):
                console.info(f"{scores.lp}: {note}" if len(pairs) > 1 else note)
            scores = _with_own(replace(scores, notes=()), own, options, console, cache, anchored)
            scores = _at_level(scores, options)
            sets.append(scores if clip is None else clip.apply(scores))
    return sets


def _language_pairs(options: argparse.Namespace) -> list[str]:
    from mbr.metaeval.folders import find_test_set
    from pear.data.test_sets import main_result

    words = options.lp if isinstance(options.lp, list) else [options.lp] if options.lp else []
    pairs = list(dict.fromkeys(words))
    if OFFICIAL in pairs and options.data is not None:
        name = find_test_set(options.data, options.test_set).resolve().name
        main = main_result(name)
        if not main or len(pairs) > 1:
            why = "stands alone" if main else f"is not known for {name}; name the language pairs"
            raise UsageError(f"--lp {OFFICIAL}: the official mean over language pairs {why}")
        return list(main)
    if options.table is not None and len(pairs) > 1:
        raise UsageError("a table holds one language pair; give one --lp with it")
    return pairs or [""]


def _references(options: argparse.Namespace, pairs: Sequence[str]) -> dict[str, str]:
    """By language pair; "" stands for all that are not named."""
    chosen: dict[str, str] = {}
    for word in options.reference or []:
        lp, equals, name = word.rpartition("=")
        if not name or (equals and not lp):
            raise UsageError(f"--reference {word}: expected NAME or LP=NAME, such as en-de=refB")
        if lp in chosen:
            raise UsageError(f"--reference {word}: {f'{lp} has' if lp else 'there is'} {chosen[lp]} already; give one")
        if lp and lp not in pairs and pairs != [""]:
            raise UsageError(f"--reference {word}: {lp} is not among the language pairs {', '.join(pairs)}")
        chosen[lp] = name
    return chosen


def _at_level(scores: ScoreSet, options: argparse.Namespace) -> ScoreSet:
    if options.level != "document":
        return scores
    from mbr.metaeval.documents import by_document
    from mbr.metaeval.folders import document_scores, find_test_set

    if options.data is None:
        raise UsageError("--level document goes with --data, whose folders know the documents of segments")
    return by_document(scores, *document_scores(find_test_set(options.data, options.test_set), scores))


def _read(
    options: argparse.Namespace,
    lp: str,
    human: str | None,
    references: dict[str, str],
    humans: Sequence[str],
    metrics: bool,
) -> ScoreSet:
    from mbr.metaeval.folders import find_test_set, read_folder
    from mbr.metaeval.tables import read_study

    table = options.table
    if (options.data is None) == (table is None):
        raise UsageError(
            "which scores? give --data FOLDER or --table FILE" + (", not both" if table is not None else "")
        )
    chosen = [] if not metrics else getattr(options, "metrics", None)
    if table is not None:
        for name in ("test_set", "reference", "human_systems", "outliers", "domain"):
            if getattr(options, name, None) is not None and getattr(options, name) is not False:
                raise UsageError(f"--{name.replace('_', '-')} goes with --data, not with --table")
        if human is None and getattr(options, "ratings", None) is None:  # raters are the gold
            raise UsageError("which column of the table is the gold? give --human COLUMN")
        columns = None if chosen is None else [*dict.fromkeys([*chosen, *humans])]
        return read_study(table, human, metrics=columns, lp=lp)
    return read_folder(
        find_test_set(options.data, options.test_set),
        lp,
        human,
        reference=references.get(lp) or references.get(""),
        human_systems=options.human_systems,
        outliers=options.outliers,
        metrics=chosen,
        evaluators=humans,
    )


def _with_own(
    scores: ScoreSet,
    own: Iterable[tuple[str, str, str | None]],
    options: argparse.Namespace,
    console: Console,
    cache: Cache | None,
    anchored: bool,
) -> ScoreSet:
    from mbr.metaeval.documents import in_domains
    from mbr.metaeval.scoring import score_by_name
    from mbr.metaeval.tables import read_own

    for name, path, reference in own:
        scores = scores.with_metrics(read_own(name, path.replace("{lp}", scores.lp), scores, reference=reference))
    if getattr(options, "domain", None):
        scores = in_domains(scores, options.domain)
    for word in getattr(options, "score", None) or []:
        scored = score_by_name(
            word,
            scores,
            anchored=anchored,
            options=judge_model_options(options),
            cache=cache,
            progress=console.shows_progress,
            report=console.info,
        )
        scores = scores.with_metrics(scored)
    return scores


def _own_files(word: str, options: argparse.Namespace) -> list[str]:
    _, path, _ = _named(word)
    pairs = options.lp if isinstance(options.lp, list) else [options.lp]
    return [path.replace("{lp}", lp or "") for lp in pairs]


def _named(word: str) -> tuple[str, str, str | None]:
    """Name, file, and the reference that the metric compares with, where the word has one."""
    name, equals, rest = word.partition("=")
    path, mark, reference = rest.partition(",reference=")
    if not equals or not name or not path or (mark and not reference):
        raise UsageError(f"--own {word}: expected NAME=FILE, NAME=FILE,reference=refA or NAME=FILE,reference=src")
    if path == "-":
        raise UsageError(f"--own {word}: it cannot be standard input; name a file")
    return name, path, reference or None
