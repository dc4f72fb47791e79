"""mbr-evaluate: outputs of systems in, scores by several judges out, with intervals, tests and checks."""

from __future__ import annotations

import argparse
import shutil
import sys
import time
import traceback
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from candidates.command.console import Console, Parser, add_message_options
from candidates.common.errors import MbrError, UsageError
from mbr.cli.common.models import add_model_options, check_numbers, model_options, parse_with_lists

if TYPE_CHECKING:
    from mbr.cli.evaluate.systems import Texts
    from mbr.evaluate import Evaluation, JudgeSpec

QUICK_START = """\
quick start:
  mbr-evaluate --references ref.txt --systems a.txt b.txt --baseline a
  mbr-evaluate --sources src.txt --references ref.txt --systems system-outputs/en-de --judge chrf xcomet=FOLDER
  mbr-evaluate --sources src.txt --systems new=best.jsonl --judge cometkiwi --format json -o scores.json"""

DEFAULT_JUDGES = ("chrf", "bleu", "ter")
LISTS = ("systems", "references", "judge")
LONG_FOR_TER = 300  # words: TER takes about the third power of them, seconds a document
FEW_DRAWS = 100


def parser() -> Parser:
    p = Parser(
        "mbr-evaluate",
        "Score the outputs of translation systems by several judges, with confidence intervals, significance tests "
        "against a baseline, and checks of the outputs.",
        QUICK_START,
    )

    g = p.add_argument_group("input (one line per segment; - is standard input)")
    g.add_argument(
        "--systems",
        nargs="+",
        action="extend",
        metavar="NAME=FILE",
        help="outputs: files of lines or mbr-decode's .jsonl, with or without NAME=; or folders of *.txt",
    )
    g.add_argument("--sources", metavar="FILE", help="what was translated")
    g.add_argument(
        "--references", nargs="+", action="extend", metavar="FILE", help="one file for each set of references"
    )

    g = p.add_argument_group("judges")
    g.add_argument(
        "--judge",
        nargs="+",
        action="extend",
        metavar="NAME[=MODEL]",
        help=f"may be repeated; see --list-judges (default: {' '.join(DEFAULT_JUDGES)}; no ter for paragraphs)",
    )
    g.add_argument("--tokenize", default="13a", metavar="NAME", help="sacrebleu tokenizer for bleu: zh, ja-mecab, ...")
    g.add_argument("--list-judges", action="store_true", help="print what --judge takes, then stop")

    g = p.add_argument_group("statistics")
    g.add_argument("--baseline", metavar="NAME", help="the system that the others are tested against")
    g.add_argument(
        "--bootstrap", type=int, default=1000, metavar="N", help="draws for intervals and the paired bootstrap; 0: none"
    )
    g.add_argument(
        "--trials", type=int, default=10_000, metavar="N", help="of the approximate randomisation test; 0: none"
    )
    g.add_argument("--seed", type=int, default=1, help="of draws and trials")

    g = p.add_argument_group("output")
    g.add_argument("-o", "--output", metavar="FILE", help="default: standard output; written whole or not at all")
    g.add_argument("--format", choices=("table", "json", "tsv"), default="table", help="of the output")
    g.add_argument("--segments", metavar="FILE.jsonl", help="also write scores and flags of each segment and system")
    g.add_argument("--force", action="store_true", help="overwrite existing files")

    add_model_options(p, "models (all neural judges)")

    g = p.add_argument_group("run")
    g.add_argument("--config", metavar="FILE.yaml", help="options from a file; flags are stronger")
    add_message_options(p)
    return p


