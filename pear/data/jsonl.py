"""Judgments from JSON lines: one translation per line, one list of candidates per line, or the errors of GEMBA-MQM.

| line | keys |
| --- | --- |
| a translation | those of `Judgment`; also `src`, `mt` or `hypothesis`, `ref`, `seg_id`, `doc` |
| a list | `source`, `candidates`: `[{"text", "score", "system"?, "words"?}]`, and the other keys for all of them |
| marked errors (`gemba`) | `errors` in place of `score` (`mqm.gemba_score`) |
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from candidates.common.errors import InputError
from candidates.common.text import lines
from pear.data.mqm import gemba_score
from pear.data.record import Judgment, judgment, normal_lp
from pear.data.tables import lp_from_name

ALIASES = {
    "source": ("source", "src"),
    "translation": ("translation", "mt", "hypothesis"),
    "score": ("score",),
    "system": ("system",),
    "document": ("document", "doc"),
    "segment": ("segment", "seg_id"),
    "rater": ("rater", "annotator"),
    "reference": ("reference", "ref"),
    "words": ("words",),
}
NAMES = ("system", "document", "segment", "rater", "reference", "words")


def json_records(path: str | Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """(where, record) of each line that is not blank."""
    count = 0
    for number, line in lines(path):
        if not line.strip():
            continue
        count += 1
        where = f"{path}, line {number}"
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as exc:
            raise InputError(f"{where}: not JSON: {exc}; expected one object per line") from exc
        if not isinstance(record, dict):
            raise InputError(f"{where}: expected a JSON object, found {type(record).__name__}")
        yield where, record
    if not count:
        raise InputError(f"{path}: no rows; expected one JSON object per line")


def read_jsonl(path: str | Path, lp: str) -> Iterator[Judgment]:
    """Translations and lists, mixed as they come. `words` has the same number of channels in the whole file."""
    channels: int | None = None
    for where, record in json_records(path):
        for row in _rows(record, where, lp, path):
            if row.words:
                channels = len(row.words[0]) if channels is None else channels
                if len(row.words[0]) != channels:
                    raise InputError(
                        f"{where}: words has {len(row.words[0])} channels, but {channels} in the rows before; "
                        "expected the same number in the whole file"
                    )
            yield row


def read_gemba(path: str | Path, lp: str) -> Iterator[Judgment]:
    for where, record in json_records(path):
        if "errors" not in record:
            raise InputError(f"{where}: no 'errors' among {', '.join(record)!r:.200}; expected the marked errors")
        yield _one({**record, "score": gemba_score(record["errors"], where)}, where, lp, path)


def read_unscored(path: str | Path, lp: str) -> Iterator[Judgment]:
    """The translations and lists of a file, whose scores are left out and may be missing; every score is 0."""
    for where, record in json_records(path):
        entries = record.get("candidates")
        if isinstance(entries, list):
            entries = [entry if isinstance(entry, dict) else {"text": entry} for entry in entries]
            record = {**record, "candidates": [{**entry, "score": 0} for entry in entries]}
        yield from _rows({**record, "score": 0}, where, lp, path)


def _rows(record: dict[str, Any], where: str, lp: str, path: str | Path) -> Iterator[Judgment]:
    if "candidates" not in record:
        yield _one(record, where, lp, path)
        return
    candidates = record["candidates"]
    if not isinstance(candidates, list) or not candidates:
        raise InputError(f"{where}: candidates must be a list of at least one, found {candidates!r:.60}")
    shared = {key: value for key, value in record.items() if key not in ("candidates", "words", "score")}
    for position, entry in enumerate(candidates, 1):
        spot = f"{where}, candidate {position}"
        if not isinstance(entry, dict) or "text" not in entry:
            raise InputError(f'{spot}: expected {{"text", "score"}}, found {entry!r:.60}')
        own = {key: entry[key] for key in ("score", "system", "rater", "words") if key in entry}
        yield _one({**shared, **own, "translation": entry["text"]}, spot, lp, path)


def _one(record: dict[str, Any], where: str, lp: str, path: str | Path) -> Judgment:
    source, translation, score = (_needed(record, name, where) for name in ("source", "translation", "score"))
    rest = {name: values[0] for name in NAMES if (values := _values(record, name)) and values[0] is not None}
    own = record.get("lp")
    rest["lp"] = normal_lp(own) if isinstance(own, str) and own else own or lp or lp_from_name(str(path))
    return judgment(where, source, translation, score, **rest)


def _needed(record: dict[str, Any], name: str, where: str) -> Any:
    values = _values(record, name)
    if not values:
        raise InputError(f"{where}: no {' or '.join(ALIASES[name])} among {', '.join(record)!r:.200}; expected one")
    return values[0]


def _values(record: dict[str, Any], name: str) -> list[Any]:
    return [record[alias] for alias in ALIASES[name] if alias in record]
