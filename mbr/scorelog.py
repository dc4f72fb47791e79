"""Scores that survive a kill, for a run whose decisions all come at its end.

With a budget for all lists together nothing is decided before everything is scored, so no output can be committed on
the way. But a strategy asks for the same pairs again if it is given the same scores: so every answer is written down
as it comes, and a resumed run reads the answers off until they end, then goes on with the model.

File: a line of settings, then per request a digest of its pairs (16 bytes), their number (8) and their scores (4 each).
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, Any, Self

import numpy as np
from numpy.typing import NDArray

from candidates.text import disk_errors

Triple = tuple[str, str, str]
Scores = NDArray[np.float32]
DIGEST, COUNT = 16, 8


class ScoreLog:
    """The answers so far. Use it with `with`, and `remove` it when the run is complete.

    With `resume`, answers of a run with the same `settings` (one line) are given again; else they are forgotten.
    """

    def __init__(self, path: Path, settings: str, *, resume: bool) -> None:
        self._path = path
        head = settings.replace("\n", " ").encode() + b"\n"
        with disk_errors(path):
            known = resume and path.exists() and _starts_with(path, head)
            self._file: IO[bytes] = path.open("r+b" if known else "w+b")
            if known:
                self._file.seek(len(head))
            else:
                self._file.write(head)

    def score(self, triples: Sequence[Triple], compute: Callable[[Sequence[Triple]], Any]) -> Scores:
        """The scores of these pairs: as written down, or computed and written down."""
        digest = _digest(triples)
        size = DIGEST + COUNT + 4 * len(triples)
        begins = self._file.tell()
        with disk_errors(self._path):
            record = self._file.read(size)
            if len(record) == size and record[: DIGEST + COUNT] == digest + len(triples).to_bytes(COUNT, "little"):
                return np.frombuffer(record, "<f4", offset=DIGEST + COUNT).astype(np.float32)
            self._file.seek(begins)
            self._file.truncate()
        scores = np.asarray(compute(triples), np.float32)
        if scores.shape == (len(triples),):  # else somebody else will complain
            with disk_errors(self._path):
                self._file.write(digest + len(triples).to_bytes(COUNT, "little") + scores.astype("<f4").tobytes())
                self._file.flush()
                os.fsync(self._file.fileno())
        return scores

    def remove(self) -> None:
        self._file.close()
        self._path.unlink(missing_ok=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *details: object) -> None:
        self._file.close()


def _starts_with(path: Path, head: bytes) -> bool:
    with path.open("rb") as file:
        return file.read(len(head)) == head


def _digest(triples: Sequence[Triple]) -> bytes:
    found = hashlib.blake2b(digest_size=DIGEST)
    for triple in triples:
        found.update("\0".join(triple).encode() + b"\n")
    return found.digest()
