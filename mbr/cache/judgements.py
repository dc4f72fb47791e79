"""Judgements kept on disk: what a judge said of a row of texts is not computed twice.

One SQLite file in the cache folder, keyed by a digest of the judge's identity and the texts, which are not in it. It
also knows the identities of judges by the names, sizes and times of their files, so that a model whose judgements are
all there is not even loaded.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from candidates.common.cache import cache_folder
from mbr.cache.store import Store, Tell

LOOKUP = 500

Floats = NDArray[np.float64]


class Cache(Store):
    """Values [k] by key. Without a `path`, the file of this user; `tell` hears what went wrong."""

    kept = "judgements"
    tables = (
        "CREATE TABLE IF NOT EXISTS judgements (key BLOB PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID",
        "CREATE TABLE IF NOT EXISTS identities (key BLOB PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID",
    )

    def __init__(self, path: Path | None = None, *, tell: Tell = lambda message: None) -> None:
        super().__init__(path or cache_folder() / "judgements.sqlite", tell=tell)

    def get(self, keys: Sequence[bytes], size: int) -> dict[bytes, Floats]:
        """The values that are there, of those that hold this many numbers."""
        found: dict[bytes, Floats] = {}

        def read(connection: sqlite3.Connection) -> None:
            for begin in range(0, len(keys), LOOKUP):
                part = keys[begin : begin + LOOKUP]
                marks = ",".join("?" * len(part))
                for key, value in connection.execute(f"SELECT key, value FROM judgements WHERE key IN ({marks})", part):
                    if len(value) == 8 * size:
                        found[key] = np.frombuffer(value, "<f8")

        self._do(read)
        return found

    def put(self, entries: Iterable[tuple[bytes, Floats]]) -> None:
        """Keep these for good: they are committed when this returns."""
        rows = [(key, value.astype("<f8").tobytes()) for key, value in entries]

        def write(connection: sqlite3.Connection) -> None:
            with connection:
                connection.executemany("INSERT OR REPLACE INTO judgements VALUES (?, ?)", rows)

        self._do(write, writes=True)

    def identity(self, key: bytes) -> str | None:
        """The identity of a judge whose files have this key, if it was loaded once."""
        found: list[str] = []

        def read(connection: sqlite3.Connection) -> None:
            found.extend(value for (value,) in connection.execute("SELECT value FROM identities WHERE key = ?", [key]))

        self._do(read)
        return found[0] if found else None

    def keep_identity(self, key: bytes, identity: str) -> None:
        def write(connection: sqlite3.Connection) -> None:
            with connection:
                connection.execute("INSERT OR REPLACE INTO identities VALUES (?, ?)", [key, identity])

        self._do(write, writes=True)
