"""mbr-evaluate: outputs of systems in, scores by several judges out, with intervals, tests and checks."""

from __future__ import annotations

import argparse
import json
import sys
import time
import traceback
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING

from candidates.command.console import Console, Parser, add_message_options
from candidates.command.numbers import check_numbers
from candidates.common.errors import MbrError, UsageError
from mbr.cli.common.options import (
    add_config_option,
    add_judge_model_options,
    add_significance_options,
    judge_model_options,
    open_judgements,
)
from mbr.cli.evaluate.spans import INLINE

if TYPE_CHECKING:
    from mbr.cli.common.texts import Texts
    from mbr.evaluate import Evaluation, JudgeSpec

QUICK_START = """\
quick start:
  mbr-evaluate --references ref.txt --systems a.txt b.txt --baseline a
  mbr-evaluate --sources src.txt --references ref.txt --systems system-outputs/en-de --judge chrf bleu
  mbr-evaluate --references ref.txt --systems new=best.jsonl --format json -o scores.json
  mbr-evaluate --sources src.txt --systems old.txt new.txt --baseline old --judge pear  # is new better than old?
  mbr-evaluate --sources src.txt --systems new=best.jsonl --judge cometkiwi  # no references; downloads 2.3 GB"""

DEFAULT_JUDGES = ("chrf", "bleu", "ter")
LONG_FOR_TER = 300  # words per segment: the time of TER grows with about their third power
FEW_DRAWS = 100


def parser() -> Parser:
    p = Parser(
        "mbr-evaluate",
        "Score the outputs of translation systems by several judges, with confidence intervals, significance tests "
        "against a baseline, and checks of the outputs.",
        QUICK_START,
        file_option=lambda name: "--systems",
    )

    g = p.add_argument_group("input (one line per segment; - is standard input)")
    g.add_argument(
        "--systems",
        nargs="+",
        action="extend",
        metavar="NAME=FILE",
        help="outputs: files of lines or mbr-decode's .jsonl, with or without NAME=; or folders of *.txt",
    )
    g.add_argument("--sources", metavar="FILE", help="the source text")
    g.add_argument(
        "--references", nargs="+", action="extend", metavar="FILE", help="one file for each set of references"
    )

    g = p.add_argument_group("judges")
    g.add_argument(
        "--judge",
        nargs="+",
        action="extend",
        metavar="NAME[=MODEL]",
        help="may be repeated; see --list-judges; with RESUME added: chrf+resume-metric=0.2,model=FOLDER "
        f"(default: {' '.join(DEFAULT_JUDGES)}; no ter for paragraphs)",
    )
    g.add_argument(
        "--judge-option",
        action="append",
        metavar="NAME:KEY=VALUE",
        help="an option of one judge: bertscore:layer=9, comet:backend=library; may be repeated",
    )
    g.add_argument("--tokenize", default="13a", metavar="NAME", help="sacrebleu tokenizer for bleu: zh, ja-mecab, ...")
    g.add_argument("--list-judges", action="store_true", help="print the judges, then stop")

    g = p.add_argument_group("statistics")
    g.add_argument(
        "--baseline", metavar="NAME", help="the system that the others are tested against; pear compares with it"
    )
    add_significance_options(g)
    g.add_argument("--seed", type=int, default=1, help="of draws and trials")

    _add_output_options(p.add_argument_group("output"))
    add_judge_model_options(p, "models (all neural judges)")
    add_config_option(p)
    add_message_options(p)
    return p


def _add_output_options(g: argparse._ArgumentGroup) -> None:
    g.add_argument("-o", "--output", metavar="FILE", help="default: standard output; written whole or not at all")
    g.add_argument("--format", choices=("table", "json", "tsv"), default="table", help="of the output")
    g.add_argument("--segments", metavar="FILE.jsonl", help="also write scores and flags of each segment and system")
    g.add_argument(
        "--spans",
        nargs="?",
        const=INLINE,
        metavar="FILE",
        help="errors that xcomet finds, as marked text behind the table, or in the JSON; FILE.jsonl: JSON lines",
    )
    g.add_argument("--force", action="store_true", help="overwrite existing files")


