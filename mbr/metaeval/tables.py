"""Scores from plain files: a metric of one's own, or a whole study in one table.

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
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from candidates.common.errors import InputError, UsageError
from candidates.common.text import lines
from candidates.common.words import counted
from mbr.metaeval.values import SOURCE_ONLY, Floats, Scores, ScoreSet, score_of
from pear.data.jsonl import json_records
from pear.data.tables import tsv_rows

KEYS = ("system", "segment")
OTHER = "other"
REFERENCE = "reference"


def read_study(path: str | Path, human: str | None, *, metrics: Sequence[str] | None = None, lp: str = "") -> ScoreSet:
    """A table of systems, segments and evaluators as a score set: `human` is the gold, other columns are metrics.

    Without a gold, which is then to come from elsewhere, every row counts as scored. `metrics` chooses some of them.
    Systems without a human score are not among the systems. An evaluator may lack scores (`ScoreSet.complete` leaves
    such metrics out).
    """
    cells: dict[str, dict[tuple[str, str], float]] = {}
    seen: dict[tuple[str, str], None] = {}
    for where, row in _rows(path):
        key = (_name(row, "system", where), _name(row, "segment", where))
        if OTHER in row:
            raise InputError(f"{where}: a column {OTHER!r} makes this a pairwise metric; give it with --own NAME=FILE")
        if key in seen:
            raise InputError(f"{where}: a second row of system {key[0]!r} and segment {key[1]!r}; expected one")
        seen[key] = None
        for column, value in row.items():
            if column not in KEYS:
                cells.setdefault(column, {})[key] = score_of(value, where, column)
    if human is None:
        human, cells[""] = "", dict.fromkeys(seen, 0.0)
    columns = [column for column in cells if column]
    for column in (human, *(metrics or ())):
        if column not in cells:
            raise UsageError(f"{path}: no column {column!r}; found {', '.join(columns) or 'none'}")
    chosen = [column for column in columns if column != human and (metrics is None or column in metrics)]
    scored = {key for key, value in cells[human].items() if not np.isnan(value)}
    systems = tuple(sorted({system for system, _ in scored}))
    if not systems:
        raise InputError(f"{path}: the column {human!r} has no score")
    others = tuple(sorted({system for system, _ in seen} - set(systems)))
    segments = _in_order({segment for _, segment in seen})
    every = {column: _matrix(cells[column], systems, segments) for column in (human, *chosen)}
    return ScoreSet(
        name=Path(path).name.removesuffix(".gz").rsplit(".", 1)[0],
        lp=lp,
        human=Scores(human, every[human], kind="human"),
        systems=systems,
        segments=tuple(segments),
        metrics=tuple(Scores(column, every[column]) for column in chosen),
        dropped=others,
        listed=tuple(dict.fromkeys(system for system, _ in seen)),
        notes=(f"without a human score, and not among the systems: {', '.join(others)}",) if others else (),
    )


def read_own(name: str, path: str | Path, study: ScoreSet, *, reference: str | None = None) -> Scores:
    """A metric of one's own for a score set, from any of the files above; it must score what people scored.

    Segments of a test set are numbered from 1, or from 0 if the table has a 0. `reference` is what the metric compares
    with: the name of a reference, `src` for none, or None where it is not known.
    """
    present = (SOURCE_ONLY, study.reference, *study.dropped, *study.systems)
    if reference is not None and study.reference is not None and reference not in present:
        raise UsageError(
            f"--own {name}: no reference {reference!r} in {study.name} {study.lp}, where metrics compare with "
            f"{study.reference}; expected it, another reference, or {SOURCE_ONLY} for none"
        )
    if _is_table(path):
        rows = list(_rows(path))
        pairwise = OTHER in rows[0][1]
        own = (_own_pairs if pairwise else _own_table)(name, path, rows, study)
    else:
        own = _own_lines(name, path, study)
    _refuse_gaps(own, path, study)
    return replace(own, reference=reference)


def _own_lines(name: str, path: str | Path, study: ScoreSet) -> Scores:
    scores: dict[str, list[float]] = {}
    for number, line in lines(path):
        where = f"{path}, line {number}"
        system, tab, score = line.partition("\t")
        if not tab or "\t" in score:
            raise InputError(
                f"{where}: expected system<TAB>score, found {line!r:.60}; a table has a header with system and segment"
            )
        scores.setdefault(system, []).append(score_of(score, where, "score"))
    matrix = []
    for system in study.systems:
        values = scores.get(system)
        if values is None:
            raise InputError(f"{path}: no score of {system}; expected one of every system that people scored")
        if len(values) != study.gold.shape[1]:
            first = study.segments[len(values)] if len(values) < len(study.segments) else None
            gap = f": segment {first} is the first without one" if first else ""
            raise InputError(
                f"{path}: {counted(len(values), 'score')} of {system}, but there are "
                f"{counted(len(study.segments), 'segment')}{gap}; expected one each"
            )
        matrix.append(values)
    return Scores(name, np.array(matrix), kind="own")


def _own_table(name: str, path: str | Path, rows: list[tuple[str, dict[str, object]]], study: ScoreSet) -> Scores:
    column = _score_column(name, path, rows)
    values = np.full(study.gold.shape, np.nan)
    seen: dict[tuple[int, int], str] = {}
    for where, system, place, row in _placed(rows, study):
        if system is not None:
            _refuse_second(seen, (system, place), where)
            values[system, place] = score_of(row.get(column), where, column)
    return Scores(name, values, kind="own")


def _own_pairs(name: str, path: str | Path, rows: list[tuple[str, dict[str, object]]], study: ScoreSet) -> Scores:
    column = _score_column(name, path, rows)
    systems, segments = study.gold.shape
    values = np.full((systems, systems, segments), np.nan)
    anchored = np.full((systems, segments), np.nan)
    order = {system: place for place, system in enumerate(study.systems)}
    seen: dict[tuple[int, str, int], str] = {}
    for where, system, place, row in _placed(rows, study):
        other = _name(row, OTHER, where)
        if system is None or other == study.systems[system]:
            continue
        _refuse_second(seen, (system, other, place), where)
        if other in order:
            values[system, order[other], place] = score_of(row.get(column), where, column)
        elif other in (REFERENCE, study.reference):
            anchored[system, place] = score_of(row.get(column), where, column)
    # One order is enough: the other is its negation.
    values = np.where(np.isnan(values), -values.transpose(1, 0, 2), values)
    complete = not (np.isnan(anchored) & ~np.isnan(study.gold)).any()
    return Scores.pairwise(name, values, anchored if complete else None)


def _refuse_gaps(own: Scores, path: str | Path, study: ScoreSet) -> None:
    """Refuse scores that lack a translation, or a pair of them, that people scored; the first of them is named."""
    judged = ~np.isnan(study.gold)
    if own.differences is not None:
        missing = np.argwhere(~np.isfinite(own.differences) & judged[:, None] & judged[None])
        gaps = [(s, f"{study.systems[i]} and {study.systems[j]}") for i, j, s in missing if i < j]
        things = ("pair of translations", "pairs of translations")
    else:
        assert own.segments is not None
        gaps = [(s, study.systems[i]) for i, s in np.argwhere(~np.isfinite(own.segments) & judged)]
        things = ("translation", "translations")
    if gaps:
        segment, systems = min(gaps)
        raise InputError(
            f"{path}: no score of {systems} in segment {study.segments[segment]}, the first gap; {own.name} lacks "
            f"{counted(len(gaps), *things)} that people scored; expected a number for each"
        )


def _score_column(name: str, path: str | Path, rows: list[tuple[str, dict[str, object]]]) -> str:
    columns = list(dict.fromkeys(key for _, row in rows for key in row if key not in (*KEYS, OTHER)))
    if "score" in columns or name in columns:
        return "score" if "score" in columns else name
    if len(columns) != 1:
        raise UsageError(f"{path}: which of the columns {', '.join(columns) or '(none)'} is {name}? call one `score`")
    return columns[0]


def _refuse_second(seen: dict[Any, str], key: Any, where: str) -> None:
    if key in seen:
        raise InputError(f"{where}: a second row for the same scores as {seen[key].rpartition(', ')[2]}; expected one")
    seen[key] = where


def _placed(
    rows: list[tuple[str, dict[str, object]]], study: ScoreSet
) -> Iterator[tuple[str, int | None, int, dict[str, object]]]:
    """(where, system or None, segment, row), by the order of the study."""
    systems = {system: place for place, system in enumerate(study.systems)}
    segments = {segment: place for place, segment in enumerate(study.segments)}
    names = [_name(row, "segment", where) for where, row in rows]
    numbered = study.segments == tuple(map(str, range(1, len(segments) + 1)))
    if "0" in names and numbered:  # counted from 0
        segments = {str(int(segment) - 1): place for segment, place in segments.items()}
    for (where, row), segment in zip(rows, names, strict=True):
        if segment not in segments:
            first, last = next(iter(segments)), next(reversed(segments))
            raise InputError(f"{where}: segment {segment!r:.40} is unknown; there are {first} to {last}")
        yield where, systems.get(_name(row, "system", where)), segments[segment], row


def _rows(path: str | Path) -> Iterator[tuple[str, dict[str, object]]]:
    records = json_records(path) if _plain(path).endswith((".jsonl", ".json")) else tsv_rows(path)
    for where, row in records:
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
        return set(KEYS) <= set(line.split("\t"))
    raise InputError(f"{path}: empty; expected scores")


def _plain(path: str | Path) -> str:
    return str(path).removesuffix(".gz")


def _name(row: dict[str, object], key: str, where: str) -> str:
    value = row[key]
    if isinstance(value, bool) or not isinstance(value, (str, int)) or not str(value).strip():
        raise InputError(f"{where}: {key} {value!r:.40} is no name; expected a text or a number")
    return str(value)


def _in_order(segments: set[str]) -> list[str]:
    numbers = all(segment.isdecimal() for segment in segments)
    return sorted(segments, key=lambda segment: (int(segment), "") if numbers else (0, segment))


def _matrix(cells: dict[tuple[str, str], float], systems: tuple[str, ...], segments: list[str]) -> Floats:
    missing = float("nan")
    return np.array([[cells.get((system, segment), missing) for segment in segments] for system in systems])
