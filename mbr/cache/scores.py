"""Scores that are paid for once: what a utility said is kept on disk, with what it cost to say it.

Several settings of one comparison, and several runs, share a `ScoreStore`. Each setting looks at it through a `Ledger`,
which hands out what is known, has the rest computed, and adds up what everything it was asked for cost when it was
computed: so a setting costs the same whether it was first to ask or not.

    with ScoreStore(path) as store:
        decoder = open_decoder(recipe, memory_of=lambda part: Ledger(store, part))

Kept are, of each utility (name, settings, version, kind of device) and source: the texts, and for pairs of them score
and seconds; matrices of utilities that compute all pairs at once are kept whole.
"""

from __future__ import annotations

import inspect
import io
import json
import sqlite3
import time
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from candidates.common.version import __version__
from mbr.cache.store import Store, key_of
from mbr.terms.base import Term
from mbr.utilities import Utility

Row = tuple[str, ...]  # (source, hypothesis, pseudo-reference) or (source, candidate)
Floats = NDArray[np.float32]

SECONDS_BETWEEN_COMMITS = 10.0
SCORES_AT_ONCE = 2**24  # held in memory before those of sources that are not asked for are let go
MOST_TEXTS = 2**31  # of a source


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

    def merge(self, entries: Mapping[bytes, Callable[[bytes | None], bytes]]) -> None:
        """The same for what depends on what is there: each entry is told that and says what to keep."""

        def write(connection: sqlite3.Connection) -> None:
            connection.execute("BEGIN IMMEDIATE")  # nobody else writes between reading and writing
            with connection:
                for key, change in entries.items():
                    found = connection.execute("SELECT value FROM scores WHERE key = ?", [key]).fetchone()
                    connection.execute("INSERT OR REPLACE INTO scores VALUES (?, ?)", [key, change(found and found[0])])

        if entries:
            self._do(write, writes=True)


@dataclass
class Spent:
    """What a setting cost: `seconds` in the utility for all that was asked, as it was computed then or now.

    `aside`: CPU seconds of this run that are counted there already, or that went into keeping scores.
    """

    seconds: float = 0.0
    aside: float = 0.0


class Ledger:
    """The scores of a utility or term in the store, with their seconds: CPU time, or clock time on a GPU."""

    def __init__(self, store: ScoreStore, part: Utility | Term) -> None:
        self._store = store
        self._identity = _identity(part)
        self._clock = time.perf_counter if part.on_gpu else time.process_time
        self._tables: dict[str, _Table] = {}
        self._committed = time.monotonic()
        self.spent = Spent()

    def score(self, rows: Sequence[Row], compute: Callable[[Sequence[Row]], Any]) -> Floats:
        with self._aside():
            return self._score(rows, compute)

    def blocks(self, keys: Sequence[Sequence[str]], compute: Callable[[Sequence[int]], list[Floats]]) -> list[Floats]:
        with self._aside():
            return self._blocks(keys, compute)

    def _score(self, rows: Sequence[Row], compute: Callable[[Sequence[Row]], Any]) -> Floats:
        places: dict[str, list[int]] = {}
        for place, row in enumerate(rows):
            places.setdefault(row[0], []).append(place)
        self._let_go(places.keys())
        values, seconds = np.empty(len(rows), np.float32), np.empty(len(rows), np.float32)
        codes = {source: self._table(source).codes_of([rows[k] for k in some]) for source, some in places.items()}
        for source, some in places.items():
            values[some], seconds[some] = self._table(source).find(codes[source])
        missing = np.flatnonzero(np.isnan(values)).tolist()
        if missing:
            asked = list(dict.fromkeys(rows[place] for place in missing))
            fresh: Floats
            fresh, spent = self._timed(lambda: np.asarray(compute(asked), np.float32))
            if fresh.shape != (len(asked),):
                return fresh  # whoever asked will complain
            shares = _shares(spent, [sum(map(len, row)) for row in asked])
            known = {row: number for number, row in enumerate(asked)}
            numbers = [known[rows[place]] for place in missing]
            values[missing], seconds[missing] = fresh[numbers], shares[numbers]
            for source, some in places.items():
                self._table(source).add(codes[source], values[some], seconds[some])
            if time.monotonic() - self._committed > SECONDS_BETWEEN_COMMITS:
                self.commit()
        self.spent.seconds += float(seconds.sum(dtype=np.float64))
        return values

    def _blocks(self, keys: Sequence[Sequence[str]], compute: Callable[[Sequence[int]], list[Floats]]) -> list[Floats]:
        digests = [key_of(self._identity, ("block", *key)) for key in keys]
        known = {place: _unpack(raw) for place, key in enumerate(digests) if (raw := self._store.get(key)) is not None}
        missing = [place for place in range(len(keys)) if place not in known]
        if missing:
            arrays, spent = self._timed(lambda: [np.asarray(array, np.float32) for array in compute(missing)])
            shares = _shares(spent, [sum(map(len, keys[place])) for place in missing])
            fresh = {
                place: {"values": array, "seconds": np.array(share)}
                for place, array, share in zip(missing, arrays, shares, strict=True)
            }
            whole = {digests[place]: _pack(one) for place, one in fresh.items() if np.isfinite(one["values"]).all()}
            self._store.put(whole)
            known |= fresh
        self.spent.seconds += float(sum(known[place]["seconds"] for place in range(len(keys))))
        return [known[place]["values"] for place in range(len(keys))]

    def commit(self) -> None:
        """Keep what was computed since the last time, beside what others have kept of the same sources."""
        changed = {name: table for name, table in self._tables.items() if table.changed}
        self._store.merge({key_of(self._identity, ("pairs", name)): table.merged for name, table in changed.items()})
        for table in changed.values():
            table.changed = False
        self._committed = time.monotonic()

    def __enter__(self) -> Ledger:
        return self

    def __exit__(self, *details: object) -> None:
        with self._aside():
            self.commit()

    @contextmanager
    def _aside(self) -> Iterator[None]:
        began = time.process_time()
        try:
            yield
        finally:
            self.spent.aside += time.process_time() - began

    def _timed(self, work: Callable[[], Any]) -> tuple[Any, float]:
        began = self._clock()
        found = work()
        return found, self._clock() - began

    def _table(self, source: str) -> _Table:
        if source not in self._tables:
            self._tables[source] = _Table.unpack(self._store.get(key_of(self._identity, ("pairs", source))))
        return self._tables[source]

    def _let_go(self, wanted: Collection[str]) -> None:
        """Keep memory in bounds: tables of sources that are not asked for now can be read again."""
        if sum(len(table.codes) for table in self._tables.values()) > SCORES_AT_ONCE:
            self.commit()
            self._tables = {source: table for source, table in self._tables.items() if source in wanted}


