"""Answers of chat servers on disk, so that no question is asked twice: not by a resumed run, and not by the next one.

The key is a digest of the server's address and the whole request. Several threads and processes may use the file.
"""

from __future__ import annotations

import json
import sqlite3
import threading
from pathlib import Path
from typing import Any

from candidates.common.cache import cache_folder
from candidates.common.notes import note
from candidates.common.store import Store, key_of, sealed, unsealed

FILE = "answers.sqlite"


class AnswerStore(Store):
    """The file of answers. An entry is a JSON object with a checksum."""

    kept = "answers of chat servers"
    tables = (
        # Every answer is a commit: it survives a kill, but the disk need not be waited for each time.
        "PRAGMA journal_mode = WAL",
        "PRAGMA synchronous = NORMAL",
        "CREATE TABLE IF NOT EXISTS answers (key BLOB PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID",
    )

    def __init__(self, path: str | Path | None = None) -> None:
        """`path`: the file (default: answers.sqlite in the cache folder)."""
        self._lock = threading.Lock()
        super().__init__(cache_folder() / FILE if path is None else Path(path), warn=note)

    def get(self, key: bytes) -> dict[str, Any] | None:
        """The answer; None where there is none, or where it was damaged and is dropped now."""
        values: list[object] = []

        def read(connection: sqlite3.Connection) -> None:
            values.extend(value for (value,) in connection.execute("SELECT value FROM answers WHERE key = ?", [key]))

        with self._lock:
            self._do(read)
            try:
                if not values:
                    return None
                answer = json.loads(unsealed(key, values[0]))
                if not isinstance(answer, dict):
                    raise ValueError("it is no object")
                return answer
            except ValueError as exc:
                self.drop("answers", key, exc)
                return None

    def put(self, key: bytes, answer: dict[str, Any]) -> None:
        """Store an answer; it is committed when this returns."""
        value = sealed(key, json.dumps(answer).encode())

        def write(connection: sqlite3.Connection) -> None:
            with connection:
                connection.execute("INSERT OR REPLACE INTO answers VALUES (?, ?)", [key, value])

        with self._lock:
            self._do(write, writes=True)


def request_key(address: str, body: dict[str, Any]) -> bytes:
    """A digest of everything that an answer depends on."""
    return key_of(address, [json.dumps(body, sort_keys=True)])
