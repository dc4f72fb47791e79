"""Moses n-best lists: `id ||| text ||| features ||| score`, the sources in a file of their own.

Ids count the lines of the file of sources from 0 and never go back. The score is taken as the log-probability.
Counts have no place in this format: a text drawn k times stands on k lines.

>>> from candidates.lists import CandidateList
>>> render(CandidateList.of("A dog.", ["Ein Hund."]), index=7, lines=None)
b'7 ||| Ein Hund. |||  ||| \\n'
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from candidates.common.errors import InputError, UsageError
from candidates.common.text import lines as text_lines
from candidates.formats.records import (
    BadRecord,
    Record,
    Segment,
    join_sources,
    parse_number,
    parse_whole_number,
    render_logprob,
    single_line,
)
from candidates.lists import Candidate, CandidateList

HEADER = b""
SEPARATOR = "|||"


def read(path: str | Path, nbest: int | None, *, sources: str | Path | None) -> Iterator[Record]:
    """Stream one record per line of `sources`; a source without candidates is a `BadRecord`.

    Raises:
        UsageError: no sources.
        InputError: a line that is not of this format, an id that goes back or has no source.
    """
    if sources is None:
        raise UsageError("the format moses needs the file of sources (--sources FILE)")
    return join_sources(_segments(path), path, sources, nbest)


def render(item: CandidateList, *, index: int, lines: int | None) -> bytes:
    """One line per candidate; the id is the list's place in the file, `index`."""
    rows = []
    for candidate in item.listed():
        if SEPARATOR in candidate.text:
            raise InputError(
                f"segment {item.id!r}: a candidate holds `|||`, which the format moses cannot; "
                "use jsonl, which holds any text"
            )
        text = single_line(candidate.text, item.id)
        rows.append(f"{index} ||| {text} |||  ||| {render_logprob(candidate.logprob)}\n" * candidate.count)
    return "".join(rows).encode()


def render_failure(record: BadRecord, *, nbest: int) -> bytes:
    """Nothing: ids keep the other segments apart."""
    return b""


def _segments(path: str | Path) -> Iterator[Segment]:
    segment: Segment | None = None
    for number, line in text_lines(path):
        where = f"{path}, line {number}"
        fields = line.split(SEPARATOR)
        if len(fields) < 2:
            raise InputError(f"{where}: expected `id ||| text ||| features ||| score`, found no `|||`")
        id = parse_whole_number(fields[0].strip(), where, "id", least=0)
        if segment is not None and id < segment.id:
            raise InputError(f"{where}: id {id} after {segment.id}; expected ascending ids; sort the file by id")
        if segment is None or id > segment.id:
            if segment is not None:
                yield segment
            segment = Segment(id, number)
        score = parse_number(fields[3].strip(), where, "score") if len(fields) > 3 else None
        segment.candidates.append(Candidate(fields[1].removeprefix(" ").removesuffix(" "), score))
    if segment is not None:
        yield segment