class _Table:
    """Scores and seconds of pairs of one source's texts, sorted by a code of the pair. A quality is (text, text)."""

    def __init__(self, texts: Iterable[str] = ()) -> None:
        self._places = {text: place for place, text in enumerate(texts)}
        self.codes = np.empty(0, np.int64)
        self._values = np.empty(0, np.float32)
        self._seconds = np.empty(0, np.float32)
        self.changed = False

    def codes_of(self, rows: Sequence[Row]) -> NDArray[np.int64]:
        place = self._place
        return np.array([place(row[1]) * MOST_TEXTS + place(row[-1]) for row in rows], np.int64)

    def find(self, codes: NDArray[np.int64]) -> tuple[Floats, Floats]:
        """Scores and seconds; NaN where there is none."""
        values, seconds = np.full(len(codes), np.nan, np.float32), np.zeros(len(codes), np.float32)
        if len(self.codes):
            at = np.minimum(np.searchsorted(self.codes, codes), len(self.codes) - 1)
            there = self.codes[at] == codes
            values[there], seconds[there] = self._values[at[there]], self._seconds[at[there]]
        return values, seconds

    def add(self, codes: NDArray[np.int64], values: Floats, seconds: Floats) -> None:
        """What is not there yet; what is no number is not kept."""
        good = np.isfinite(values)
        together = np.concatenate([self.codes, codes[good]])
        self.codes, first = np.unique(together, return_index=True)
        self.changed |= len(first) > len(self._values)
        self._values = np.concatenate([self._values, values[good]])[first]
        self._seconds = np.concatenate([self._seconds, seconds[good]])[first]

    def merged(self, raw: bytes | None) -> bytes:
        """These scores and those kept, as bytes."""
        if raw is not None:
            other = _Table.unpack(raw)
            texts = list(other._places)
            place = np.array([self._place(text) for text in texts], np.int64)
            self.add(
                place[other.codes // MOST_TEXTS] * MOST_TEXTS + place[other.codes % MOST_TEXTS],
                other._values,
                other._seconds,
            )
        texts_raw = np.frombuffer(json.dumps(list(self._places)).encode(), np.uint8)
        return _pack({"texts": texts_raw, "codes": self.codes, "values": self._values, "seconds": self._seconds})

    @classmethod
    def unpack(cls, raw: bytes | None) -> _Table:
        if raw is None:
            return cls()
        found = _unpack(raw)
        table = cls(json.loads(found["texts"].tobytes()))
        table.codes, table._values, table._seconds = found["codes"], found["values"], found["seconds"]
        return table

    def _place(self, text: str) -> int:
        return self._places.setdefault(text, len(self._places))


def _identity(part: Utility | Term) -> str:
    """All that may change a score or what it costs: settings, version, the kind of device; of a plug-in, its code."""
    settings = {**part.settings(), "version": __version__, "device": "gpu" if part.on_gpu else "cpu"}
    kind = type(getattr(part, "utility", part))  # of a utility as a term, its own
    if not kind.__module__.startswith("mbr."):
        try:
            settings["code"] = key_of("code", [Path(inspect.getfile(kind)).read_text(encoding="utf-8")]).hex()
        except (OSError, TypeError, ValueError):  # typed at a prompt: its settings are all there is
            settings["code"] = kind.__qualname__
    return "|".join([part.name, *(f"{key}:{value}" for key, value in settings.items())])


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
