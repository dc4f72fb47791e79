"""Candidate lists to files, streaming, in the formats that `files.py` reads."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import IO, Any

from candidates.errors import InputError, UsageError
from candidates.files import FORMATS, guess_format
from candidates.lists import Candidate, CandidateList
from candidates.text import atomic_output


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
    if format not in FORMATS:
        raise UsageError(f"unknown format {format!r}; expected one of {', '.join(FORMATS)}")
    with atomic_output(path, force=force) as stream:
        if format in ("jsonl", "tsv"):
            (_write_jsonl if format == "jsonl" else _write_tsv)(stream, lists)
            return
        if sources is None:
            raise UsageError(f"the format {format} needs a second file for the sources")
        with atomic_output(sources, force=force) as source_stream:
            _write_with_sources(stream, source_stream, lists, _LINE_WRITERS[format])


def _write_jsonl(stream: IO[bytes], lists: Iterable[CandidateList]) -> None:
    for item in lists:
        record: dict[str, Any] = {"id": item.id, "source": item.source, "candidates": _json_entries(item)}
        if item.references:
            record["references"] = list(item.references)
        stream.write(json.dumps(record, ensure_ascii=False).encode() + b"\n")


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


def _write_tsv(stream: IO[bytes], lists: Iterable[CandidateList]) -> None:
    stream.write(b"id\tsource\tcandidate\tlogprob\tcount\n")
    for item in lists:
        for candidate in item.listed():
            logprob = "" if candidate.logprob is None else repr(candidate.logprob)
            cells = [str(item.id), item.source, candidate.text, logprob, str(candidate.count)]
            stream.write("\t".join(_plain(cell, item.id, "\t\n") for cell in cells).encode() + b"\n")


def _write_with_sources(
    stream: IO[bytes],
    sources: IO[bytes],
    lists: Iterable[CandidateList],
    line: Callable[[int, CandidateList, Candidate], str],
) -> None:
    for index, item in enumerate(lists):
        sources.write(_plain(item.source, item.id, "\n").encode() + b"\n")
        for candidate in item.listed():
            # These formats have no room for a count: a text drawn k times stands k times.
            stream.write((line(index, item, candidate) + "\n").encode() * candidate.count)


def _parallel_line(index: int, item: CandidateList, candidate: Candidate) -> str:
    return _plain(candidate.text, item.id, "\n")


def _moses_line(index: int, item: CandidateList, candidate: Candidate) -> str:
    if "|||" in candidate.text:
        raise InputError(f"segment {item.id!r}: a candidate holds `|||`, which the Moses format cannot")
    score = "" if candidate.logprob is None else repr(candidate.logprob)
    return f"{index} ||| {_plain(candidate.text, item.id, chr(10))} |||  ||| {score}"


_LINE_WRITERS = {"lines": _parallel_line, "moses": _moses_line}


def _plain(text: str, id: str | int, forbidden: str) -> str:
    for character in forbidden:
        if character in text:
            raise InputError(f"segment {id!r}: a text holds {character!r}, which this format cannot; use jsonl")
    return text
