"""Where a command's results go: standard output, or files that survive a kill.

The first file is the output itself, parallel to standard output; others hold what goes with it (matrices, candidate
lists). All grow together, segment by segment, and appear under their names together at the end.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Self, TypeVar

from candidates.command.journal import Journal, Publisher, publish_as_is
from candidates.common.words import counted

Item = TypeVar("Item")


class Sink:
    """Open it with `with`; then `begin`, any number of `write`, and `finish`."""

    def __init__(
        self,
        output: Path | None,
        others: Sequence[tuple[Path, Publisher]],
        settings: dict[str, Any],
        *,
        resume: bool,
        force: bool,
    ) -> None:
        self._output = output
        self._publishers = [*([publish_as_is] if output else []), *(publisher for _, publisher in others)]
        files = [*([output] if output else []), *(path for path, _ in others)]
        settings = settings | {"files": len(files)}
        self._journal = (
            Journal(files, settings, resume=resume, force=force, keep_on_error=output is not None) if files else None
        )
        # A resumed run ends with the exit code of an uninterrupted one.
        self.failed_before = self._journal.last.failed if self._journal else 0
        self.before = self._journal.last.segments if self._journal else 0  # segments done in an interrupted run
        self.written = self.before  # and those written since

    def __enter__(self) -> Self:
        if self._journal:
            self._journal.__enter__()
        return self

    def __exit__(self, *details: Any) -> None:
        if self._journal:
            self._journal.__exit__(*details)

    def way_on(self) -> str | None:
        """After an interruption: how to continue; None where nothing was kept."""
        done = self._journal.last.segments if self._journal and self._output else 0
        if not done:
            return None
        return f"run the same command with --resume to continue ({counted(done, 'segment')} done)"

    @property
    def done(self) -> int:
        """The number of segments that an interrupted run has finished."""
        return self._journal.last.segments if self._journal else 0

    def remaining(self, items: Iterable[Item]) -> Iterator[Item]:
        """The items that are not done yet."""
        return self._journal.skip_done(items) if self._journal else iter(items)

    def checked(self, items: Iterable[Item]) -> Iterator[Item]:
        """All items, those done included, for callers that need their places in the input."""
        return self._journal.checked(items) if self._journal else iter(items)

    def begin(self, header: bytes, *others: bytes) -> None:
        """Headers go out first, unless an interrupted run has written them already."""
        self._headers = [b"" if self.done else head for head in (header, *others)]
        if not self._output:
            sys.stdout.buffer.write(self._headers[0])
            self._headers[0] = b""

    def write(self, lines: bytes, others: Sequence[bytes], *, segments: int, failed: int) -> None:
        """Append the results of the next segments: lines of the output, and bytes for each of the other files."""
        self.written += segments
        if not self._output:
            sys.stdout.buffer.write(lines)
            sys.stdout.buffer.flush()
        if self._journal:
            chunks = [head + chunk for head, chunk in zip(self._headers, [lines, *others], strict=True)]
            self._headers = [b""] * len(chunks)
            self._journal.write(chunks if self._output else chunks[1:], segments, failed)

    def end(self, ends: Callable[[int, int, str], Sequence[bytes]]) -> None:
        """Append to the other files what `ends` makes of the segments, those failed, and the input's digest."""
        if self._journal and any(last := ends(self.written, self._journal.failed, self._journal.digest)):
            self.write(b"", last, segments=0, failed=0)

    def finish(self, before_publishing: Callable[[int], None]) -> None:
        """Publish everything; `before_publishing` is called with the number of failed segments if there is a file."""
        if not self._journal:
            return
        if any(self._headers):
            self.write(b"", [b""] * (len(self._headers) - 1), segments=0, failed=0)
        if self._output:
            self._journal.commit()  # a full disk shows before there is anything beside the output
            before_publishing(self._journal.failed)
        self._journal.finish(self._publishers)
