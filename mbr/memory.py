"""Scores that are paid for once: what a utility said is kept on disk, with what it cost to say it.

Several settings of one comparison, and several runs, share a `ScoreStore`. Each setting looks at it through a `Ledger`,
which hands out what is known, has the rest computed, and adds up what everything it was asked for cost when it was
computed: so a setting costs the same whether it was first to ask or not.

    with ScoreStore(path) as store:
        decoder = Decoder(utility, strategy, memory=Ledger(store, utility))

Kept are, of each utility (name, settings, version) and source: the texts, and for pairs of them score and seconds;
matrices of utilities that compute all pairs at once are kept whole.
"""

from __future__ import annotations

import io
import json
import sqlite3
import time
import zlib
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from mbr.store import Store, key_of
from mbr.utilities import Utility

Row = tuple[str, ...]  # (source, hypothesis, pseudo-reference) or (source, candidate)
Floats = NDArray[np.float32]

SECONDS_BETWEEN_COMMITS = 10.0
CELLS_AT_ONCE = 2**24  # held in memory before tables that are not asked for are let go


class Memory(Protocol):
    """What stands between a decoder and its utility: asked for scores, it knows them or has them computed."""

    def score(self, rows: Sequence[Row], compute: Callable[[Sequence[Row]], Any]) -> Floats:
        """Scores [rows] of pairs or of candidates; `compute` gives those of some of the rows."""

    def blocks(self, keys: Sequence[Sequence[str]], compute: Callable[[Sequence[int]], list[Floats]]) -> list[Floats]:
        """Arrays by what they depend on, texts first; `compute` gives those of some places."""


class ScoreStore(Store):
    """The file of scores."""

    kept = "scores"
    tables = ("CREATE TABLE IF NOT EXISTS scores (key BLOB PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID",)

    def get(self, key: bytes) -> bytes | None:
        found: list[bytes] = []

        def read(connection: sqlite3.Connection) -> None:
            found.extend(value for (value,) in connection.execute("SELECT value FROM scores WHERE key = ?", [key]))

        self._do(read)
        return found[0] if found else None

    def put(self, entries: Mapping[bytes, bytes]) -> None:
        """Keep these for good: they are committed when this returns."""

        def write(connection: sqlite3.Connection) -> None:
            with connection:
                connection.executemany("INSERT OR REPLACE INTO scores VALUES (?, ?)", list(entries.items()))

        if entries:
            self._do(write, writes=True)


@dataclass
class Spent:
    """What a setting cost: `seconds` in the utility for all that was asked, of which `fresh` in this run."""

    seconds: float = 0.0
    fresh: float = 0.0
    asked: int = 0
    computed: int = 0


