"""Scores that survive a kill, for a run whose decisions all come at its end.

With a budget for all lists together nothing is decided before everything is scored, so no output can be committed on
the way. But a strategy that receives the same scores requests the same pairs again: so the scores of every request are
logged, and a resumed run reads them from the log until it ends, then continues with the model.

File: a line of settings, then per request a digest of its pairs (16 bytes), their number (8), their scores (4 each) and
a checksum of all that (4).
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, Any, Self

import numpy as np
from numpy.typing import NDArray

from candidates.common.errors import UsageError
from candidates.common.store import CHECKSUM, Warn, sealed, unsealed
from candidates.common.text import disk_errors

Row = tuple[str, ...]
Scores = NDArray[np.float32]
HEAD = b"mbr-decode scores: "
DIGEST, COUNT = 16, 8


class ScoreLog:
    """The scores so far. Use it with `with`, and `remove` it when the run is complete.

    With `resume`, scores of a run with the same `settings` (one line) are returned again. Scores of an interrupted run
    are not lost without `resume` or `force`, and a file that is not a log is never touched without `force`. The file
    appears with the first scores. From the first damaged record on scores are computed again, and `warn` receives
    where it was.
    """

    def __init__(
        self,
        path: Path,
        settings: str,
        *,
        resume: bool = False,
        force: bool = False,
        warn: Warn = lambda message: None,
    ) -> None:
        self._path = path
        self._warn = warn
        self._head = HEAD + settings.replace("\n", " ").encode() + b"\n"
        self._file: IO[bytes] | None = None
        if not path.exists() or force:
            path.unlink(missing_ok=True)
            return
        with disk_errors(path), path.open("rb") as file:
            head = file.readline()
        if not head.startswith(HEAD):
            raise UsageError(f"{path} is in the way: the scores of this run go there; move it or give --force")
        if not resume:
            raise UsageError(
                f"{path} holds the scores of an interrupted run; give --resume to continue or --force to discard it"
            )
        if head != self._head:
            raise UsageError(f"{path}: the interrupted run had other settings; give --force to discard it")
        self._file = path.open("r+b")
        self._file.seek(len(head))

    def _opened(self) -> IO[bytes]:
        if self._file is None:
            with disk_errors(self._path):
                self._file = self._path.open("w+b")
                self._file.write(self._head)
        return self._file

    def score(self, rows: Sequence[Row], compute: Callable[[Sequence[Row]], Any]) -> Scores:
        """The scores of these pairs: from the log, or computed and logged."""
        head = _digest(rows) + len(rows).to_bytes(COUNT, "little")
        if self._file is not None and (logged := self._next(head, len(rows))) is not None:
            return logged
        scores = np.asarray(compute(rows), np.float32)
        if scores.shape == (len(rows),):  # else the caller raises an error
            file = self._opened()
            with disk_errors(self._path):
                file.write(sealed(b"", head + scores.astype("<f4").tobytes()))
                file.flush()
                os.fsync(file.fileno())
        return scores

    def _next(self, head: bytes, count: int) -> Scores | None:
        """The scores of the next record if it is this request's; else the log is cut off here."""
        assert self._file is not None
        start, size = self._file.tell(), len(head) + 4 * count + CHECKSUM
        record = self._file.read(size)
        try:
            if record.startswith(head):
                return np.frombuffer(unsealed(b"", record), "<f4", offset=len(head)).astype(np.float32)
        except ValueError:
            pass
        self._file.seek(start)
        self._file.truncate()
        if len(record) == size:  # else the end, or a record that a kill cut off
            self._warn(f"{self._path}: the scores from byte {start} on are damaged; they are computed again")
        return None

    def blocks(self, keys: Sequence[Sequence[str]], compute: Callable[[Sequence[int]], list[Scores]]) -> list[Scores]:
        """Matrices are not logged but computed again: utilities that compute them are fast."""
        return compute(range(len(keys)))

    def remove(self) -> None:
        if self._file is not None:
            self._file.close()
            self._path.unlink(missing_ok=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *details: object) -> None:
        if self._file is not None:
            self._file.close()


def _digest(rows: Sequence[Row]) -> bytes:
    digest = hashlib.blake2b(digest_size=DIGEST)
    for row in rows:
        digest.update("\0".join(row).encode() + b"\n")
    return digest.digest()
