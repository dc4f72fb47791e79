"""An SQLite file of results that were computed once: judgements, scores.

Several processes may use it at once; what was committed survives a kill. A cache never stops a run: a broken file is
moved aside, one that cannot be written is only read, and a warning is given once.
"""

from __future__ import annotations

import hashlib
import sqlite3
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import ClassVar

from candidates.common.closing import Closing

WAIT_SECONDS = 60  # for another process's commit
BROKEN = ("SQLITE_CORRUPT", "SQLITE_NOTADB")

Warn = Callable[[str], None]


class Store(Closing):
    """The file and its failures; subclasses define its tables. `warn` receives a message where the file fails."""

    kept: ClassVar[str]  # what the file holds, for messages
    tables: ClassVar[tuple[str, ...]]

    def __init__(self, path: Path, *, warn: Warn = lambda message: None) -> None:
        self.path = path
        self._warn = warn
        self._connection: sqlite3.Connection | None = None
        self._file = 0
        self._writes = True
        self._open()

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _open(self) -> None:
        """Open the file, or a new one in its place if it is broken."""
        for last in (False, True):
            try:
                self.path.parent.mkdir(parents=True, exist_ok=True)
                connection = sqlite3.connect(self.path, timeout=WAIT_SECONDS)
                try:
                    self._file = self.path.stat().st_ino
                    with connection:
                        for table in self.tables:
                            connection.execute(table)
                    self._connection = connection
                except BaseException:
                    connection.close()
                    raise
                return
            except (sqlite3.Error, OSError) as exc:
                if last or not _is_broken(exc):
                    self._warn(f"{self.kept} are not kept: {self.path}: {exc}")
                    return
                self._move_aside(exc)

    def _do(self, work: Callable[[sqlite3.Connection], None], *, writes: bool = False) -> None:
        """Run `work` on the file. After a failed write the file is only read; after a failed read it is closed."""
        if self._connection is None or (writes and not self._writes):
            return
        try:
            work(self._connection)
        except sqlite3.Error as exc:
            if _is_broken(exc):
                Store.close(self)
                self._move_aside(exc)
                self._open()
                return
            if self._writes:  # else the user was warned already
                self._warn(f"{self.kept} are no longer kept: {self.path}: {exc}")
            self._writes = False
            if not writes:
                Store.close(self)

    def _move_aside(self, reason: Exception) -> None:
        try:
            if self.path.stat().st_ino != self._file:  # another process has put a new one there
                return
            aside = self.path.with_name(f"{self.path.name}.broken-{time.time_ns()}")
            journal = self.path.with_name(self.path.name + "-journal")
            if journal.exists():  # it belongs to the broken file; a new one must not be repaired with it
                journal.rename(aside.with_name(aside.name + "-journal"))
            self.path.rename(aside)
            self._warn(f"{self.path} is broken ({reason}); it was renamed to {aside.name}, and a new one is begun")
        except OSError as exc:
            self._warn(f"{self.path} is broken ({reason}) and cannot be moved aside: {exc}")


def key_of(identity: str, texts: Iterable[str]) -> bytes:
    """A digest of the scorer's identity and the texts, with their lengths, so that no two rows share a key."""
    digest = hashlib.blake2b(digest_size=20)
    for text in (identity, *texts):
        raw = text.encode("utf-8", "surrogatepass")
        digest.update(len(raw).to_bytes(8, "little") + raw)
    return digest.digest()


def _is_broken(error: Exception) -> bool:
    return getattr(error, "sqlite_errorname", "").startswith(BROKEN)
