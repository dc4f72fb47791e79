"""Rows judged once: each distinct row that the cache does not hold is scored, in portions that are committed singly."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from candidates.common.store import key_of
from mbr.cache.judgements import Cache
from mbr.evaluate.base import Composite, Judge, Judged, Row

PORTION_SECONDS = 30.0  # of scoring between commits
PORTION_ROWS = 20_000
FIRST_PORTION = 2_000  # characters, before the judge's speed is known; one row at least


def judged_rows(
    judge: Judge, rows: Sequence[Row], cache: Cache | None = None, *, progress: str | None = None
) -> Judged:
    """Statistics of the rows. Each distinct row is scored once, in portions that are committed singly.

    With a `progress` label a bar is shown on stderr.
    """
    if isinstance(judge, Composite):
        parts = zip(judge.parts, judge.split(rows), strict=True)
        return judge.combine(rows, [judged_rows(part, some, cache, progress=progress) for part, some in parts])
    keys = {row: key_of(judge.identity, row) for row in dict.fromkeys(rows)}
    size = judge.columns + 1
    statistics = cache.get(list(keys.values()), size) if cache else {}
    missing = [row for row, key in keys.items() if key not in statistics]
    if judge.by_length:
        # Rows that share their other texts stay together: a judge may encode each distinct text of a portion once.
        missing.sort(key=lambda row: (-sum(map(len, row)) + len(row[1]), row[:1] + row[2:], -len(row[1])))
    with _bar(len(missing), progress) as bar:
        characters = FIRST_PORTION
        while missing:
            portion = missing[: judge.portion_rows] if judge.portion_rows else _portion(missing, characters)
            del missing[: len(portion)]
            began = time.monotonic()
            judged = judge.judge(portion)
            seconds = time.monotonic() - began
            values = np.column_stack([judged.statistics, judged.truncated])  # [rows, k + 1]
            fresh = {keys[row]: value for row, value in zip(portion, values, strict=True)}
            if cache:
                cache.put(fresh.items())
            statistics |= fresh
            bar.update(len(portion))
            length = sum(len(text) for row in portion for text in row)
            characters = int(length * PORTION_SECONDS / max(seconds, 1e-3)) + 1
    table = np.array([statistics[keys[row]] for row in rows]).reshape(len(rows), size)
    return Judged(np.ascontiguousarray(table[:, :-1]), table[:, -1] > 0)


def _portion(rows: Sequence[Row], characters: int) -> list[Row]:
    """The first rows that fit in this number of characters; at least one."""
    used = 0
    for index, row in enumerate(rows[:PORTION_ROWS]):
        used += sum(map(len, row))
        if used > characters and index:
            return list(rows[:index])
    return list(rows[:PORTION_ROWS])


def _bar(total: int, label: str | None) -> Any:
    from tqdm import tqdm

    return tqdm(total=total, unit="row", disable=label is None or not total, leave=False, desc=label)
