"""Candidate lists to files, streaming, in the formats that `files.py` reads (`fairseq` aside, which fairseq prints).

What one list looks like (`render_list`) is apart from where it goes (`write_lists`, or a journal).

    >>> render_list(CandidateList.of("A dog.", ["Ein Hund.", "Der Hund."]), "lines", 0)
    b'Ein Hund.\\nDer Hund.\\n'
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from candidates.common.errors import InputError, UsageError
from candidates.common.text import atomic_output
from candidates.formats.files import BadRecord, guess_format
from candidates.lists import CandidateList

OUTPUT_FORMATS = ("jsonl", "tsv", "lines", "moses")
_COLUMNS = ("id", "source", "candidate", "logprob", "count")


def write_lists(
    path: str | Path,
    lists: Iterable[CandidateList],
    *,
    format: str | None = None,
    sources: str | Path | None = None,
    force: bool = False,
) -> None:
    """Write candidate lists so that `read_lists` gives them back; the file appears when it is complete.

    `lines` and `moses` hold no sources: they go to the file `sources`. A text that the format cannot hold
    (a line break, a tab, `|||`) is an error that names it.
    """
    format = format or guess_format(path)
    _check_format(format)
    with atomic_output(path, force=force) as stream:
        stream.write(header(format))
        if format in ("jsonl", "tsv"):
            for index, item in enumerate(lists):
                stream.write(render_list(item, format, index))
            return
        if sources is None:
            raise UsageError(f"the format {format} needs a second file for the sources")
        with atomic_output(sources, force=force) as source_stream:
            for index, item in enumerate(lists):
                source_stream.write(_plain(item.source, item.id, "\n").encode() + b"\n")
                stream.write(render_list(item, format, index))


def header(format: str) -> bytes:
    """What stands before the first list."""
    _check_format(format)
    return "\t".join(_COLUMNS).encode() + b"\n" if format == "tsv" else b""


def render_list(item: CandidateList, format: str, index: int, lines: int | None = None) -> bytes:
    """One list as it stands in a file, final line break included; `index` is its place in the file (the Moses id).

    `lines` is the number of lines per source that a file in the format `lines` has throughout: a list of another
    length is an error. The other formats take lists of any length.
    """
    _check_format(format)
    if format == "jsonl":
        return _json_record(item)
    if format == "tsv":
        return _tsv_rows(item)
    if format == "moses":
        return _moses_lines(item, index)
    entries = sum(item.counts)
    if lines is not None and entries != lines:
        raise InputError(
            f"segment {item.id!r} has {entries} candidates, but the format lines needs exactly {lines} per source; "
            "use jsonl, which holds lists of any length"
        )
    return _parallel_lines(item)


def render_failure(record: BadRecord, format: str, nbest: int) -> bytes:
    """What stands for a segment that could not be generated: whatever keeps the others in their places.

    In JSONL a record with the error and no candidates; in `lines` as many empty lines as candidates were asked for;
    nothing in TSV and Moses lists, where ids tell the segments apart.
    """
    _check_format(format)
    if format == "lines":
        return b"\n" * nbest
    if format != "jsonl":
        return b""
    # A message may quote a file name that is not UTF-8; a failure must not fail.
    message = str(record.error).encode(errors="backslashreplace").decode()
    return _json_line({"id": record.id, "source": record.source, "candidates": [], "error": message})


def _json_record(item: CandidateList) -> bytes:
    record: dict[str, Any] = {"id": item.id, "source": item.source, "candidates": _json_entries(item)}
    if item.references:
        record["references"] = list(item.references)
    return _json_line(record)


def _json_line(record: dict[str, Any]) -> bytes:
    return json.dumps(record, ensure_ascii=False).encode() + b"\n"


def _json_entries(item: CandidateList) -> list[Any]:
    entries: list[Any] = []
    for candidate in item.listed():
        entry: dict[str, Any] = {"text": candidate.text}
        if candidate.logprob is not None:
            entry["logprob"] = candidate.logprob
        if candidate.count != 1:
            entry["count"] = candidate.count
        entries.append(entry if len(entry) > 1 else candidate.text)
    return entries


def _tsv_rows(item: CandidateList) -> bytes:
    rows = []
    for candidate in item.listed():
        logprob = "" if candidate.logprob is None else repr(candidate.logprob)
        cells = [str(item.id), item.source, candidate.text, logprob, str(candidate.count)]
        rows.append("\t".join(_plain(cell, item.id, "\t\n") for cell in cells) + "\n")
    return "".join(rows).encode()


# The formats below have no room for a count: a text drawn k times stands k times.


def _parallel_lines(item: CandidateList) -> bytes:
    return "".join((_plain(entry.text, item.id, "\n") + "\n") * entry.count for entry in item.listed()).encode()


def _moses_lines(item: CandidateList, index: int) -> bytes:
    rows = []
    for candidate in item.listed():
        if "|||" in candidate.text:
            raise InputError(f"segment {item.id!r}: a candidate holds `|||`, which the Moses format cannot")
        score = "" if candidate.logprob is None else repr(candidate.logprob)
        row = f"{index} ||| {_plain(candidate.text, item.id, chr(10))} |||  ||| {score}\n"
        rows.append(row * candidate.count)
    return "".join(rows).encode()


def _plain(text: str, id: str | int, forbidden: str) -> str:
    for character in forbidden:
        if character in text:
            raise InputError(f"segment {id!r}: a text holds {character!r}, which this format cannot; use jsonl")
    return text


def _check_format(format: str) -> None:
    expected = ", ".join(OUTPUT_FORMATS)
    if format == "fairseq":
        raise UsageError(
            f"fairseq is a format to read, the output of fairseq itself; to write, choose one of {expected}"
        )
    if format not in OUTPUT_FORMATS:
        raise UsageError(f"unknown format {format!r}; expected one of {expected}")