def command(argv: Sequence[str] | None = None) -> int:
    from candidates.command.config import with_config

    p = parser()
    options = p.parse_args(with_config(p, sys.argv[1:] if argv is None else argv))
    console = Console("mbr-evaluate", quiet=options.quiet, log_format=options.log_format)
    if options.list_judges:
        return _list_judges()
    _check(options)

    from mbr.cli.common.texts import read_texts
    from mbr.cli.evaluate.systems import check_lengths, choosing_utilities, read_systems
    from mbr.evaluate.judges import parse_judges, with_options

    if options.judge:
        # Refuses a wrong name or option before files are read.
        with_options(parse_judges(options.judge), options.judge_option or ())
    references = [read_texts(path) for path in options.references or []]
    sources = None if options.sources is None else read_texts(options.sources)
    systems, left_out = read_systems(options.systems, references)
    check_lengths(systems, [*([] if sources is None else [sources]), *references])
    for file in [*systems.values(), *references, *([] if sources is None else [sources])]:
        if file.has_byte_order_mark:
            console.warn(f"{file.path} begins with a byte order mark, which counts as a character, as for sacrebleu")
    for name in left_out:
        console.info(f"{name} holds a reference and is not judged as a system; give it as NAME=FILE to judge it")
    chosen_by = {name: utilities for name, file in systems.items() if (utilities := choosing_utilities(file.path))}
    if not options.judge:
        options.judge = _default_judges(references, console)
    judges = with_options(parse_judges(options.judge), options.judge_option or ())
    _advise(judges, systems, references, chosen_by, options, console)
    return _run(options, judges, systems, sources, references, chosen_by, console)


def _check(options: argparse.Namespace) -> None:
    """Refuse options that do not go together, before anything is read or loaded."""
    if not options.systems:
        raise UsageError("no outputs to judge; give --systems NAME=FILE, files, or a folder")
    words = [*options.systems, *(options.references or []), *([] if options.sources is None else [options.sources])]
    files = [word.rpartition("=")[2] for word in options.systems] + words[len(options.systems) :]
    if files.count("-") > 1:
        raise UsageError("only one of --systems, --sources and --references can be standard input")
    check_numbers(options, not_negative=("bootstrap", "trials", "seed"), positive=("threads", "batch_tokens"))
    if not options.judge and not options.references:
        from mbr.evaluate.judges import WITHOUT_REFERENCES

        raise UsageError(
            f"the default judges ({', '.join(DEFAULT_JUDGES)}) need references; give --references FILE, "
            f"or --sources FILE and a --judge that needs none: {WITHOUT_REFERENCES}, and pear with --baseline"
        )
    if options.spans == INLINE and options.format == "tsv":
        raise UsageError("--spans has no place in --format tsv; give a file: --spans FILE.jsonl")
    from candidates.command.outputs import check_outputs
    from mbr.cli.evaluate.systems import files_of

    check_outputs(
        {
            "output": options.output,
            "segments": options.segments,
            "spans": None if options.spans == INLINE else options.spans,
        },
        inputs=[*files_of(options.systems), *(options.references or ()), options.sources],
        config=options.config,
        force=options.force,
    )


def _default_judges(references: Sequence[Texts], console: Console) -> list[str]:
    """Without TER where words are not separated by spaces, and where segments are too long for it."""
    from mbr.evaluate.lexical import unspaced

    texts = references[0].texts
    without = [name for name in DEFAULT_JUDGES if name != "ter"]
    if language := unspaced(texts):
        console.info(f"ter is left out: it counts words by spaces, and the references look {language[0]}")
        return without
    average = sum(len(text.split()) for text in texts) / max(len(texts), 1)
    if average <= LONG_FOR_TER:
        return list(DEFAULT_JUDGES)
    console.info(f"ter is left out: segments of {average:.0f} words take it seconds each; request it with --judge ter")
    return without


def _advise(
    judges: Sequence[JudgeSpec],
    systems: dict[str, Texts],
    references: Sequence[Texts],
    chosen_by: dict[str, list[str]],
    options: argparse.Namespace,
    console: Console,
) -> None:
    """Warn about settings that make scores misleading, before the work."""
    from mbr.evaluate.evaluation import FEW_SEGMENTS, same_family
    from mbr.evaluate.judges import JudgeSpec
    from mbr.evaluate.lexical import unspaced

    names = {judge.name for judge in judges}
    segments = len(next(iter(systems.values())).texts)
    if 0 < segments < FEW_SEGMENTS:
        console.info(f"few segments ({segments}): intervals and tests mean little")
    if 0 < options.bootstrap < FEW_DRAWS:
        console.warn(f"few draws (--bootstrap {options.bootstrap}): intervals mean little; give 1000, or 0 for none")
    if references and (script := unspaced(references[0].texts)):
        language, tokenizer = script
        if "bleu" in names and options.tokenize == "13a":
            console.warn(f"bleu: the references look {language}; count words with --tokenize {tokenizer}")
        if spaced := [name for name in ("chrf++", "ter") if name in names]:
            console.warn(
                f"{', '.join(spaced)}: the references look {language}, and words are counted by spaces here; "
                f"better use chrf, or bleu with --tokenize {tokenizer}"
            )
    learned = [
        f"{name} ({' after '.join(utilities)})"
        for name, utilities in chosen_by.items()
        if not all(same_family(utility, JudgeSpec("chrf")) or utility == "logprob" for utility in utilities)
    ]
    if learned and not any(judge.lexical for judge in judges):
        console.warn(
            f"{', '.join(learned)}: chosen by a learned utility; neural judges overrate such outputs even across "
            "families, so add a lexical judge (--judge chrf)"
        )


