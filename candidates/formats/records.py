"""What the formats share: the record that a reader yields, and how cells and sources are read and written.

A reader yields a `CandidateList` or, for a segment that cannot be used, a `BadRecord`, so that a caller can stop at
it or skip it. A file whose structure does not fit (line counts, header, order of ids) raises at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from candidates.common.errors import InputError
from candidates.common.text import lines
from candidates.lists import Candidate, CandidateList

SOURCE_NAMES = ("source", "src")  # of a JSON field or a TSV column
MOST_DIGITS = 15  # of a whole number in a text file


@dataclass(frozen=True, slots=True)
class BadRecord:
    """A segment without a usable list: its id, the error, and the source where it could be read."""

    id: str | int
    error: InputError
    source: str = ""


Record = CandidateList | BadRecord


@dataclass(slots=True)
class Segment:
    """The candidates of one numeric id as they stand in a file; `line` is the first line of them."""

    id: int
    line: int
    source: str | None = None
    reference: str | None = None
    candidates: list[Candidate] = field(default_factory=list)

    def record(self, source: str, path: str | Path, nbest: int | None) -> Record:
        references = () if self.reference is None else (self.reference,)
        return list_or_bad(source, self.candidates[:nbest], self.id, f"{path}, line {self.line}", references)


def join_sources(
    segments: Iterator[Segment], path: str | Path, sources: str | Path, nbest: int | None
) -> Iterator[Record]:
    """One record per line of the file `sources`; segments come in ascending order of id, which counts lines from 0.

    A source without a segment is a `BadRecord`.

    Raises:
        InputError: a segment's id is beyond the last source.
    """
    segment = next(segments, None)
    for number, source in lines(sources):
        index = number - 1
        if segment is not None and segment.id == index:
            yield segment.record(source, path, nbest)
            segment = next(segments, None)
        else:
            error = InputError(f"{path}: segment {index} has no candidates; expected at least one")
            yield BadRecord(index, error, source)
    if segment is not None:
        raise InputError(
            f"{path}, line {segment.line}: id {segment.id} has no source line in {sources}, which ends before it; "
            "expected ids that count its lines from 0; check that both files belong together"
        )


def list_or_bad(
    source: str, candidates: Iterable[Candidate], id: str | int, where: str, references: Iterable[str] = ()
) -> Record:
    """The list, or a `BadRecord` whose error begins with `where`."""
    try:
        return CandidateList.of(source, candidates, id=id, references=references)
    except InputError as exc:
        return BadRecord(id, InputError(f"{where}: {exc}"), source)


def parse_number(cell: str, where: str, name: str) -> float | None:
    """The number in a cell; None where the cell is empty."""
    if not cell:
        return None
    try:
        return float(cell)
    except ValueError as exc:
        raise InputError(f"{where}: {name} {cell!r:.40} is not a number; expected one such as -1.25") from exc


def parse_whole_number(cell: str, where: str, name: str, least: int) -> int:
    if not cell.isascii() or not cell.isdigit() or len(cell) > MOST_DIGITS or int(cell) < least:
        raise InputError(
            f"{where}: {name} {cell!r:.40} is not a whole number from {least} to {'9' * MOST_DIGITS}; correct it"
        )
    return int(cell)


def render_logprob(logprob: float | None) -> str:
    """The shortest digits that give back the same float; nothing where the log-probability is unknown."""
    return "" if logprob is None else repr(float(logprob))


def single_line(text: str, id: str | int, forbidden: str = "\n") -> str:
    """The text itself, where it holds none of the characters that separate lines or cells."""
    for character in forbidden:
        if character in text:
            raise InputError(
                f"segment {id!r}: a text holds {character!r}, which this format cannot; use jsonl, which holds any text"
            )
    return text
