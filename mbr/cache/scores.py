"""Scores that are computed once: they are kept on disk, with the seconds that each took.

Several settings of one comparison, and several runs, share a `ScoreStore`. Each setting reads it through a `Ledger`,
which returns stored scores, has the others computed, and adds up the seconds that all requested scores took when they
were computed: so a setting costs the same whether or not another requested its scores before.

    with ScoreStore(path) as store:
        decoder = open_decoder(recipe, memory_of=lambda part: Ledger(store, part))

For each utility (name, settings, version, kind of device) and source, the file holds the texts, and score and seconds
of pairs of them; matrices of utilities that compute all pairs at once are stored whole.
"""

from __future__ import annotations

import inspect
import io
import json
import sqlite3
import time
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from candidates.common.store import Store, key_of
from candidates.common.version import __version__
from mbr.terms.base import Term
from mbr.utilities import Utility

Row = tuple[str, ...]  # (source, hypothesis, pseudo-reference) or (source, candidate)
Floats = NDArray[np.float32]

SECONDS_BETWEEN_COMMITS = 10.0
SCORES_AT_ONCE = 2**24  # held in memory; beyond it, scores of sources that are not requested are dropped
MOST_TEXTS = 2**31  # of a source
# Errors of reading bytes that are not what was stored; zlib and zip files have checksums.
DAMAGED = (zlib.error, BadZipFile, ValueError, KeyError, TypeError, EOFError, OSError)

Parsed = TypeVar("Parsed")


class Memory(Protocol):
    """Stands between a decoder and its utility: returns stored scores, and has the others computed."""

    def score(self, rows: Sequence[Row], compute: Callable[[Sequence[Row]], Any]) -> Floats:
        """Scores [rows] of pairs or of candidates; `compute` returns those of some of the rows."""

    def blocks(self, keys: Sequence[Sequence[str]], compute: Callable[[Sequence[int]], list[Floats]]) -> list[Floats]:
        """Arrays by what they depend on, texts first; `compute` returns those of some positions."""


class ScoreStore(Store):
    """The file of scores."""

    kept = "scores"
    tables = ("CREATE TABLE IF NOT EXISTS scores (key BLOB PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID",)

    def get(self, key: bytes, parse: Callable[[Any], Parsed]) -> Parsed | None:
        """The entry, as `parse` reads it; None where there is none, or where it was damaged and is dropped now."""
        values: list[object] = []

        def read(connection: sqlite3.Connection) -> None:
            values.extend(value for (value,) in connection.execute("SELECT value FROM scores WHERE key = ?", [key]))

        self._do(read)
        try:
            return parse(values[0]) if values else None
        except DAMAGED as exc:
            self.drop("scores", key, exc)
            return None

    def put(self, entries: Mapping[bytes, bytes]) -> None:
        """Store these; they are committed when this returns."""

        def write(connection: sqlite3.Connection) -> None:
            with connection:
                connection.executemany("INSERT OR REPLACE INTO scores VALUES (?, ?)", list(entries.items()))

        if entries:
            self._do(write, writes=True)

    def merge(self, entries: Mapping[bytes, Callable[[bytes | None], bytes]]) -> None:
        """The same for entries that depend on the stored ones: each function maps the stored value to the new one."""

        def write(connection: sqlite3.Connection) -> None:
            connection.execute("BEGIN IMMEDIATE")  # no other process writes between reading and writing
            with connection:
                for key, change in entries.items():
                    stored = connection.execute("SELECT value FROM scores WHERE key = ?", [key]).fetchone()
                    value = change(stored and stored[0])
                    connection.execute("INSERT OR REPLACE INTO scores VALUES (?, ?)", [key, value])

        if entries:
            self._do(write, writes=True)


