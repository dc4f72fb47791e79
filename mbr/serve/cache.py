"""Scores of pairs that were computed before, in memory and bounded: the least recently used leave first.

A key is the identity of the utility or term (name and settings) and the texts. Scores that are not finite are never
kept. Terms share the cache, so that a list sent again costs nothing.
"""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mbr.cache.scores import Row
from mbr.serve.watch import Watch
from mbr.terms import Term
from mbr.utilities import Utility

Floats = NDArray[np.float32]


class ScoreCache:
    """At most `most` scores; 0 keeps none. May be used from several threads."""

    def __init__(self, most: int, watch: Watch | None = None) -> None:
        self._most = most
        self._watch = watch or Watch()
        self._kept: OrderedDict[bytes, float | Floats] = OrderedDict()
        self._size = 0
        self._lock = threading.Lock()

    def __len__(self) -> int:
        """How many scores are kept."""
        return self._size

    def of(self, part: Utility | Term) -> PartCache | None:
        """The cache as a decoder takes it, for one utility or term; None where nothing is kept."""
        if not self._most:
            return None
        settings = "|".join(f"{key}:{value}" for key, value in part.settings().items())
        return PartCache(self, f"{part.name}|{settings}")

    def get(self, keys: Sequence[bytes]) -> list[float | Floats | None]:
        """What is kept under each key."""
        with self._lock:
            values = [self._kept.get(key) for key in keys]
            for key, value in zip(keys, values, strict=True):
                if value is not None:
                    self._kept.move_to_end(key)
        hits = sum(value is not None for value in values)
        self._watch.cache(hits, len(values) - hits)
        return values

    def put(self, entries: Sequence[tuple[bytes, float | Floats]]) -> None:
        with self._lock:
            for key, value in entries:
                if np.isfinite(value).all() and np.size(value) <= self._most:
                    self._size += np.size(value) - (np.size(self._kept[key]) if key in self._kept else 0)
                    self._kept[key] = value
            while self._size > self._most:
                _, value = self._kept.popitem(last=False)
                self._size -= np.size(value)


class PartCache:
    """A `Memory` (`mbr.cache.scores`) of one utility or term."""

    def __init__(self, cache: ScoreCache, identity: str) -> None:
        self._cache = cache
        self._identity = identity

    def score(self, rows: Sequence[Row], compute: Callable[[Sequence[Row]], Any]) -> Floats:
        keys = [self._key(row) for row in rows]
        scores = np.array([np.nan if value is None else value for value in self._cache.get(keys)], np.float32)
        missing = np.flatnonzero(np.isnan(scores)).tolist()
        if missing:
            fresh = np.asarray(compute([rows[place] for place in missing]), np.float32)
            if fresh.shape != (len(missing),):
                return fresh if len(missing) == len(rows) else np.empty(0, np.float32)  # the caller raises the error
            scores[missing] = fresh
            self._cache.put([(keys[place], float(scores[place])) for place in missing])
        return scores

    def blocks(self, keys: Sequence[Sequence[str]], compute: Callable[[Sequence[int]], list[Floats]]) -> list[Floats]:
        digests = [self._key(("block", *key)) for key in keys]
        blocks: list[Any] = self._cache.get(digests)
        missing = [place for place, block in enumerate(blocks) if block is None]
        if missing:
            for place, block in zip(missing, compute(missing), strict=True):
                blocks[place] = np.asarray(block, np.float32)
            self._cache.put([(digests[place], blocks[place]) for place in missing])
        return blocks

    def _key(self, texts: Sequence[str]) -> bytes:
        digest = hashlib.blake2b(self._identity.encode(), digest_size=16)
        for text in texts:
            raw = text.encode("utf-8", "surrogatepass")
            digest.update(len(raw).to_bytes(8, "big") + raw)
        return digest.digest()
