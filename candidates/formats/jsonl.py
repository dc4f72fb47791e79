"""JSONL: one list per line, and the only format that holds all of it: counts, references, origin, any text.

    {"id": "doc1-3", "source": "A dog.", "candidates": ["Ein Hund.", {"text": "Der Hund.", "logprob": -1.2,
     "count": 3}], "references": ["Ein Hund."], "origin": {"model": "en-de@1a2b", "method": "beam"}}

`id`, `logprob`, `count`, `references` and `origin` are optional. A list that is written and read back is equal to the
first, log-probabilities bit for bit: numbers are written with the shortest digits that give back the same float.

>>> from candidates.lists import CandidateList
>>> render(CandidateList.of("A dog.", ["Ein Hund."], id="x"), index=0, lines=None)
b'{"id": "x", "source": "A dog.", "candidates": ["Ein Hund."]}\\n'
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from candidates.common.errors import InputError
from candidates.common.text import decode_line, raw_lines
from candidates.formats.records import SOURCE_NAMES, BadRecord, Record
from candidates.lists import Candidate, CandidateList, Origin, check_text

HEADER = b""
CANDIDATES_NAMES = ("candidates", "hypotheses", "translations")
REFERENCES_NAMES = ("references", "refs")


def read(path: str | Path, nbest: int | None) -> Iterator[Record]:
    """Stream the lists; a line that cannot be used is a `BadRecord`, an empty line is none."""
    index = 0
    for number, raw in raw_lines(path):
        if not raw.strip():
            continue
        try:
            yield _parse(decode_line(raw, path, number), f"{path}, line {number}", index, nbest)
        except InputError as exc:
            yield _bad_record(exc, raw, index)
        index += 1


def render(item: CandidateList, *, index: int, lines: int | None) -> bytes:
    """One line; a list has its own id and length, so `index` and `lines` do not matter."""
    record: dict[str, Any] = {"id": item.id, "source": item.source, "candidates": _entries(item)}
    if item.references:
        record["references"] = list(item.references)
    if item.origin is not None:
        record["origin"] = dict(item.origin.settings)
    return _render_line(record)


def render_failure(record: BadRecord, *, nbest: int) -> bytes:
    """A record without candidates, with the error; it is read back as a `BadRecord`."""
    # A message may quote a file name that is not UTF-8; a failure must not fail.
    message = str(record.error).encode(errors="backslashreplace").decode()
    return _render_line({"id": record.id, "source": record.source, "candidates": [], "error": message})


def _parse(text: str, where: str, index: int, nbest: int | None) -> CandidateList:
    try:
        record = json.loads(text, parse_constant=_reject_constant)
    except ValueError as exc:
        raise InputError(f"{where}: not valid JSON: {exc}") from exc
    except RecursionError as exc:
        raise InputError(f"{where}: JSON nested too deeply") from exc
    if not isinstance(record, dict):
        raise InputError(f'{where}: expected an object like {{"source": ..., "candidates": [...]}}')
    id = record.get("id", index)
    if not isinstance(id, (str, int)) or isinstance(id, bool):
        raise InputError(f"{where}: id must be a text or a whole number, found {id!r:.40}")
    entries = _field(record, CANDIDATES_NAMES, where)
    references = _field(record, REFERENCES_NAMES, where, default=[])
    source = _field(record, SOURCE_NAMES, where)
    if not isinstance(entries, list) or not isinstance(references, list):
        raise InputError(f"{where}: candidates and references must be arrays")
    candidates = [_candidate(entry, where) for entry in entries[:nbest]]
    try:
        check_text(str(id), "id")
        origin = _origin(record.get("origin"))
        return CandidateList.of(source, candidates, id=id, references=references, origin=origin)
    except InputError as exc:
        raise InputError(f"{where}: {exc}") from exc


def _field(record: dict[str, Any], names: Sequence[str], where: str, default: Any = None) -> Any:
    for name in names:
        if name in record:
            return record[name]
    if default is not None:
        return default
    raise InputError(f"{where}: no {names[0]!r} (or {', '.join(names[1:])}) in the record")


def _candidate(entry: Any, where: str) -> Candidate:
    if isinstance(entry, str):
        return Candidate(entry)
    if isinstance(entry, dict) and isinstance(entry.get("text"), str):
        return Candidate(entry["text"], entry.get("logprob"), entry.get("count", 1))
    raise InputError(f'{where}: a candidate is a text or {{"text", "logprob", "count"}}, found {type(entry).__name__}')


def _origin(settings: object) -> Origin | None:
    if settings is None:
        return None
    expected = "expected an object of texts, finite numbers, true or false; correct it or remove it"
    if not isinstance(settings, dict):
        raise InputError(f"origin: found {type(settings).__name__}; {expected}")
    try:
        text = json.dumps(settings, ensure_ascii=False, allow_nan=False)
        check_text(text, "origin")
        return _shared_origin(text)
    except InputError:
        raise
    except (ValueError, RecursionError) as exc:
        raise InputError(f"origin: {exc}; {expected}") from exc


@lru_cache(maxsize=16)
def _shared_origin(text: str) -> Origin:
    """One object for all lists of a generator. The key is JSON, because 1, 1.0 and True are equal in Python."""
    return Origin.of(json.loads(text))


def _bad_record(error: InputError, raw: bytes, index: int) -> BadRecord:
    """Keep id and source of an unusable line where they can be read, so that output stays aligned with the input."""
    try:
        record = json.loads(raw)
        id = record.get("id", index)
        source = str(_field(record, SOURCE_NAMES, "", default=""))
        check_text(source + str(id), "")
        return BadRecord(id if isinstance(id, (str, int)) else index, error, source)
    except (ValueError, AttributeError, RecursionError):
        return BadRecord(index, error)


def _reject_constant(name: str) -> float:
    raise ValueError(f"{name} is not a JSON number")


def _entries(item: CandidateList) -> list[str | dict[str, Any]]:
    entries: list[str | dict[str, Any]] = []
    for candidate in item.listed():
        entry: dict[str, Any] = {"text": candidate.text}
        if candidate.logprob is not None:
            entry["logprob"] = candidate.logprob
        if candidate.count != 1:
            entry["count"] = candidate.count
        entries.append(entry if len(entry) > 1 else candidate.text)
    return entries


def _render_line(record: dict[str, Any]) -> bytes:
    try:
        return json.dumps(record, ensure_ascii=False, allow_nan=False).encode() + b"\n"
    except (TypeError, ValueError) as exc:
        raise InputError(
            f"segment {record['id']!r} cannot be written as JSON ({exc}); expected texts that UTF-8 can hold and "
            "finite numbers; correct its id or its origin"
        ) from exc
