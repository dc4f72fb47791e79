"""Judgements kept on disk: what a judge said of a row of texts is not computed twice.

One SQLite file in the cache folder (`mbr.store`), keyed by a digest of the judge's identity and the texts, which are
not in it. It also knows the identities of judges by the names, sizes and times of their files, so that a model whose
judgements are all there is not even loaded.

    with Cache() as cache:
        judged = judged_rows(judge, rows, cache)
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from candidates.cache import cache_folder
from mbr.evaluate.judges import Floats, Judge, Judged, Row
from mbr.store import Store, Tell, key_of

PORTION_SECONDS = 30.0  # of scoring between commits
PORTION_ROWS = 20_000
FIRST_PORTION = 2_000  # characters, before the judge's speed is known; one row at least
LOOKUP = 500


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


def judged_rows(
    judge: Judge, rows: Sequence[Row], cache: Cache | None = None, *, progress: str | None = None
) -> Judged:
    """What the judge says of the rows. Each distinct one is scored once, in portions that are committed one by one.

    With a `progress` label a bar is shown on stderr.
    """
    keys = {row: key_of(judge.identity, row) for row in dict.fromkeys(rows)}
    size = judge.columns + 1
    known = cache.get(list(keys.values()), size) if cache else {}
    missing = [row for row, key in keys.items() if key not in known]
    if judge.by_length:
        # Rows that share their other texts stay together: a judge may encode each distinct text of a portion once.
        missing.sort(key=lambda row: (-sum(map(len, row)) + len(row[1]), row[:1] + row[2:], -len(row[1])))
    with _bar(len(missing), progress) as bar:
        characters = FIRST_PORTION
        while missing:
            portion = _portion(missing, characters)
            del missing[: len(portion)]
            began = time.monotonic()
            judged = judge.judge(portion)
            seconds = time.monotonic() - began
            values = np.column_stack([judged.statistics, judged.truncated])  # [rows, k + 1]
            fresh = {keys[row]: value for row, value in zip(portion, values, strict=True)}
            if cache:
                cache.put(fresh.items())
            known |= fresh
            bar.update(len(portion))
            length = sum(len(text) for row in portion for text in row)
            characters = int(length * PORTION_SECONDS / max(seconds, 1e-3)) + 1
    table = np.array([known[keys[row]] for row in rows]).reshape(len(rows), size)
    return Judged(np.ascontiguousarray(table[:, :-1]), table[:, -1] > 0)


def _portion(rows: Sequence[Row], characters: int) -> list[Row]:
    """As many of the first rows as fit in so many characters; at least one."""
    taken = 0
    for place, row in enumerate(rows[:PORTION_ROWS]):
        taken += sum(map(len, row))
        if taken > characters and place:
            return list(rows[:place])
    return list(rows[:PORTION_ROWS])


def _bar(total: int, label: str | None) -> Any:
    from tqdm import tqdm

    return tqdm(total=total, unit="row", disable=label is None or not total, leave=False, desc=label)