def command(argv: Sequence[str] | None = None) -> int:
    options = parse_with_lists(parser(), sys.argv[1:] if argv is None else list(argv), LISTS)
    console = Console("mbr-evaluate", quiet=options.quiet, log_format=options.log_format)
    if options.list_judges:
        return _list_judges()
    _check(options)

    from mbr.cli.evaluate.systems import check_lengths, choosers, read_systems, read_texts
    from mbr.evaluate.judges import parse_judges

    if options.judge:
        parse_judges(options.judge)  # a wrong name is told before files are read
    references = [read_texts(path) for path in options.references or []]
    sources = None if options.sources is None else read_texts(options.sources)
    systems, left_out = read_systems(options.systems, references)
    check_lengths(systems, [*([] if sources is None else [sources]), *references])
    for file in [*systems.values(), *references, *([] if sources is None else [sources])]:
        if file.marked:
            console.warn(f"{file.path} begins with a byte order mark, which counts as a character, as for sacrebleu")
    for name in left_out:
        console.info(f"{name} holds a reference and is not taken as a system; give it as NAME=FILE to have it judged")
    chosen_by = {name: found for name, file in systems.items() if (found := choosers(file.path))}
    if not options.judge:
        options.judge = _default_judges(references, console)
    judges = parse_judges(options.judge)
    _advise(judges, systems, references, chosen_by, options, console)
    return _run(options, judges, systems, sources, references, chosen_by, console)


def _check(options: argparse.Namespace) -> None:
    """Refuse what makes no sense and fill in what was left out; nothing is read or loaded yet."""
    if not options.systems:
        raise UsageError("no outputs to judge; give --systems NAME=FILE, files, or a folder")
    words = [*options.systems, *(options.references or []), *([] if options.sources is None else [options.sources])]
    if not all(map(str.strip, words)):
        raise UsageError("--systems, --sources and --references need names of files; found an empty word")
    given = [word.rpartition("=")[2] for word in options.systems] + words[len(options.systems) :]
    if given.count("-") > 1:
        raise UsageError("only one of --systems, --sources and --references can be standard input")
    check_numbers(options, from_zero=("bootstrap", "trials", "seed"), positive=("threads", "batch_tokens"))
    if not options.judge and not options.references:
        from mbr.evaluate.judges import WITHOUT_REFERENCES

        raise UsageError(
            f"the default judges ({', '.join(DEFAULT_JUDGES)}) need references; give --references FILE, "
            f"or --sources FILE and a --judge that needs none: {WITHOUT_REFERENCES}"
        )
    files = [path for path in (options.output, options.segments) if path is not None]
    if "" in files:
        raise UsageError("--output and --segments need the name of a file")

    from candidates.command.config import config_path
    from candidates.common.text import refuse_overwrite, regular_target

    targets = [regular_target(Path(path)) for path in files]  # before the work, not after it
    if len(set(targets)) < len(targets):
        raise UsageError("--output and --segments name the same file")
    if options.output is not None and regular_target(config_path(Path(options.output))) in targets:
        raise UsageError("--segments names the file beside --output that holds the options; give another name")
    for path in files:
        refuse_overwrite(Path(path), force=options.force)


def _default_judges(references: Sequence[Texts], console: Console) -> list[str]:
    """TER only where there are words to count, and not so many that it takes very long."""
    from mbr.evaluate.lexical import unspaced

    texts = references[0].texts
    without = [name for name in DEFAULT_JUDGES if name != "ter"]
    if found := unspaced(texts):
        console.info(f"ter is left out: it counts words by spaces, and the references look {found[0]}")
        return without
    average = sum(len(text.split()) for text in texts) / max(len(texts), 1)
    if average <= LONG_FOR_TER:
        return list(DEFAULT_JUDGES)
    console.info(f"ter is left out: segments of {average:.0f} words take it seconds each; ask for it with --judge ter")
    return without


