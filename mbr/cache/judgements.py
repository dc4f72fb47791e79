"""Judgements kept on disk, so that no row of texts is judged twice.

One SQLite file in the cache folder, keyed by a digest of the judge's identity and the texts; the texts themselves are
not stored. It also maps the names, sizes and times of a model's files to the judge's identity, so that a model whose
judgements are all there is not even loaded.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from candidates.common.cache import cache_folder
from mbr.cache.store import Store, Warn

LOOKUP = 500

Floats = NDArray[np.float64]


class Cache(Store):
    """Values [k] by key. Without a `path`, the file in the user's cache folder. `warn`: see `Store`."""

    kept = "judgements"
    tables = (
        "CREATE TABLE IF NOT EXISTS judgements (key BLOB PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID",
        "CREATE TABLE IF NOT EXISTS identities (key BLOB PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID",
    )

    def __init__(self, path: Path | None = None, *, warn: Warn = lambda message: None) -> None:
        super().__init__(path or cache_folder() / "judgements.sqlite", warn=warn)

    def get(self, keys: Sequence[bytes], size: int) -> dict[bytes, Floats]:
        """The stored values of these keys; only those with `size` numbers."""
        values: dict[bytes, Floats] = {}

        def read(connection: sqlite3.Connection) -> None:
            for begin in range(0, len(keys), LOOKUP):
                part = keys[begin : begin + LOOKUP]
                marks = ",".join("?" * len(part))
                for key, value in connection.execute(f"SELECT key, value FROM judgements WHERE key IN ({marks})", part):
                    if len(value) == 8 * size:
                        values[key] = np.frombuffer(value, "<f8")

        self._do(read)
        return values

    def put(self, entries: Iterable[tuple[bytes, Floats]]) -> None:
        """Store entries; they are committed when this returns."""
        rows = [(key, value.astype("<f8").tobytes()) for key, value in entries]

        def write(connection: sqlite3.Connection) -> None:
            with connection:
                connection.executemany("INSERT OR REPLACE INTO judgements VALUES (?, ?)", rows)

        self._do(write, writes=True)

    def identity(self, key: bytes) -> str | None:
        """The identity of the judge whose files have this key, if it was loaded before."""
        identities: list[str] = []

        def read(connection: sqlite3.Connection) -> None:
            rows = connection.execute("SELECT value FROM identities WHERE key = ?", [key])
            identities.extend(value for (value,) in rows)

        self._do(read)
        return identities[0] if identities else None

    def keep_identity(self, key: bytes, identity: str) -> None:
        def write(connection: sqlite3.Connection) -> None:
            with connection:
                connection.execute("INSERT OR REPLACE INTO identities VALUES (?, ?)", [key, identity])

        self._do(write, writes=True)
