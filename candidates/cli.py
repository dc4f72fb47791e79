"""mbr-generate: source sentences in, candidate lists out; also converts transformers models to CTranslate2 folders."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from candidates.command.config import finished_with, save_config, with_config
from candidates.command.console import Console, Parser, add_message_options, going_on
from candidates.command.model_options import OPTIONS
from candidates.command.outputs import check_outputs, input_models
from candidates.command.streams import add_line_option, answers_lines
from candidates.common.arrivals import PAUSE, Pause, nothing_arrives
from candidates.common.errors import InputError, UsageError
from candidates.common.words import counted
from candidates.formats import (
    OUTPUT_FORMATS,
    BadRecord,
    Record,
    guess_format,
    render_failure,
    render_header,
    render_list,
)
from candidates.options import add_generation_options, generator_of

if TYPE_CHECKING:
    from candidates.command.sink import Sink
    from candidates.generation import Generator

QUICK_START = """\
quick start:
  echo "Tom told me that he wanted to meet my parents." | mbr-generate --nbest 10
  mbr-generate --sources src.txt --method epsilon -o lists.jsonl
  mbr-generate --convert Helsinki-NLP/opus-mt-en-fr -o opus-en-fr  # downloads 0.3 GB; then --model opus-en-fr"""


def parser() -> Parser:
    p = Parser(
        "mbr-generate",
        "Generate a list of candidate translations for each source sentence.",
        QUICK_START,
        file_option=lambda name: "--sources",
        failed="some segments failed (--on-error skip)",
    )
    g = p.add_argument_group("input and output")
    g.add_argument("--sources", metavar="FILE", default="-", help="one source per line; - is standard input")
    g.add_argument(
        "-o", "--output", metavar="FILE", help="output file (default: standard output); it appears when complete"
    )
    g.add_argument("--format", choices=OUTPUT_FORMATS, help="output format (default: by the file's name, else jsonl)")
    g.add_argument("--nbest", type=int, metavar="N", default=100, help="candidates per source")
    g.add_argument("--seed", type=int, default=1, help="seed of the samples")
    g.add_argument("--force", action="store_true", help="overwrite existing files, discard an interrupted run")
    g.add_argument("--resume", action="store_true", help="continue an interrupted run (needs -o)")
    g.add_argument(
        "--on-error",
        choices=("stop", "skip"),
        default="stop",
        help="a segment without candidates: stop, or write an empty list and continue",
    )
    add_line_option(g)
    add_generation_options(p, short_names=True)
    g = p.add_argument_group("run")
    g.add_argument("--device", help="auto, cpu, cuda, cuda:N (default: auto)")
    g.add_argument("--threads", **OPTIONS["threads"])
    g.add_argument("--convert", metavar="MODEL", help="convert a transformers folder or hub name to the folder -o")
    g.add_argument("--config", metavar="FILE.yaml", help="options from a file; flags override it")
    add_message_options(p)
    return p


def command(argv: Sequence[str] | None = None) -> int:
    p = parser()
    options = p.parse_args(with_config(p, sys.argv[1:] if argv is None else argv))
    console = Console("mbr-generate", quiet=options.quiet, verbose=options.verbose, log_format=options.log_format)
    if options.convert is not None:
        return _convert(options, console)
    if options.resume and not options.output:
        raise UsageError("--resume needs an output file (-o FILE)")
    check_outputs(
        {"output": options.output},
        inputs=[options.sources, *input_models(options.translator)],
        config=options.config,
        force=options.force,
        journaled=True,
        resume=options.resume,
    )
    options.format = options.format or _format_of(options.output)
    output = Path(options.output) if options.output else None
    if options.resume and not options.force and output is not None:
        failed = finished_with(output, options, [])
        if failed is not None:
            console.info(f"{output} is complete; nothing to resume")
            return 1 if failed else 0
    console.announce_typing(options.sources)
    with generator_of(options) as generator:
        return _generate(generator, options, output, console)


def read_sources(path: str) -> Iterator[str]:
    """Source sentences, one per line, streaming."""
    from candidates.common.text import lines

    return (text for _, text in lines(path))


def generate_lists(
    generator: Generator,
    path: str,
    sink: Sink,
    *,
    arriving: bool = False,
    keep: Callable[[int], bool] | None = None,
) -> Iterator[Record | Pause]:
    """The lists of the sources that are not done yet.

    Args:
        generator, path, sink: what makes them, of which text, and where they go.
        arriving: with a mark wherever no further line is at hand.
        keep: which lines, counted from 0, are translated; the others are taken as blank, so that all keep their places.
    """
    sources = sink.checked(read_sources(path))
    if keep is not None:
        sources = (source if keep(place) else "" for place, source in enumerate(sources))
    if arriving:
        return generator.generate_arriving(sources, nothing_arrives, skip=sink.done)
    return generator.generate(sources, skip=sink.done)


