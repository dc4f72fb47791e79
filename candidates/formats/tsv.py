"""TSV with a header, in two layouts; cells are literal, without quoting.

- long: one candidate per row (`source`, `candidate`, optional `id`, `logprob`, `count`). Neighbouring rows of one id
  are a list; without ids, neighbouring rows of one source, and a note is logged.
- wide: one source per row (`source`, `candidate_1`, `candidate_2`, ..., optional `id`). Empty cells at the end of a row
  end its list; an empty cell before a candidate is refused.

Both are read; the long layout is written. `src` is read as `source`, and `candidate` has other names too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from candidates.common.errors import InputError
from candidates.common.notes import note
from candidates.common.text import lines as text_lines
from candidates.common.text import shown
from candidates.common.words import counted
from candidates.formats.records import (
    SOURCE_NAMES,
    BadRecord,
    Record,
    list_or_bad,
    parse_number,
    parse_whole_number,
    render_logprob,
    single_line,
)
from candidates.lists import Candidate, CandidateList

COLUMNS = ("id", "source", "candidate", "logprob", "count")
HEADER = "\t".join(COLUMNS).encode() + b"\n"
CANDIDATE_NAMES = ("candidate", "hypothesis", "translation", "text", "mt")
WIDE_COLUMN = re.compile(r"(candidate|hypothesis|translation|mt)_?\d+")


def read(path: str | Path, nbest: int | None) -> Iterator[Record]:
    """Stream the lists of either layout."""
    rows = text_lines(path)
    first = next(rows, None)
    if first is None:
        raise InputError(f"{path}: empty; expected a header line such as source<TAB>candidate")
    header = first[1].split("\t")
    if len(set(header)) < len(header):
        twice = next(name for name in header if header.count(name) > 1)
        raise InputError(
            f"{path}, line 1: {header.count(twice)} columns are called {twice!r:.40}; expected different names: "
            "candidate_1, candidate_2, ... for several candidates per row"
        )
    candidate_columns = [column for column, name in enumerate(header) if WIDE_COLUMN.fullmatch(name)]
    source_column = _column(header, SOURCE_NAMES, path)
    if candidate_columns:
        return _wide_rows(path, rows, header, source_column, candidate_columns, nbest)
    return _long_rows(path, rows, header, source_column, nbest)


def render(item: CandidateList, *, index: int, lines: int | None) -> bytes:
    """One row per candidate; rows carry the list's own id, so `index` and `lines` do not matter."""
    rows = []
    for candidate in item.listed():
        cells = [str(item.id), item.source, candidate.text, render_logprob(candidate.logprob), str(candidate.count)]
        rows.append("\t".join(single_line(cell, item.id, "\t\n") for cell in cells) + "\n")
    return "".join(rows).encode()


def render_failure(record: BadRecord, *, nbest: int) -> bytes:
    """Nothing: ids keep the other segments apart."""
    return b""


def _column(header: list[str], names: Sequence[str], path: str | Path) -> int:
    """The one column with one of these names."""
    present = [name for name in names if name in header]
    if not present:
        raise InputError(f"{path}, line 1: no column {' or '.join(names)} in the header {header!r:.200}")
    if len(present) > 1:
        raise InputError(
            f"{path}, line 1: the columns {' and '.join(present)} both stand for the {names[0]}; expected one of them; "
            "rename the other"
        )
    return header.index(present[0])


def _cells(row: str, header: list[str], path: str | Path, number: int) -> list[str]:
    cells = row.split("\t")
    if len(cells) != len(header):
        raise InputError(
            f"{path}, line {number}: {counted(len(cells), 'cell')}, but the header has {len(header)} columns"
        )
    return cells


def _wide_rows(
    path: str | Path,
    rows: Iterator[tuple[int, str]],
    header: list[str],
    source_column: int,
    candidate_columns: list[int],
    nbest: int | None,
) -> Iterator[Record]:
    id_column = header.index("id") if "id" in header else None
    for index, (number, row) in enumerate(rows):
        cells = _cells(row, header, path, number)
        id = index if id_column is None else cells[id_column]
        texts = [cells[column] for column in candidate_columns]
        while texts and not texts[-1]:
            texts.pop()
        if "" in texts:
            column = header[candidate_columns[texts.index("")]]
            error = InputError(
                f"{path}, line {number}, column {column}: empty, but candidates follow; expected empty cells only "
                "after the last candidate of a row"
            )
            yield BadRecord(id, error, cells[source_column])
        else:
            yield list_or_bad(cells[source_column], map(Candidate, texts[:nbest]), id, f"{path}, line {number}")


def _long_rows(
    path: str | Path,
    rows: Iterator[tuple[int, str]],
    header: list[str],
    source_column: int,
    nbest: int | None,
) -> Iterator[Record]:
    text_column = _column(header, CANDIDATE_NAMES, path)
    id_column, logprob_column, count_column = (
        header.index(name) if name in header else None for name in ("id", "logprob", "count")
    )
    if id_column is None:
        note(
            f"{shown(path)} has no column id: neighbouring rows with the same source are one list; where two lists in "
            "a row have the same source, give each an id"
        )
    index = -1
    group: list[Candidate] = []
    key: str | None = None
    source, first_row = "", 0

    def record() -> Record:
        id = index if id_column is None else str(key)
        return list_or_bad(source, group[:nbest], id, f"{path}, lines {first_row} to {first_row + len(group) - 1}")

    for number, row in rows:
        cells = _cells(row, header, path, number)
        row_key = cells[source_column if id_column is None else id_column]
        if row_key != key:
            if group:
                yield record()
            index, key, source, group, first_row = index + 1, row_key, cells[source_column], [], number
        elif cells[source_column] != source:
            raise InputError(f"{path}, line {number}: id {row_key!r} has two different sources")
        where = f"{path}, line {number}"
        logprob = None if logprob_column is None else parse_number(cells[logprob_column], where, "logprob")
        count = 1 if count_column is None else parse_whole_number(cells[count_column], where, "count", least=1)
        group.append(Candidate(cells[text_column], logprob, count))
    if group:
        yield record()