def _advise(
    judges: Sequence[JudgeSpec],
    systems: dict[str, Texts],
    references: Sequence[Texts],
    chosen_by: dict[str, list[str]],
    options: argparse.Namespace,
    console: Console,
) -> None:
    """Say beforehand what a user might wish to have known."""
    from mbr.evaluate.evaluation import FEW_SEGMENTS, same_family
    from mbr.evaluate.judges import JudgeSpec
    from mbr.evaluate.lexical import unspaced

    names = {judge.name for judge in judges}
    segments = len(next(iter(systems.values())).texts)
    if 0 < segments < FEW_SEGMENTS:
        console.info(f"few segments ({segments}): intervals and tests mean little")
    if 0 < options.bootstrap < FEW_DRAWS:
        console.warn(f"few draws (--bootstrap {options.bootstrap}): intervals mean little; give 1000, or 0 for none")
    if references and (found := unspaced(references[0].texts)):
        language, tokenizer = found
        if "bleu" in names and options.tokenize == "13a":
            console.warn(f"bleu: the references look {language}; count words with --tokenize {tokenizer}")
        if spaced := [name for name in ("chrf++", "ter") if name in names]:
            console.warn(
                f"{', '.join(spaced)}: the references look {language}, and words are counted by spaces here; "
                f"better use chrf, or bleu with --tokenize {tokenizer}"
            )
    learned = [
        f"{name} ({' after '.join(found)})"
        for name, found in chosen_by.items()
        if not all(same_family(utility, JudgeSpec("chrf")) or utility == "logprob" for utility in found)
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
    from mbr.cache.judgements import Cache
    from mbr.cli.common.layout import counted
    from mbr.evaluate import evaluate

    began = time.monotonic()
    with ExitStack() as stack:
        cache = None if options.no_cache else stack.enter_context(Cache(tell=console.warn))
        done = evaluate(
            {name: file.texts for name, file in systems.items()},
            judges,
            sources=None if sources is None else sources.texts,
            references=[one.texts for one in references],
            baseline=options.baseline,
            draws=options.bootstrap,
            trials=options.trials,
            seed=options.seed,
            chosen_by=chosen_by,
            tokenize=options.tokenize,
            options=model_options(options),
            cache=cache,
            progress=console.shows_progress,
            tell=console.info,
            tell_failure=console.warn,
        )
    _write(done, options)
    failed = [judge for judge in done.judges if judge.error is not None]
    console.info(
        f"{counted(len(done.systems), 'system')}, {counted(done.segments, 'segment')}, "
        f"{counted(len(done.judges), 'judge')}{f' ({len(failed)} failed)' if failed else ''} "
        f"in {time.monotonic() - began:.1f} s",
        systems=len(done.systems),
        segments=done.segments,
        judges=len(done.judges),
        failed=len(failed),
    )
    for judge in failed:
        if not isinstance(judge.error, (MbrError, MemoryError, OSError)):
            traceback.print_exception(judge.error)
    return done.exit_code()


def _write(done: Evaluation, options: argparse.Namespace) -> None:
    from candidates.command.config import save_config
    from candidates.common.text import atomic_output
    from mbr.cli.common.layout import WIDTH
    from mbr.cli.evaluate.tables import render, segment_lines
    from mbr.evaluate.evaluation import reason_of

    # The terminal's width, or $COLUMNS.
    width = shutil.get_terminal_size((WIDTH, 0)).columns if options.output is None else WIDTH
    text = render(done, options.format, width)
    if options.segments is not None:
        with atomic_output(options.segments, force=options.force) as stream:
            for line in segment_lines(done):
                stream.write(line.encode())
    if options.output is None:
        sys.stdout.write(text)
        sys.stdout.flush()
        return
    with atomic_output(options.output, force=options.force) as stream:
        stream.write(text.encode())
    failed = [judge for judge in done.judges if judge.error is not None]
    said = [judge.identity for judge in done.judges if judge.error is None]
    said += [f"{judge.label} failed: {reason_of(judge.error)}" for judge in failed if judge.error is not None]
    # A judge that failed has failed on all segments.
    save_config(Path(options.output), options, " ".join(" ".join(said).split()), done.segments if failed else 0)


def _list_judges() -> int:
    from mbr.evaluate.judges import JudgeSpec, judge_names

    rows = [("name", "what it is", "family", "better", "reference", "licence")]
    for name in judge_names():
        spec = JudgeSpec(name)
        reference = "needed" if spec.needs_reference else "none" if spec.texts(1) == 2 else "used"
        better = "lower" if spec.lower_is_better else "higher"
        rows.append((name, spec.summary, spec.family, better, reference, spec.licence))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
    return 0
