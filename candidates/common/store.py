"""An SQLite file of results that were computed once: judgements, scores, answers of chat servers.

Several processes may use it at once; what was committed survives a kill. A cache never stops a run: a broken file is
moved aside, one that cannot be written is only read, an entry whose bytes are damaged is deleted and computed again,
and a warning is given once.
"""

from __future__ import annotations

import hashlib
import sqlite3
import time
import zlib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import ClassVar

from candidates.common.closing import Closing

WAIT_SECONDS = 60  # for another process's commit
CHECKSUM = 4  # bytes
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
        self._damaged = 0
        self._open()

    def close(self) -> None:
        if self._damaged > 1:
            self._warn(f"{self.path}: {self._damaged} damaged entries in all were computed again")
        self._damaged = 0
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _open(self) -> None:
        """Open the file, or a new one in its place if it is broken."""
        for last in (False, True):
            try:
                self.path.parent.mkdir(parents=True, exist_ok=True)
                # A subclass that is used by several threads has a lock of its own.
                connection = sqlite3.connect(self.path, timeout=WAIT_SECONDS, check_same_thread=False)
                connection.text_factory = bytes  # all values are bytes; what damage made a text need not be UTF-8
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

    def drop(self, table: str, key: bytes, reason: object) -> None:
        """Delete a damaged entry, so that it is computed again; the first one is named in a warning."""
        self._damaged += 1
        if self._damaged == 1:
            self._warn(
                f"{self.path}: entry {key.hex()} of the {self.kept} is damaged ({reason}); it is dropped and computed "
                "again, as any other damaged one is"
            )

        def delete(connection: sqlite3.Connection) -> None:
            with connection:
                connection.execute(f"DELETE FROM {table} WHERE key = ?", [key])

        self._do(delete, writes=True)

    def _move_aside(self, reason: Exception) -> None:
        try:
            if self.path.stat().st_ino != self._file:  # another process has put a new one there
                return
            aside = self.path.with_name(f"{self.path.name}.broken-{time.time_ns()}")
            for suffix in ("-journal", "-wal", "-shm"):  # of the broken file; a new one must not be repaired with them
                companion = self.path.with_name(self.path.name + suffix)
                if companion.exists():
                    companion.rename(aside.with_name(aside.name + suffix))
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


def sealed(key: bytes, value: bytes) -> bytes:
    """A value with a checksum of it and its key, for values whose damage would not show."""
    return value + zlib.crc32(value, zlib.crc32(key)).to_bytes(CHECKSUM, "little")


def unsealed(key: bytes, value: object) -> bytes:
    """The value that was sealed.

    Raises:
        ValueError: it is not what was stored.
    """
    if not isinstance(value, bytes) or sealed(key, value[:-CHECKSUM]) != value:
        raise ValueError("its checksum is wrong")
    return value[:-CHECKSUM]


def _is_broken(error: Exception) -> bool:
    return getattr(error, "sqlite_errorname", "").startswith(BROKEN)
