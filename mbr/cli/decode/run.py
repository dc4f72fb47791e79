"""One run of mbr-decode: candidate lists, or text and a generator, in; decisions out.

Window by window the decisions go to the output and the files beside it, which survive a kill, and to the tally.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from candidates.cli import generate_lists, show_counts, show_notices
from candidates.command.config import save_config
from candidates.command.console import Console, going_on
from candidates.command.journal import beside
from candidates.command.progress import segment_bar
from candidates.command.sink import Sink
from candidates.command.streams import answers_lines
from candidates.common.arrivals import nothing_arrives, with_pauses
from candidates.common.words import counted
from candidates.formats import Record, guess_format
from candidates.generation import Generator
from mbr.cache.log import ScoreLog
from mbr.cli.common.shards import LINES, Piece, Shard
from mbr.cli.decode.companions import Companions
from mbr.cli.decode.records import header, render
from mbr.cli.decode.report import RunReport, TimedDecoder, timed, write_report
from mbr.cli.decode.tally import Tally
from mbr.decide import Decision
from mbr.pipeline import Decoder
from mbr.recipe import recipe_mapping
from mbr.signature import Signature

if TYPE_CHECKING:
    from mbr.ray.runner import ClusterRun


def decode_into_sink(
    decoder: Decoder,
    lists: Any,
    generator: Generator | None,
    options: argparse.Namespace,
    console: Console,
    cluster: ClusterRun | None = None,
) -> int:
    """Decode the lists, or the lists that the generator makes of the sources; returns the exit code.

    A `cluster` decides where there is one, else the decoder itself.
    """
    signature = _signature(decoder, generator, options)
    output = Path(options.output) if options.output else None
    settings = _settings(signature, options)
    head = header(options.format)
    files = Companions(options, settings, head, [term.name for term in decoder.recipe.terms])
    tally, report = Tally(), RunReport()
    decoder = timed(decoder, report.clock)
    with ExitStack() as stack:
        sink = Sink(output, files.publishers, settings, resume=options.resume, force=options.force)
        stack.enter_context(going_on(sink.way_on))
        stack.enter_context(sink)
        log = None
        if output and decoder.recipe.budget_total is not None:
            path = beside(output, ".scores")
            log = ScoreLog(path, json.dumps(settings), resume=options.resume, force=options.force, warn=console.warn)
            decoder = replace(decoder, memory=stack.enter_context(log))
        bar = stack.enter_context(segment_bar(console, _one_per_line(options), done=sink.done))
        sink.begin(head, *files.heads)
        for window, segments in _windows(decoder, lists, generator, options, sink, cluster):
            if generator is not None:
                show_notices(generator, console)
            with report.clock.stage("writing"):
                lines = b"".join(render(decision, options.format, options.top) for decision in window)
                failed = sum(decision.error is not None for decision in window)
                chunks = files.chunks(window, Piece.of(sink.written, segments, lines))
                sink.write(lines, chunks, segments=segments, failed=failed)
            tally.add(window, console)
            report.add(window)
            bar.update(segments)
            if cluster:
                bar.set_postfix_str(cluster.summary.rates())
        if log is not None:
            log.remove()
        sink.end(files.ends)
        if options.report:
            more = {"done_before": sink.before} | ({"routed": files.routed} if options.route else {})
            content = report.content(decoder, signature, more, options.price_per_hour)
            write_report(Path(options.report), content)
        resolved = {"recipe": recipe_mapping(decoder.recipe)}
        sink.finish(lambda count: save_config(cast(Path, output), options, str(signature), count, resolved))
    if generator is not None:
        show_counts(generator, console)
    if not sink.written:
        console.warn_of_nothing(options.candidates or options.sources, "list" if generator is None else "line of text")
    if options.route:
        console.info(f"{counted(files.routed, 'segment')} routed to {options.route_output}", routed=files.routed)
    tally.report(console, signature, done_before=sink.before, reports=() if cluster else decoder.reports())
    return 1 if tally.failed or sink.failed_before else 0


def _windows(
    decoder: Decoder,
    lists: Any,
    generator: Generator | None,
    options: argparse.Namespace,
    sink: Sink,
    cluster: ClusterRun | None,
) -> Iterator[tuple[Sequence[Decision], int]]:
    """The decisions of each window, and how many segments of the input it has: those of other shards have none."""
    path = options.candidates or options.sources
    shard = None if options.shard is None else Shard.parse(options.shard)
    arriving = not (shard or cluster) and answers_lines(path, options.output, options.line_buffered)
    if generator is not None:
        keep = None if shard is None else shard.has_line
        records: Iterator[Any] = generate_lists(generator, options.sources, sink, arriving=arriving, keep=keep)
    elif shard is not None:
        records = sink.checked(lists)
    else:
        records = with_pauses(sink.remaining(lists), nothing_arrives) if arriving else sink.remaining(lists)
    records = cast(TimedDecoder, decoder).clock.items("input", records)
    if shard is None:
        windows = cluster.windows(decoder, records) if cluster else decoder.windows(records)
        return ((window, len(window)) for window in windows)
    if generator is None:
        return _windows_of_shard(decoder, records, shard, sink.done)
    return _lines_of_shard(decoder, records, shard, sink.done)


def _windows_of_shard(
    decoder: Decoder, records: Iterator[Record], shard: Shard, done: int
) -> Iterator[tuple[Sequence[Decision], int]]:
    """Every window is cut, as in one run; those done before, and those of other shards, are not decided."""
    read = 0
    for number, window in enumerate(decoder.cut(records)):
        read += len(window)
        if read > done:
            yield decoder.decide(window) if shard.has(number) else (), len(window)


def _lines_of_shard(
    decoder: Decoder, records: Iterator[Record], shard: Shard, done: int
) -> Iterator[tuple[Sequence[Decision], int]]:
    """The same for text: windows end with their block of lines, and the lines of other shards have no candidates."""
    for block, numbered in groupby(enumerate(records, done), key=lambda entry: entry[0] // LINES):
        lists = (record for _, record in numbered)
        if shard.has(block):
            for window in decoder.cut(lists):
                yield decoder.decide(window), len(window)
        else:
            yield (), sum(1 for _ in lists)


def _one_per_line(options: argparse.Namespace) -> str | None:
    """The input file that has a line for every segment, if there is one."""
    if options.sources is not None or options.candidates is None:
        return cast(str | None, options.sources)
    jsonl = (options.input_format or guess_format(options.candidates)) == "jsonl"
    return options.candidates if jsonl else None


def _signature(decoder: Decoder, generator: Generator | None, options: argparse.Namespace) -> Signature:
    """The signature of the decoder, with the settings that generated the candidates."""
    if generator is None:
        return decoder.signature(options.nbest)
    made = generator.described()
    fields = dict(decoder.signature(made.pop("nbest")))
    version = fields.pop("version")
    return Signature({**fields, "translator": made.pop("model"), **made, "version": version})


def _settings(signature: Signature, options: argparse.Namespace) -> dict[str, Any]:
    """Settings that must be the same for a run to continue an interrupted one."""
    settings = {"signature": str(signature), "format": options.format, "top": options.top, "on-error": options.on_error}
    settings |= {name: getattr(options, name) for name in ("route", "shard")}
    # These may change the last digit of a score.
    return settings | {name: getattr(options, name) for name in ("batch_tokens", "device", "threads")}
