"""Candidate lists from files, streaming, in the five formats people have (`writing.py` is the way back).

| format | layout |
| --- | --- |
| `jsonl` | `{"id", "source", "candidates": [str or {"text", "logprob", "count"}], "references"}` a line |
| `tsv` | a header, then one candidate a row (`source`, `candidate`, optional `id`, `logprob`, `count`), rows of one source together; or one source a row with `candidate_1`, `candidate_2`, ... |
| `lines` | a file of sources, and a file with N candidate lines per source; maybe a third with their log-probabilities |
| `moses` | `id ||| text ||| features ||| score`, ids counting the lines of a file of sources from 0 |
| `fairseq` | what fairseq-generate and fairseq-interactive print (`fairseq.py`); maybe a file of sources |

A record that cannot be used is yielded as a `BadRecord`, so that a caller may stop at it or go on behind it;
a file whose structure does not fit (counts, header) raises at once.
"""  # noqa: E501

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice, repeat
from pathlib import Path
from typing import Any

from candidates.common.errors import InputError, UsageError
from candidates.common.text import decode_line, lines, raw_lines
from candidates.formats.fairseq import Segment, segments
from candidates.lists import LARGEST, Candidate, CandidateList, check_text

FORMATS = ("jsonl", "tsv", "lines", "moses", "fairseq")

# The first name of each is canonical; the others are what pear-mt, mbrs and WMT files call it.
ALIASES = {
    "source": ("source", "src"),
    "candidates": ("candidates", "hypotheses", "translations"),
    "references": ("references", "refs"),
    "candidate": ("candidate", "hypothesis", "translation", "text", "mt"),
}
WIDE_COLUMN = re.compile(r"(candidate|hypothesis|translation|mt)_?\d+")


@dataclass(frozen=True, slots=True)
class BadRecord:
    """A segment that could not be read: where it stood, and why."""

    id: str | int
    error: InputError
    source: str = ""


Record = CandidateList | BadRecord


def read_lists(
    path: str | Path,
    *,
    format: str | None = None,
    sources: str | Path | None = None,
    nbest: int | None = None,
    logprobs: str | Path | None = None,
) -> Iterator[Record]:
    """Stream the candidate lists of a file (`-` is standard input, `.gz` is unpacked).

    `format` is guessed from the suffix where it is not given. `lines` and `moses` need the file of sources; for
    `fairseq` it replaces the sources in the file, which may be split into subwords. `nbest` is the number of lines
    per source for `lines`, and elsewhere keeps the first so many candidates. `logprobs` is a file with one
    log-probability per candidate line, for `lines` (what mbrs takes as `--reference_lprobs`).
    """
    format = format or guess_format(path)
    if format not in FORMATS:
        raise UsageError(f"unknown format {format!r}; expected one of {', '.join(FORMATS)}")
    if nbest is not None and nbest < 1:
        raise UsageError(f"nbest {nbest} is not a positive number")
    if logprobs is not None and format != "lines":
        raise UsageError(f"a file of log-probabilities goes with lines; {format} holds its own")
    if format in ("jsonl", "tsv"):
        if sources is not None:
            raise UsageError(f"a file of sources goes with lines, moses and fairseq; {format} holds its own")
        return _read_jsonl(path, nbest) if format == "jsonl" else _read_tsv(path, nbest)
    if format == "fairseq":
        return _read_fairseq(path, nbest) if sources is None else _read_fairseq_with(path, sources, nbest)
    if sources is None:
        raise UsageError(f"the format {format} needs the file of sources (--sources FILE)")
    if format == "moses":
        return _read_moses(path, sources, nbest)
    if nbest is None:
        raise UsageError("the format lines needs the number of candidate lines per source (--nbest N)")
    return _read_parallel(path, sources, nbest, logprobs)


def guess_format(path: str | Path) -> str:
    """The format a file's name promises; an error that asks for it where the name says nothing."""
    suffix = Path(str(path).removesuffix(".gz")).suffix
    known = {
        ".jsonl": "jsonl",
        ".json": "jsonl",
        ".tsv": "tsv",
        ".txt": "lines",
        ".nbest": "moses",
        ".moses": "moses",
    }
    if str(path) == "-":
        return "jsonl"
    if suffix not in known:
        raise UsageError(f"{path}: the name does not tell the format; say --input-format {'|'.join(FORMATS)}")
    return known[suffix]