def _run(
    options: argparse.Namespace,
    judges: Sequence[JudgeSpec],
    systems: dict[str, Texts],
    sources: Texts | None,
    references: Sequence[Texts],
    chosen_by: dict[str, list[str]],
    console: Console,
) -> int:
    from candidates.common.words import counted
    from mbr.evaluate import evaluate

    began = time.monotonic()
    with ExitStack() as stack:
        evaluation = evaluate(
            {name: file.texts for name, file in systems.items()},
            judges,
            sources=None if sources is None else sources.texts,
            references=[file.texts for file in references],
            baseline=options.baseline,
            draws=options.bootstrap,
            trials=options.trials,
            seed=options.seed,
            chosen_by=chosen_by,
            tokenize=options.tokenize,
            options=judge_model_options(options),
            spans=options.spans is not None,
            cache=open_judgements(options, console, stack),
            progress=console.shows_progress,
            report=console.info,
            warn=console.warn,
        )
    _write(evaluation, options, {name: file.texts for name, file in systems.items()})
    failed = [judge for judge in evaluation.judges if judge.error is not None]
    console.info(
        f"{counted(len(evaluation.systems), 'system')}, {counted(evaluation.segments, 'segment')}, "
        f"{counted(len(evaluation.judges), 'judge')}{f' ({len(failed)} failed)' if failed else ''} "
        f"in {time.monotonic() - began:.1f} s",
        systems=len(evaluation.systems),
        segments=evaluation.segments,
        judges=len(evaluation.judges),
        failed=len(failed),
    )
    for judge in failed:
        if not isinstance(judge.error, (MbrError, MemoryError, OSError)):
            traceback.print_exception(judge.error)
    return evaluation.exit_code()


def _write(evaluation: Evaluation, options: argparse.Namespace, outputs: Mapping[str, Sequence[str]]) -> None:
    from candidates.common.text import atomic_output
    from mbr.cli.common.output import table_width, write_output
    from mbr.cli.evaluate.spans import in_colour, render_spans, span_records
    from mbr.cli.evaluate.tables import render
    from mbr.evaluate.evaluation import reason_of

    inline = list(span_records(evaluation, outputs)) if options.spans == INLINE else None
    text = render(evaluation, options.format, table_width(options), spans=inline)
    if options.spans == INLINE and options.format == "table":
        text += "\n" + render_spans(evaluation, outputs, lines=False, colour=in_colour(options.output))
    elif options.spans not in (None, INLINE):
        with atomic_output(options.spans, force=options.force) as stream:
            lines = options.spans.endswith((".jsonl", ".json"))
            stream.write(render_spans(evaluation, outputs, lines=lines, colour=False).encode())
    if options.segments is not None:
        with atomic_output(options.segments, force=options.force) as stream:
            for record in evaluation.segment_records():
                stream.write((json.dumps(record, ensure_ascii=False, allow_nan=False) + "\n").encode())
    identities = [judge.identity for judge in evaluation.judges if judge.error is None]
    failures = [f"{judge.label} failed: {reason_of(judge.error)}" for judge in evaluation.judges if judge.error]
    signature = " ".join(" ".join([*identities, *failures]).split())
    # A judge that failed has failed on all segments.
    write_output(text, options, signature, evaluation.segments if failures else 0)


def _list_judges() -> int:
    from mbr.evaluate.judges import JudgeSpec, judge_names

    rows = [("name", "what it is", "family", "better", "reference", "licence")]
    for name in judge_names():
        spec = JudgeSpec(name)
        if spec.needs_baseline:
            reference = "baseline"
        else:
            reference = "needed" if spec.needs_reference else "none" if spec.texts(1) == 2 else "used"
        better = "lower" if spec.lower_is_better else "higher"
        rows.append((name, spec.summary, spec.family, better, reference, spec.licence))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
    return 0
