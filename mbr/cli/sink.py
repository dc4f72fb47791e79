"""Where the decisions of mbr-decode go: standard output, or files that survive a kill."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from candidates.config import save_config
from mbr.decide import Decision
from candidates.journal import Journal, publish_as_is
from mbr.matrix import publish_matrices
from mbr.signature import Signature


class Sink:
    """Where decisions go: standard output, or files that survive a kill."""

    def __init__(self, options: argparse.Namespace, signature: Signature) -> None:
        self._options = options
        self._signature = signature
        self._output = Path(options.output) if options.output else None
        self._matrix = Path(options.matrix) if options.matrix else None
        files = [path for path in (self._output, self._matrix) if path is not None]
        settings = {"signature": str(signature), "format": options.format, "top": options.top}
        settings |= {"on-error": options.on_error, "files": len(files)}
        # These change no decision, but perhaps the last digit of a score.
        settings |= {name: getattr(options, name) for name in ("batch_tokens", "device", "threads", "backend")}
        self._journal = (
            Journal(files, settings, resume=options.resume, force=options.force, keep_on_error=self._output is not None)
            if files
            else None
        )
        # A resumed run ends with the exit code of an uninterrupted one.
        self.failed_before = self._journal.last.failed if self._journal else 0

    def __enter__(self) -> Sink:
        if self._journal:
            self._journal.__enter__()
        return self

    def __exit__(self, *details: Any) -> None:
        if self._journal:
            self._journal.__exit__(*details)

    def records(self, records: Iterator[Any]) -> Iterator[Any]:
        return self._journal.skip_done(records) if self._journal else records

    def begin(self, header: bytes) -> None:
        """The header goes out first, unless an interrupted run has written it already."""
        self._header = header if not (self._journal and self._journal.last.segments) else b""
        if not self._output:
            sys.stdout.buffer.write(self._header)
            self._header = b""

    def write(self, lines: bytes, window: Sequence[Decision]) -> None:
        if not self._output:
            sys.stdout.buffer.write(lines)
            sys.stdout.buffer.flush()
        if self._journal:
            chunks = [self._header + lines] if self._output else []
            if self._matrix:
                chunks.append(b"".join(decision.matrix.pack() for decision in window if decision.matrix))
            self._header = b""
            self._journal.write(chunks, len(window), sum(decision.error is not None for decision in window))

    def finish(self) -> None:
        if not self._journal:
            return
        if self._header and self._output:
            self._journal.write([self._header, *([b""] if self._matrix else [])], 0)
        if self._output:
            save_config(self._output, self._options, str(self._signature), self._journal.failed)
        publishers = [publish_as_is] if self._output else []
        self._journal.finish([*publishers, *([publish_matrices] if self._matrix else [])])