def _read_jsonl(path: str | Path, nbest: int | None) -> Iterator[Record]:
    index = 0
    for number, raw in raw_lines(path):
        if not raw.strip():
            continue
        try:
            yield _parse_json_record(decode_line(raw, path, number), f"{path}, line {number}", index, nbest)
        except InputError as exc:
            yield _bad(exc, raw, index)
        index += 1


def _parse_json_record(text: str, where: str, index: int, nbest: int | None) -> CandidateList:
    try:
        record = json.loads(text, parse_constant=_no_constant)
    except (json.JSONDecodeError, ValueError) as exc:
        raise InputError(f"{where}: not valid JSON: {exc}") from exc
    except RecursionError as exc:
        raise InputError(f"{where}: JSON nested too deeply") from exc
    if not isinstance(record, dict):
        raise InputError(f'{where}: expected an object like {{"source": ..., "candidates": [...]}}')
    id = record.get("id", index)
    if not isinstance(id, (str, int)) or isinstance(id, bool):
        raise InputError(f"{where}: id must be a text or a whole number, found {id!r}")
    entries = _field(record, "candidates", where)
    references = _field(record, "references", where, default=[])
    source = _field(record, "source", where)
    if not isinstance(entries, list) or not isinstance(references, list):
        raise InputError(f"{where}: candidates and references must be arrays")
    candidates = [_json_candidate(entry, where) for entry in entries[:nbest]]
    try:
        check_text(str(id), "id")
        return CandidateList.of(source, candidates, id=id, references=references)
    except InputError as exc:
        raise InputError(f"{where}: {exc}") from exc


def _json_candidate(entry: Any, where: str) -> Candidate:
    if isinstance(entry, str):
        return Candidate(entry)
    if isinstance(entry, dict) and isinstance(entry.get("text"), str):
        return Candidate(entry["text"], entry.get("logprob"), entry.get("count", 1))
    raise InputError(f'{where}: a candidate is a text or {{"text", "logprob", "count"}}, found {type(entry).__name__}')


def _read_tsv(path: str | Path, nbest: int | None) -> Iterator[Record]:
    rows = lines(path)
    first = next(rows, None)
    if first is None:
        raise InputError(f"{path}: empty; expected a header line such as source<TAB>candidate")
    header = first[1].split("\t")
    wide = [column for column, name in enumerate(header) if WIDE_COLUMN.fullmatch(name)]
    source_column = _column(header, "source", path)
    if wide:
        return _wide_rows(path, rows, header, source_column, wide, nbest)
    return _long_rows(path, rows, header, source_column, nbest)


def _wide_rows(
    path: str | Path,
    rows: Iterator[tuple[int, str]],
    header: list[str],
    source_column: int,
    wide: list[int],
    nbest: int | None,
) -> Iterator[Record]:
    id_column = header.index("id") if "id" in header else None
    for index, (number, row) in enumerate(rows):
        cells = _cells(row, header, path, number)
        id = index if id_column is None else cells[id_column]
        yield _list_or_bad(
            cells[source_column], [Candidate(cells[c]) for c in wide][:nbest], id, f"{path}, line {number}"
        )


def _long_rows(
    path: str | Path,
    rows: Iterator[tuple[int, str]],
    header: list[str],
    source_column: int,
    nbest: int | None,
) -> Iterator[Record]:
    text_column = _column(header, "candidate", path)
    id_column, logprob_column, count_column = (
        header.index(name) if name in header else None for name in ("id", "logprob", "count")
    )
    index = -1
    group: list[Candidate] = []
    key: str | None = None
    source, first_row = "", 0

    def finished() -> Record:
        id = index if id_column is None else str(key)
        return _list_or_bad(source, group[:nbest], id, f"{path}, lines {first_row} to {first_row + len(group) - 1}")

    for number, row in rows:
        cells = _cells(row, header, path, number)
        row_key = cells[source_column if id_column is None else id_column]
        if row_key != key:
            if group:
                yield finished()
            index, key, source, group, first_row = index + 1, row_key, cells[source_column], [], number
        elif cells[source_column] != source:
            raise InputError(f"{path}, line {number}: id {row_key!r} has two different sources")
        where = f"{path}, line {number}"
        logprob = None if logprob_column is None else _number(cells[logprob_column], where, "logprob")
        count = 1 if count_column is None else _whole_number(cells[count_column], where, "count")
        group.append(Candidate(cells[text_column], logprob, count))
    if group:
        yield finished()


