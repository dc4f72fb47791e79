"""One run of mbr-decode: candidate lists, or text and a generator, in; decisions out.

Window by window the decisions go to the output and the files beside it, which survive a kill, and to the tally.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from tqdm import tqdm

from candidates.cli import read_sources, show_cut_off, show_notices
from candidates.command.config import save_config
from candidates.command.console import Console
from candidates.command.journal import Publisher, beside, publish_as_is
from candidates.command.sink import Sink
from candidates.common.errors import InputError
from candidates.formats import BadRecord, Record, render_failure, render_list
from candidates.generation import Generator
from mbr.cache.log import ScoreLog
from mbr.cli.decode.records import header, render
from mbr.cli.decode.tally import Tally
from mbr.decide import Decision
from mbr.matrix import publish_matrices
from mbr.pipeline import Decoder
from mbr.recipe import recipe_mapping
from mbr.signature import Signature

Windows = Callable[[Decoder, Iterable[Record]], Iterator[list[Decision]]]


def decode_into_sink(
    decoder: Decoder,
    lists: Any,
    generator: Generator | None,
    options: argparse.Namespace,
    console: Console,
    windows: Windows = Decoder.windows,
) -> int:
    """Decode the lists, or those that the generator makes of the sources; returns the exit code.

    `windows` decides: the decoder itself, or a cluster on which it has copies.
    """
    signature = _signature(decoder, generator, options)
    output = Path(options.output) if options.output else None
    files = _Companions(options)
    tally = Tally()
    with ExitStack() as stack:
        settings = _settings(signature, options)
        sink = stack.enter_context(Sink(output, files.publishers, settings, resume=options.resume, force=options.force))
        log = None
        if output and decoder.recipe.budget_total is not None:
            path = beside(output, ".scores")
            log = ScoreLog(path, json.dumps(settings), resume=options.resume, force=options.force)
            decoder = replace(decoder, memory=stack.enter_context(log))
        bar = stack.enter_context(tqdm(unit=" segments", disable=not console.shows_progress, leave=False))
        sink.begin(header(options.format), *(b"" for _ in files.publishers))
        if generator is None:
            records = sink.remaining(lists)
        else:
            records = generator.generate(sink.checked(read_sources(options.sources)), skip=sink.done)
        for window in windows(decoder, records):
            if generator is not None:
                show_notices(generator, console)
            lines = b"".join(render(decision, options.format, options.top) for decision in window)
            failed = sum(decision.error is not None for decision in window)
            sink.write(lines, files.chunks(window), segments=len(window), failed=failed)
            tally.add(window, console)
            bar.update(len(window))
        if log is not None:
            log.remove()
        resolved = {"recipe": recipe_mapping(decoder.recipe)}
        sink.finish(lambda count: save_config(cast(Path, output), options, str(signature), count, resolved))
    if generator is not None:
        show_cut_off(generator, console)
    tally.report(console, signature)
    return 1 if tally.failed or sink.failed_before else 0


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
