"""Parallel lines: N candidate lines per source line, the sources in a file of their own; what mbrs reads.

Log-probabilities may come in a third file, one per candidate line (mbrs's `--reference_lprobs`). Counts have no place
in this format: a text drawn k times stands on k lines.

>>> from candidates.lists import CandidateList
>>> render(CandidateList.of("A dog.", ["Ein Hund.", "Der Hund."]), index=0, lines=2)
b'Ein Hund.\\nDer Hund.\\n'
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice, repeat
from pathlib import Path

from candidates.common.errors import InputError, UsageError
from candidates.common.text import decode_line, raw_lines
from candidates.formats.records import BadRecord, Record, parse_number, single_line
from candidates.lists import LARGEST, Candidate, CandidateList

HEADER = b""


def read(
    path: str | Path, nbest: int | None, *, sources: str | Path | None, logprobs: str | Path | None
) -> Iterator[Record]:
    """Stream the lists of exactly `nbest` lines per line of `sources`.

    Raises:
        UsageError: no sources or no `nbest`.
        InputError: the files do not fit in number of lines.
    """
    if sources is None:
        raise UsageError("the format lines needs the file of sources (--sources FILE)")
    if nbest is None:
        raise UsageError("the format lines needs the number of candidate lines per source (--nbest N)")
    return _records(path, sources, nbest, logprobs)


def render(item: CandidateList, *, index: int, lines: int | None) -> bytes:
    """One line per candidate; `lines` is how many every list of the file must have, None for any number."""
    entries = sum(item.counts)
    if lines is not None and entries != lines:
        raise InputError(
            f"segment {item.id!r} has {entries} candidates, but the format lines needs exactly {lines} per source; "
            "use jsonl, which holds lists of any length"
        )
    return "".join((single_line(entry.text, item.id) + "\n") * entry.count for entry in item.listed()).encode()


def render_failure(record: BadRecord, *, nbest: int) -> bytes:
    """Empty lines, as many as candidates were requested, so that later lists keep their places."""
    return b"\n" * nbest


def _records(path: str | Path, sources: str | Path, nbest: int, logprobs: str | Path | None) -> Iterator[Record]:
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
        block_values = list(islice(values, nbest))
        if len(block_values) < nbest:
            line = index * nbest + len(block_values)
            raise InputError(
                f"{logprobs} ends at line {line}, but {path} has a candidate on line {line + 1}; "
                "expected one log-probability per candidate line; check both files"
            )
        source = ""
        try:
            source = decode_line(raw, sources, number)
            texts = [decode_line(line, path, at) for at, line in block]
            record: Record = CandidateList.of(source, map(_candidate, texts, block_values), id=index)
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


def _logprobs(path: str | Path) -> Iterator[float | InputError]:
    """The number on each line, or the error in its place: a bad number concerns one segment only."""
    for number, raw in raw_lines(path):
        where = f"{path}, line {number}"
        try:
            cell = decode_line(raw, path, number).strip()
            value = parse_number(cell, where, "logprob")
            if value is None or not abs(value) < LARGEST:
                raise InputError(
                    f"{where}: logprob {cell!r:.80} is not a finite number; expected one per candidate line"
                )
        except InputError as exc:
            yield exc
        else:
            yield value


def _candidate(text: str, logprob: float | InputError | None) -> Candidate:
    if isinstance(logprob, InputError):
        raise logprob
    return Candidate(text, logprob)