def _read_parallel(path: str | Path, sources: str | Path, nbest: int, logprobs: str | Path | None) -> Iterator[Record]:
    candidates = raw_lines(path)
    values: Iterator[float | InputError | None] = repeat(None) if logprobs is None else _logprobs(logprobs)
    index = -1
    for index, (number, raw) in enumerate(raw_lines(sources)):
        block = list(islice(candidates, nbest))
        if len(block) < nbest:
            raise InputError(
                f"{path} ends at line {index * nbest + len(block)}, but source line {number} of {sources} "
                f"needs lines {index * nbest + 1} to {(index + 1) * nbest} ({nbest} per source); "
                "check --nbest and both files"
            )
        numbers = list(islice(values, nbest))
        if len(numbers) < nbest:
            line = index * nbest + len(numbers)
            raise InputError(
                f"{logprobs} ends at line {line}, but {path} has a candidate on line {line + 1}; "
                "expected one log-probability per candidate line; check both files"
            )
        source = ""
        try:
            source = decode_line(raw, sources, number)
            texts = [decode_line(line, path, at) for at, line in block]
            record: Record = CandidateList.of(source, map(_parallel_candidate, texts, numbers), id=index)
        except InputError as exc:
            record = BadRecord(index, exc, source)
        yield record
    extra = next(candidates, None)
    if extra is not None:
        raise InputError(
            f"{path}, line {extra[0]}: more lines than the {index + 1} sources of {sources} "
            f"x {nbest} candidates; check --nbest and both files"
        )
    if logprobs is not None and next(values, None) is not None:
        lines_read = (index + 1) * nbest
        raise InputError(
            f"{logprobs}, line {lines_read + 1}: more lines than the {lines_read} candidates of {path}; "
            "expected one log-probability per candidate line; check both files"
        )


def _parallel_candidate(text: str, logprob: float | InputError | None) -> Candidate:
    if isinstance(logprob, InputError):
        raise logprob
    return Candidate(text, logprob)


def _logprobs(path: str | Path) -> Iterator[float | InputError]:
    """The number of each line, or what is wrong with it: that concerns one segment only."""
    for number, raw in raw_lines(path):
        where = f"{path}, line {number}"
        try:
            cell = decode_line(raw, path, number).strip()
            value = _number(cell, where, "logprob")
            if value is None or not abs(value) < LARGEST:
                raise InputError(f"{where}: logprob {cell!r} is not a finite number; expected one per candidate line")
        except InputError as exc:
            yield exc
        else:
            yield value


def _read_moses(path: str | Path, sources: str | Path, nbest: int | None) -> Iterator[Record]:
    groups = _moses_groups(path)
    id: int | None
    id, group = next(groups, (None, []))
    for number, source in lines(sources):
        index = number - 1
        if index == id:
            yield _list_or_bad(source, group[:nbest], index, f"{path}, id {index}")
            id, group = next(groups, (None, []))
        else:
            error = InputError(f"{path}: segment {index} has no candidates; expected at least one")
            yield BadRecord(index, error, source)
    if id is not None:
        raise InputError(f"{path}: id {id} has no source line in {sources}, which ends before it")


def _moses_groups(path: str | Path) -> Iterator[tuple[int, list[Candidate]]]:
    current = -1
    group: list[Candidate] = []
    for number, line in lines(path):
        where = f"{path}, line {number}"
        fields = line.split("|||")
        if len(fields) < 2:
            raise InputError(f"{where}: expected `id ||| text ||| features ||| score`, found no `|||`")
        id = _whole_number(fields[0].strip(), where, "id", least=0)
        if id < current:
            raise InputError(f"{where}: id {id} after {current}; ids must not go back")
        if id > current:
            if group:
                yield current, group
            current, group = id, []
        score = _number(fields[3].strip(), where, "score") if len(fields) > 3 else None
        group.append(Candidate(fields[1].removeprefix(" ").removesuffix(" "), score))
    if group:
        yield current, group


