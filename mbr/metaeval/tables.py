"""Scores from plain files: one's own metric, or a whole study in one table.

| file | holds |
| --- | --- |
| `NAME.seg.score` and the like | lines `system<TAB>score`, in segment order, as mt-metrics-eval has them |
| a table (TSV with a header, or JSON lines) | `system`, `segment`, and a column of scores for each evaluator |
| the same with `other` | a pairwise metric: by how much `system` is better than `other` (a system, or `reference`) |

`None`, `null` and empty cells stand for "no score". Segments of a table are numbers or names; in a study they sort as
numbers where all are. `.gz` by suffix.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from candidates.errors import InputError, UsageError
from candidates.text import lines
from mbr.metaeval.values import Floats, Scores, ScoreSet
from pear.data.jsonl import json_records
from pear.data.record import finite
from pear.data.tables import tsv_rows

KEYS = ("system", "segment")
OTHER = "other"
REFERENCE = "reference"
NONE = ("None", "none", "", "null", None)


def read_study(path: str | Path, human: str, *, metrics: Sequence[str] | None = None, lp: str = "") -> ScoreSet:
    """A table of systems, segments and evaluators as a score set: `human` is the gold, other columns are metrics.

    `metrics` chooses some of them. Systems without a human score are not among the systems. An evaluator may lack
    scores; what needs them complains.
    """
    cells: dict[str, dict[tuple[str, str], float]] = {}
    columns: list[str] = []
    for where, row in _rows(path):
        key = (_name(row, "system", where), _name(row, "segment", where))
        columns = columns or [name for name in row if name not in KEYS]
        if OTHER in row:
            raise InputError(f"{where}: a column {OTHER!r} makes this a pairwise metric; give it with --own NAME=FILE")
        for column in columns:
            if key in cells.setdefault(column, {}):
                raise InputError(f"{where}: a second row of system {key[0]!r} and segment {key[1]!r}; expected one")
            cells[column][key] = _score(row.get(column), where, column)
    for column in (human, *(metrics or ())):
        if column not in cells:
            raise UsageError(f"{path}: no column {column!r}; found {', '.join(columns) or 'none'}")
    chosen = [column for column in columns if column != human and (metrics is None or column in metrics)]
    scored = {key for key, value in cells[human].items() if not np.isnan(value)}
    systems = tuple(sorted({system for system, _ in scored}))
    if not systems:
        raise InputError(f"{path}: the column {human!r} has no score")
    others = tuple(sorted({system for system, _ in cells[human]} - set(systems)))
    segments = _in_order({segment for _, segment in cells[human]})
    every = {column: _matrix(cells[column], systems, segments) for column in (human, *chosen)}
    return ScoreSet(
        name=Path(path).name.removesuffix(".gz").rsplit(".", 1)[0],
        lp=lp,
        human=Scores(human, every[human], kind="human"),
        systems=systems,
        segments=tuple(segments),
        metrics=tuple(Scores(column, every[column]) for column in chosen),
        dropped=others,
        notes=(f"without a human score, and not among the systems: {', '.join(others)}",) if others else (),
    )


def read_own(name: str, path: str | Path, known: ScoreSet) -> Scores:
    """One's own metric for a score set, from any of the files above; it must have what people scored.

    Segments of a test set are numbered from 1, or from 0 if the table has a 0.
    """
    if _is_table(path):
        rows = list(_rows(path))
        pairwise = OTHER in rows[0][1]
        return _own_pairs(name, rows, known) if pairwise else _own_table(name, path, rows, known)
    scores: dict[str, list[float]] = {}
    for number, line in lines(path):
        where = f"{path}, line {number}"
        system, tab, score = line.rstrip("\r").partition("\t")
        if not tab or "\t" in score:
            raise InputError(
                f"{where}: expected system<TAB>score, found {line!r:.60}; a table has a header with system and segment"
            )
        scores.setdefault(system, []).append(_score(score, where, "score"))
    rows_of = []
    for system in known.systems:
        found = scores.get(system)
        if found is None:
            raise InputError(f"{path}: no score of {system}; expected one of every system that people scored")
        if len(found) != known.gold.shape[1]:
            raise InputError(
                f"{path}: {len(found)} scores of {system}, but there are {known.gold.shape[1]} segments; "
                "expected one each"
            )
        rows_of.append(found)
    return Scores(name, np.array(rows_of), kind="own")


def _own_table(name: str, path: str | Path, rows: list[tuple[str, dict[str, object]]], known: ScoreSet) -> Scores:
    columns = [column for column in rows[0][1] if column not in KEYS]
    column = "score" if "score" in columns else name if name in columns else columns[0] if len(columns) == 1 else None
    if column is None:
        raise UsageError(f"{path}: which of the columns {', '.join(columns)} is {name}? call one `score`")
    values = np.full(known.gold.shape, np.nan)
    for where, system, place, row in _placed(rows, known):
        if system is not None:
            values[system, place] = _score(row.get(column), where, column)
    return Scores(name, values, kind="own")


def _own_pairs(name: str, rows: list[tuple[str, dict[str, object]]], known: ScoreSet) -> Scores:
    systems, segments = known.gold.shape
    values = np.full((systems, systems, segments), np.nan)
    anchored = np.full((systems, segments), np.nan)
    order = {system: place for place, system in enumerate(known.systems)}
    for where, system, place, row in _placed(rows, known):
        other = _name(row, OTHER, where)
        column = "score" if "score" in row else name
        if system is None or other == known.systems[system]:
            continue
        if other in order:
            values[system, order[other], place] = _score(row.get(column), where, column)
        elif other in (REFERENCE, known.reference):
            anchored[system, place] = _score(row.get(column), where, column)
    # One order is enough: the other is its negation.
    turned = -values.transpose(1, 0, 2)
    values = np.where(np.isnan(values), turned, values)
    values[np.arange(systems), np.arange(systems)] = 0.0
    judged = ~np.isnan(known.gold)
    missing = int((np.isnan(values) & judged[:, None] & judged[None]).sum()) // 2
    if missing:
        raise InputError(f"{name}: {missing} pairs of translations that people scored have no score; expected a number")
    all_anchored = not (np.isnan(anchored) & judged).any()
    return Scores.pairwise(name, np.nan_to_num(values), np.nan_to_num(anchored) if all_anchored else None)


def _placed(
    rows: list[tuple[str, dict[str, object]]], known: ScoreSet
) -> Iterator[tuple[str, int | None, int, dict[str, object]]]:
    """(where, system or None, segment, row), by the order of the known set."""
    systems = {system: place for place, system in enumerate(known.systems)}
    segments = {segment: place for place, segment in enumerate(known.segments)}
    given = [_name(row, "segment", where) for where, row in rows]
    if "0" in given and "0" not in segments and known.segments[0] == "1":  # counted from 0
        segments = {str(int(segment) - 1): place for segment, place in segments.items()}
    for (where, row), segment in zip(rows, given, strict=True):
        if segment not in segments:
            first, last = next(iter(segments)), next(reversed(segments))
            raise InputError(f"{where}: segment {segment!r:.40} is unknown; there are {first} to {last}")
        yield where, systems.get(_name(row, "system", where)), segments[segment], row


def _rows(path: str | Path) -> Iterator[tuple[str, dict[str, object]]]:
    found = json_records(path) if _plain(path).endswith((".jsonl", ".json")) else tsv_rows(path)
    for where, row in found:
        for key in KEYS:
            if key not in row:
                raise InputError(
                    f"{where}: no {key!r} among {', '.join(row)!r:.200}; expected system, segment and scores"
                )
        yield where, dict(row)


def _is_table(path: str | Path) -> bool:
    if _plain(path).endswith((".jsonl", ".json")):
        return True
    for _, line in lines(path):
        return set(KEYS) <= set(line.rstrip("\r").split("\t"))
    raise InputError(f"{path}: empty; expected scores")


def _plain(path: str | Path) -> str:
    return str(path).removesuffix(".gz")


def _name(row: dict[str, object], key: str, where: str) -> str:
    value = row[key]
    if isinstance(value, bool) or not isinstance(value, (str, int)) or not str(value).strip():
        raise InputError(f"{where}: {key} {value!r:.40} is no name; expected a text or a number")
    return str(value)


def _score(value: object, where: str, column: str) -> float:
    if value is None or (isinstance(value, str) and value in NONE):
        return float("nan")
    return finite(value, where, column)


def _in_order(segments: set[str]) -> list[str]:
    numbers = all(segment.isdecimal() for segment in segments)
    return sorted(segments, key=lambda segment: (int(segment), "") if numbers else (0, segment))


def _matrix(cells: dict[tuple[str, str], float], systems: tuple[str, ...], segments: list[str]) -> Floats:
    missing = float("nan")
    return np.array([[cells.get((system, segment), missing) for segment in segments] for system in systems])
