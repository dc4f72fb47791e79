"""Judgements kept on disk, so that no row of texts is judged twice.

One SQLite file in the cache folder, keyed by a digest of the judge's identity and the texts; the texts themselves are
not stored. Each value has a checksum: what a disk has damaged is judged again. The file also maps the names, sizes and
times of a model's files to the judge's identity, so that a model whose judgements are all there is not even loaded.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from candidates.common.cache import cache_folder
from candidates.common.store import Store, Warn, sealed, unsealed

LOOKUP = 500

Floats = NDArray[np.float64]


class Cache(Store):
    """Values [k] by key. Without a `path`, the file in the user's cache folder. `warn`: see `Store`."""

    kept = "judgements"
    tables = (
        "CREATE TABLE IF NOT EXISTS sealed_judgements (key BLOB PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID",
        "CREATE TABLE IF NOT EXISTS sealed_identities (key BLOB PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID",
    )

    def __init__(self, path: Path | None = None, *, warn: Warn = lambda message: None) -> None:
        super().__init__(path or cache_folder() / "judgements.sqlite", warn=warn)

    def get(self, keys: Sequence[bytes], size: int) -> dict[bytes, Floats]:
        """The stored values of these keys; only those with `size` finite numbers."""
        stored: dict[bytes, object] = {}

        def read(connection: sqlite3.Connection) -> None:
            for begin in range(0, len(keys), LOOKUP):
                part = keys[begin : begin + LOOKUP]
                marks = ",".join("?" * len(part))
                rows = connection.execute(f"SELECT key, value FROM sealed_judgements WHERE key IN ({marks})", part)
                stored.update(rows)

        self._do(read)
        values: dict[bytes, Floats] = {}
        for key, raw in stored.items():
            try:
                value = np.frombuffer(unsealed(key, raw), "<f8")
                if not np.isfinite(value).all():
                    raise ValueError("it holds NaN or infinity")
            except ValueError as exc:
                self.drop("sealed_judgements", key, exc)
            else:
                if len(value) == size:
                    values[key] = value
        return values

    def put(self, entries: Iterable[tuple[bytes, Floats]]) -> None:
        """Store entries, those with NaN or infinity left out; they are committed when this returns."""
        rows = [(key, sealed(key, value.astype("<f8").tobytes())) for key, value in entries if np.isfinite(value).all()]

        def write(connection: sqlite3.Connection) -> None:
            with connection:
                connection.executemany("INSERT OR REPLACE INTO sealed_judgements VALUES (?, ?)", rows)

        self._do(write, writes=True)

    def identity(self, key: bytes) -> str | None:
        """The identity of the judge whose files have this key, if it was loaded before."""
        stored: list[object] = []

        def read(connection: sqlite3.Connection) -> None:
            rows = connection.execute("SELECT value FROM sealed_identities WHERE key = ?", [key])
            stored.extend(value for (value,) in rows)

        self._do(read)
        try:
            return unsealed(key, stored[0]).decode() if stored else None
        except ValueError as exc:
            self.drop("sealed_identities", key, exc)
            return None

    def keep_identity(self, key: bytes, identity: str) -> None:
        def write(connection: sqlite3.Connection) -> None:
            with connection:
                connection.execute(
                    "INSERT OR REPLACE INTO sealed_identities VALUES (?, ?)", [key, sealed(key, identity.encode())]
                )

        self._do(write, writes=True)