def _read_fairseq(path: str | Path, nbest: int | None) -> Iterator[Record]:
    for index, segment in enumerate(segments(path)):
        if segment.id != index:
            raise InputError(
                f"{path}: id {index} is missing, but id {segment.id} is there (line {segment.line}); expected ids "
                "from 0 without gaps, or the file of sources that tells what was left out (--sources FILE)"
            )
        if segment.source is None:
            raise InputError(
                f"{path}, line {segment.line}: id {index} has no S- line; expected one for each id, "
                "or the file of sources (--sources FILE)"
            )
        yield _fairseq_record(segment, segment.source, path, nbest)


def _read_fairseq_with(path: str | Path, sources: str | Path, nbest: int | None) -> Iterator[Record]:
    found = segments(path)
    segment = next(found, None)
    for number, source in lines(sources):
        index = number - 1
        if segment is not None and segment.id == index:
            yield _fairseq_record(segment, source, path, nbest)
            segment = next(found, None)
        else:
            error = InputError(f"{path}: segment {index} has no candidates; expected at least one")
            yield BadRecord(index, error, source)
    if segment is not None:
        raise InputError(
            f"{path}, line {segment.line}: id {segment.id} has no source line in {sources}, which ends before it"
        )


def _fairseq_record(segment: Segment, source: str, path: str | Path, nbest: int | None) -> Record:
    references = () if segment.reference is None else (segment.reference,)
    where = f"{path}, line {segment.line}"
    return _list_or_bad(source, segment.candidates[:nbest], segment.id, where, references)


def _list_or_bad(
    source: str, candidates: list[Candidate], id: str | int, where: str, references: Iterable[str] = ()
) -> Record:
    try:
        return CandidateList.of(source, candidates, id=id, references=references)
    except InputError as exc:
        return BadRecord(id, InputError(f"{where}: {exc}"), source)


def _bad(error: InputError, raw: bytes, index: int) -> BadRecord:
    """Keep what can be known of a broken JSON line, so that output stays aligned with the input."""
    try:
        record = json.loads(raw)
        id = record.get("id", index)
        source = str(_field(record, "source", "", default=""))
        check_text(source + str(id), "")
        return BadRecord(id if isinstance(id, (str, int)) else index, error, source)
    except (ValueError, AttributeError, RecursionError):
        return BadRecord(index, error)


def _field(record: dict[str, Any], name: str, where: str, default: Any = None) -> Any:
    for alias in ALIASES[name]:
        if alias in record:
            return record[alias]
    if default is not None:
        return default
    raise InputError(f"{where}: no {name!r} (or {', '.join(ALIASES[name][1:])}) in the record")


def _column(header: list[str], name: str, path: str | Path) -> int:
    for alias in ALIASES[name]:
        if alias in header:
            return header.index(alias)
    raise InputError(f"{path}, line 1: no column {' or '.join(ALIASES[name])} in the header {header!r:.200}")


def _cells(row: str, header: list[str], path: str | Path, number: int) -> list[str]:
    cells = row.split("\t")
    if len(cells) != len(header):
        raise InputError(f"{path}, line {number}: {len(cells)} cells, but the header has {len(header)} columns")
    return cells


def _number(cell: str, where: str, name: str) -> float | None:
    if not cell:
        return None
    try:
        return float(cell)
    except ValueError as exc:
        raise InputError(f"{where}: {name} {cell!r} is not a number") from exc


def _whole_number(cell: str, where: str, name: str, least: int = 1) -> int:
    if not cell.isascii() or not cell.isdigit() or len(cell) > 15 or int(cell) < least:
        raise InputError(f"{where}: {name} {cell!r:.40} is not a whole number of at least {least} and reasonable size")
    return int(cell)


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is not a JSON number")