def show_notices(generator: Generator, console: Console) -> None:
    """Show the notices of the generator so far."""
    while generator.notices:
        console.warn(generator.notices.popleft())


def show_counts(generator: Generator, console: Console) -> None:
    """Show what happened to several sources or candidates of a run."""
    if generator.split_sources and generator.first_split is not None:
        count = generator.split_sources
        console.info(
            f"{count} {'line holds' if count == 1 else 'lines hold'} several sentences (the first: line "
            f"{generator.first_split + 1}); each sentence was translated by itself (--no-split-sentences translates "
            "lines as a whole)",
            split_sources=count,
        )
    if generator.cut_off:
        console.warn(
            f"{counted(generator.cut_off, 'candidate was', 'candidates were')} cut off before the end, at --max-length "
            f"{generator.settings.max_length} or where the model's positions end",
            cut_off=generator.cut_off,
        )


def _generate(generator: Generator, options: argparse.Namespace, output: Path | None, console: Console) -> int:
    from candidates.command.progress import segment_bar
    from candidates.command.sink import Sink

    settings = generator.described()
    nbest = generator.settings.nbest
    journaled = {**settings, "format": options.format, "on-error": options.on_error}
    began = time.monotonic()
    segments = candidates = unique = failed = failed_so_far = 0
    with ExitStack() as stack:
        sink = Sink(output, [], journaled, resume=options.resume, force=options.force)
        stack.enter_context(going_on(sink.way_on))
        stack.enter_context(sink)
        bar = stack.enter_context(segment_bar(console, options.sources, done=sink.done))
        sink.begin(render_header(options.format))
        index = sink.done
        arriving = answers_lines(options.sources, options.output, options.line_buffered)
        for record in generate_lists(generator, options.sources, sink, arriving=arriving):
            show_notices(generator, console)
            if record is PAUSE:
                continue
            try:
                if isinstance(record, BadRecord):
                    raise record.error
                content = render_list(record, options.format, index, lines=nbest)
                candidates, unique = candidates + sum(record.counts), unique + len(record)
            except InputError as exc:
                if options.on_error == "stop":
                    raise
                console.warn(str(exc))
                failed += 1
                content = render_failure(BadRecord(record.id, exc, record.source), options.format, nbest)
            sink.write(content, [], segments=1, failed=failed - failed_so_far)
            index, segments, failed_so_far = index + 1, segments + 1, failed
            bar.update()
        if output is not None:
            sink.finish(lambda count: save_config(output, options, _signature(settings), count))
    show_counts(generator, console)
    if not segments and not sink.done:
        console.warn_of_nothing(options.sources, "line of text")
    seconds = time.monotonic() - began
    console.info(
        f"{counted(candidates, 'candidate')} ({unique:,} distinct) for {counted(segments - failed, 'source')} "
        f"in {seconds:.1f} s"
        + (f"; {counted(failed, 'source')} failed" if failed else "")
        + (f"; {counted(sink.before, 'source')} done before" if sink.before else ""),
        segments=segments,
        candidates=candidates,
        unique=unique,
        failed=failed,
        seconds=round(seconds, 3),
    )
    console.info(_signature(settings))
    return 1 if failed or sink.failed_before else 0


def _signature(settings: dict[str, object]) -> str:
    parts = {**settings, "version": version("mbr-decode")}
    return "|".join(["GENERATE", *(f"{name}:{value}" for name, value in parts.items())])


def _format_of(output: str | None) -> str:
    try:
        return guess_format(output or "-")
    except UsageError:
        return "jsonl"


def _convert(options: argparse.Namespace, console: Console) -> int:
    from candidates.backends.convert import QUANTIZATIONS, convert

    quantization = options.translator_compute_type or "int8"
    if quantization not in QUANTIZATIONS:
        expected = ", ".join(QUANTIZATIONS)
        raise UsageError(f"--compute-type {quantization} is not a type to convert to; expected one of {expected}")
    if not options.output:
        raise UsageError("--convert needs a folder to write (-o FOLDER)")
    convert(options.convert, Path(options.output), quantization=quantization, force=options.force)
    console.info(f"{options.output} is ready: mbr-generate --model {options.output}")
    return 0