@dataclass
class Spent:
    """The cost of a setting: `seconds` of the utility for all requested scores, computed in this run or an earlier one.

    `aside`: CPU seconds of this run that are part of `seconds` already, or that went into storing scores.
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
        self._drop_others(places.keys())
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
                return fresh  # the caller raises the error
            shares = _shares(spent, [sum(map(len, row)) for row in asked])
            number_of = {row: number for number, row in enumerate(asked)}
            numbers = [number_of[rows[place]] for place in missing]
            values[missing], seconds[missing] = fresh[numbers], shares[numbers]
            for source, some in places.items():
                self._table(source).add(codes[source], values[some], seconds[some])
            if time.monotonic() - self._committed > SECONDS_BETWEEN_COMMITS:
                self.commit()
        self.spent.seconds += float(seconds.sum(dtype=np.float64))
        return values

    def _blocks(self, keys: Sequence[Sequence[str]], compute: Callable[[Sequence[int]], list[Floats]]) -> list[Floats]:
        digests = [key_of(self._identity, ("block", *key)) for key in keys]
        stored = {place: self._store.get(key, _read_block) for place, key in enumerate(digests)}
        blocks = {place: block for place, block in stored.items() if block is not None}
        missing = [place for place in range(len(keys)) if place not in blocks]
        if missing:
            arrays, spent = self._timed(lambda: [np.asarray(array, np.float32) for array in compute(missing)])
            shares = _shares(spent, [sum(map(len, keys[place])) for place in missing])
            fresh = {
                place: {"values": array, "seconds": np.array(share)}
                for place, array, share in zip(missing, arrays, shares, strict=True)
            }
            finite = {place: block for place, block in fresh.items() if np.isfinite(block["values"]).all()}
            self._store.put({digests[place]: _pack(block) for place, block in finite.items()})
            blocks |= fresh
        self.spent.seconds += float(sum(blocks[place]["seconds"] for place in range(len(keys))))
        return [blocks[place]["values"] for place in range(len(keys))]

    def commit(self) -> None:
        """Store what was computed since the last commit, merged with what other processes stored of these sources."""
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
        result = work()
        return result, self._clock() - began

    def _table(self, source: str) -> _Table:
        if source not in self._tables:
            key = key_of(self._identity, ("pairs", source))
            self._tables[source] = self._store.get(key, _Table.unpack) or _Table()
        return self._tables[source]

    def _drop_others(self, wanted: Collection[str]) -> None:
        """Bound the memory: tables of sources that are not requested now are dropped; they can be read again."""
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
        """Add scores that are not in the table yet; values that are not finite are left out."""
        good = np.isfinite(values)
        together = np.concatenate([self.codes, codes[good]])
        self.codes, first = np.unique(together, return_index=True)
        self.changed |= len(first) > len(self._values)
        self._values = np.concatenate([self._values, values[good]])[first]
        self._seconds = np.concatenate([self._seconds, seconds[good]])[first]

    def merged(self, raw: bytes | None) -> bytes:
        """These scores and the stored ones, as bytes."""
        other = None
        if raw is not None:
            with suppress(*DAMAGED):  # what is damaged is replaced
                other = _Table.unpack(raw)
        if other is not None:
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
    def unpack(cls, raw: bytes) -> _Table:
        """Raises one of `DAMAGED` where the bytes are not those of a table."""
        arrays = _unpack(raw)
        table = cls(json.loads(arrays["texts"].tobytes()))
        table.codes, table._values, table._seconds = arrays["codes"], arrays["values"], arrays["seconds"]
        if not len(table.codes) == len(table._values) == len(table._seconds):
            raise ValueError("its arrays differ in length")
        _check_finite(table._values, table._seconds)
        return table

    def _place(self, text: str) -> int:
        return self._places.setdefault(text, len(self._places))


def _identity(part: Utility | Term) -> str:
    """Everything that may change a score or its cost: settings, version, kind of device; for a plug-in, its code."""
    settings = {**part.settings(), "version": __version__, "device": "gpu" if part.on_gpu else "cpu"}
    kind = type(getattr(part, "utility", part))  # for a term made of a utility, the utility's class
    if not kind.__module__.startswith("mbr."):
        try:
            settings["code"] = key_of("code", [Path(inspect.getfile(kind)).read_text(encoding="utf-8")]).hex()
        except (OSError, TypeError, ValueError):  # defined at a prompt: there is no file to read
            settings["code"] = kind.__qualname__
    return "|".join([part.name, *(f"{key}:{value}" for key, value in settings.items())])


def _shares(seconds: float, sizes: Sequence[int]) -> NDArray[np.float64]:
    """Seconds of a call divided among its items, by the length of their texts."""
    weights = np.array(sizes, np.float64) + 1
    return np.asarray(seconds * weights / weights.sum())


def _pack(arrays: dict[str, Any]) -> bytes:
    stream = io.BytesIO()
    np.savez(stream, **arrays)
    return zlib.compress(stream.getvalue(), 1)


def _read_block(raw: bytes) -> dict[str, NDArray[Any]]:
    block = _unpack(raw)
    _check_finite(block["values"], block["seconds"])
    return block


def _check_finite(*arrays: NDArray[Any]) -> None:
    if not all(np.isfinite(array).all() for array in arrays):
        raise ValueError("it holds NaN or infinity")


def _unpack(raw: bytes) -> dict[str, NDArray[Any]]:
    with np.load(io.BytesIO(zlib.decompress(raw)), allow_pickle=False) as arrays:
        return dict(arrays)