class Ledger:
    """A utility's scores in the store. Seconds are those of the processor, or of the clock where a GPU computes."""

    def __init__(self, store: ScoreStore, utility: Utility) -> None:
        from mbr import __version__

        self._store = store
        settings = {**utility.settings(), "version": __version__}
        self._identity = "|".join([utility.name, *(f"{key}:{value}" for key, value in settings.items())])
        self._clock = time.perf_counter if utility.on_gpu else time.process_time
        self._tables: dict[str, _Table] = {}
        self._committed = time.monotonic()
        self.spent = Spent()

    def score(self, rows: Sequence[Row], compute: Callable[[Sequence[Row]], Any]) -> Floats:
        self._let_go({row[0] for row in rows})
        cells = [self._cell(row) for row in rows]
        values = np.array([table.values[at] for table, at in cells], np.float32)
        missing = np.flatnonzero(np.isnan(values)).tolist()
        if missing:
            once: dict[Row, int] = {}
            for place in missing:
                once.setdefault(rows[place], place)
            asked = list(once)
            began = self._clock()
            fresh = np.asarray(compute(asked), np.float32)
            seconds = self._clock() - began
            if fresh.shape != (len(asked),):
                return fresh  # whoever asked will complain
            shares = _shares(seconds, [sum(map(len, row)) for row in asked])
            for place, value, share in zip(once.values(), fresh, shares, strict=True):
                table, at = cells[place]
                table.write(at, value, share)
            values[missing] = [cells[place][0].values[cells[place][1]] for place in missing]
            self.spent.fresh += seconds
            self.spent.computed += len(asked)
            if time.monotonic() - self._committed > SECONDS_BETWEEN_COMMITS:
                self.commit()
        self.spent.asked += len(rows)
        self.spent.seconds += float(sum(table.seconds[at] for table, at in cells))
        return values

    def blocks(self, keys: Sequence[Sequence[str]], compute: Callable[[Sequence[int]], list[Floats]]) -> list[Floats]:
        digests = [key_of(self._identity, ("block", *key)) for key in keys]
        known = {place: _unpack(raw) for place, key in enumerate(digests) if (raw := self._store.get(key)) is not None}
        missing = [place for place in range(len(keys)) if place not in known]
        if missing:
            began = self._clock()
            arrays = [np.asarray(array, np.float32) for array in compute(missing)]
            seconds = self._clock() - began
            shares = _shares(seconds, [sum(map(len, keys[place])) for place in missing])
            fresh = {
                place: {"values": array, "seconds": np.array(share)}
                for place, array, share in zip(missing, arrays, shares, strict=True)
            }
            whole = {digests[place]: _pack(one) for place, one in fresh.items() if np.isfinite(one["values"]).all()}
            self._store.put(whole)
            known |= fresh
            self.spent.fresh += seconds
            self.spent.computed += sum(array.size for array in arrays)
        self.spent.asked += sum(known[place]["values"].size for place in range(len(keys)))
        self.spent.seconds += float(sum(known[place]["seconds"] for place in range(len(keys))))
        return [known[place]["values"] for place in range(len(keys))]

    def commit(self) -> None:
        """Keep what was computed since the last time."""
        changed = {name: table for name, table in self._tables.items() if table.changed}
        self._store.put({key_of(self._identity, ("pairs", name)): table.pack() for name, table in changed.items()})
        for table in changed.values():
            table.changed = False
        self._committed = time.monotonic()

    def __enter__(self) -> Ledger:
        return self

    def __exit__(self, *details: object) -> None:
        self.commit()

    def _cell(self, row: Row) -> tuple[_Table, tuple[int, int]]:
        source, *texts = row
        table = self._tables.get(source)
        if table is None:
            table = _Table.unpack(self._store.get(key_of(self._identity, ("pairs", source))))
            self._tables[source] = table
        return table, table.cell(texts[0], texts[-1])

    def _let_go(self, wanted: set[str]) -> None:
        """Keep memory in bounds: tables of sources that are not asked for now can be read again."""
        if sum(table.values.size for table in self._tables.values()) > CELLS_AT_ONCE:
            self.commit()
            self._tables = {source: table for source, table in self._tables.items() if source in wanted}


class _Table:
    """Scores and seconds of pairs of one source's texts; NaN where there is none. A quality is on the diagonal."""

    def __init__(self, texts: Iterable[str] = (), values: Floats | None = None, seconds: Floats | None = None) -> None:
        self.places: dict[Hashable, int] = {text: place for place, text in enumerate(texts)}
        size = len(self.places)
        self.values = np.full((size, size), np.nan, np.float32) if values is None else values
        self.seconds = np.zeros((size, size), np.float32) if seconds is None else seconds
        self.changed = False

    def cell(self, first: str, second: str) -> tuple[int, int]:
        at = self._place(first), self._place(second)
        if len(self.places) > len(self.values):
            self._grow()
        return at

    def write(self, at: tuple[int, int], value: float, seconds: float) -> None:
        self.values[at], self.seconds[at] = value, seconds
        self.changed = True

    def pack(self) -> bytes:
        size = len(self.places)
        texts = np.frombuffer(json.dumps(list(self.places)).encode(), np.uint8)
        return _pack({"texts": texts, "values": self.values[:size, :size], "seconds": self.seconds[:size, :size]})

    @classmethod
    def unpack(cls, raw: bytes | None) -> _Table:
        if raw is None:
            return cls()
        found = _unpack(raw)
        return cls(json.loads(found["texts"].tobytes()), found["values"], found["seconds"])

    def _place(self, text: str) -> int:
        return self.places.setdefault(text, len(self.places))

    def _grow(self) -> None:
        old, size = len(self.values), max(2 * len(self.values), len(self.places), 16)
        values, seconds = np.full((size, size), np.nan, np.float32), np.zeros((size, size), np.float32)
        values[:old, :old], seconds[:old, :old] = self.values, self.seconds
        self.values, self.seconds = values, seconds


def _shares(seconds: float, sizes: Sequence[int]) -> NDArray[np.float64]:
    """Seconds of a call on its items, by the length of their texts."""
    weights = np.array(sizes, np.float64) + 1
    return np.asarray(seconds * weights / weights.sum())


def _pack(arrays: dict[str, Any]) -> bytes:
    stream = io.BytesIO()
    np.savez(stream, **arrays)
    return zlib.compress(stream.getvalue(), 1)


def _unpack(raw: bytes) -> dict[str, NDArray[Any]]:
    with np.load(io.BytesIO(zlib.decompress(raw)), allow_pickle=False) as found:
        return dict(found)
