"""One run of mbr-decode: candidate lists, or text and a generator, in; decisions out.

Window by window the decisions go to the output and the files beside it, which survive a kill, and to the tally.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from candidates.cli import generate_lists, show_counts, show_notices
from candidates.command.config import save_config
from candidates.command.console import Console, going_on
from candidates.command.journal import Publisher, beside, publish_as_is
from candidates.command.progress import segment_bar
from candidates.command.sink import Sink
from candidates.command.streams import answers_lines
from candidates.common.arrivals import nothing_arrives, with_pauses
from candidates.common.errors import InputError
from candidates.formats import BadRecord, guess_format, render_failure, render_list
from candidates.generation import Generator
from mbr.cache.log import ScoreLog
from mbr.cli.decode.records import header, render
from mbr.cli.decode.tally import Tally
from mbr.decide import Decision
from mbr.matrix import publish_matrices
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
    """Decode the lists, or those that the generator makes of the sources; returns the exit code.

    A `cluster` decides where there is one, else the decoder itself.
    """
    signature = _signature(decoder, generator, options)
    output = Path(options.output) if options.output else None
    files = _Companions(options)
    tally = Tally()
    arriving = cluster is None and answers_lines(
        options.candidates or options.sources, options.output, options.line_buffered
    )
    with ExitStack() as stack:
        settings = _settings(signature, options)
        sink = Sink(output, files.publishers, settings, resume=options.resume, force=options.force)
        stack.enter_context(going_on(sink.way_on))
        stack.enter_context(sink)
        log = None
        if output and decoder.recipe.budget_total is not None:
            path = beside(output, ".scores")
            log = ScoreLog(path, json.dumps(settings), resume=options.resume, force=options.force, warn=console.warn)
            decoder = replace(decoder, memory=stack.enter_context(log))
        bar = stack.enter_context(segment_bar(console, _one_per_line(options), done=sink.done))
        sink.begin(header(options.format), *(b"" for _ in files.publishers))
        if generator is not None:
            records: Any = generate_lists(generator, options.sources, sink, arriving=arriving)
        else:
            records = with_pauses(sink.remaining(lists), nothing_arrives) if arriving else sink.remaining(lists)
        for window in cluster.windows(decoder, records) if cluster else decoder.windows(records):
            if generator is not None:
                show_notices(generator, console)
            lines = b"".join(render(decision, options.format, options.top) for decision in window)
            failed = sum(decision.error is not None for decision in window)
            sink.write(lines, files.chunks(window), segments=len(window), failed=failed)
            tally.add(window, console)
            bar.update(len(window))
            if cluster:
                bar.set_postfix_str(cluster.summary.rates())
        if log is not None:
            log.remove()
        resolved = {"recipe": recipe_mapping(decoder.recipe)}
        sink.finish(lambda count: save_config(cast(Path, output), options, str(signature), count, resolved))
    if generator is not None:
        show_counts(generator, console)
    if not tally.segments and not sink.done:
        console.warn_of_nothing(options.candidates or options.sources, "list" if generator is None else "line of text")
    tally.report(console, signature, done_before=sink.before)
    return 1 if tally.failed or sink.failed_before else 0


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
    # These may change the last digit of a score.
    return settings | {name: getattr(options, name) for name in ("batch_tokens", "device", "threads", "backend")}


class _Companions:
    """The files beside the output: matrices, and the candidate lists that were made."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._matrix = options.matrix is not None
        self._lists = options.save_candidates is not None
        self.publishers: list[tuple[Path, Publisher]] = []
        if options.matrix:
            self.publishers.append((Path(options.matrix), publish_matrices))
        if options.save_candidates:
            self.publishers.append((Path(options.save_candidates), publish_as_is))

    def chunks(self, window: Sequence[Decision]) -> list[bytes]:
        """The bytes that a window adds to each file."""
        chunks = []
        if self._matrix:
            chunks.append(b"".join(decision.matrix.pack() for decision in window if decision.matrix))
        if self._lists:
            chunks.append(b"".join(_list_of(decision) for decision in window))
        return chunks


def _list_of(decision: Decision) -> bytes:
    """The candidates behind a decision, as JSONL."""
    if decision.candidates is not None:
        return render_list(decision.candidates, "jsonl", 0)
    return render_failure(BadRecord(decision.id, InputError(decision.error or ""), decision.source), "jsonl", 0)
