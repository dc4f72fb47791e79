"""Candidate lists as files: a table of formats, and one module per format with reading and writing side by side.

A module is imported when its format is used. It holds `read(path, nbest, ...)` and, where the format is also written,
`HEADER`, `render` and `render_failure`. What one list looks like (`render_list`) is apart from where it goes
(`write_lists`, or a journal).

>>> from candidates.lists import CandidateList
>>> render_list(CandidateList.of("A dog.", ["Ein Hund.", "Der Hund."]), "lines", 0)
b'Ein Hund.\\nDer Hund.\\n'
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol, cast

from candidates.common.errors import UsageError
from candidates.common.text import atomic_output, check_present
from candidates.formats.records import BadRecord, Record, single_line
from candidates.lists import CandidateList

__all__ = [
    "INPUT_FORMATS",
    "OUTPUT_FORMATS",
    "BadRecord",
    "Record",
    "guess_format",
    "read_lists",
    "render_failure",
    "render_header",
    "render_list",
    "write_lists",
]


@dataclass(frozen=True, slots=True)
class Format:
    """One row of the table.

    Args:
        module: where the format is read and written.
        suffixes: of its files, before an optional `.gz`.
        companions: files that stand beside the lists: `sources`, `logprobs`.
        written: whether we also write the format.
    """

    module: str
    suffixes: tuple[str, ...] = ()
    companions: tuple[str, ...] = ()
    written: bool = True


FORMATS = {
    "jsonl": Format("candidates.formats.jsonl", (".jsonl", ".json")),
    "tsv": Format("candidates.formats.tsv", (".tsv",)),
    "lines": Format("candidates.formats.lines", (".txt",), ("sources", "logprobs")),
    "moses": Format("candidates.formats.moses", (".nbest", ".moses"), ("sources",)),
    "fairseq": Format("candidates.formats.fairseq", (), ("sources",), written=False),
}
INPUT_FORMATS = tuple(FORMATS)
OUTPUT_FORMATS = tuple(name for name, format in FORMATS.items() if format.written)
_COMPANIONS = {"sources": "a file of sources", "logprobs": "a file of log-probabilities"}


class _Writer(Protocol):
    """What the module of a written format holds."""

    HEADER: bytes

    def render(self, item: CandidateList, *, index: int, lines: int | None) -> bytes: ...

    def render_failure(self, record: BadRecord, *, nbest: int) -> bytes: ...


def read_lists(
    path: str | Path,
    *,
    format: str | None = None,
    sources: str | Path | None = None,
    nbest: int | None = None,
    logprobs: str | Path | None = None,
) -> Iterator[Record]:
    """Stream the candidate lists of a file.

    Args:
        path: the file; `-` is standard input, `.gz` is unpacked.
        format: one of `INPUT_FORMATS`; by default it follows from the suffix.
        sources: the file of sources that `lines` and `moses` need; for `fairseq` it replaces the sources in the file,
            which may be split into subwords.
        nbest: for `lines` the number of lines per source, elsewhere the number of candidates to keep, the first ones.
        logprobs: a file with one log-probability per candidate line, for `lines` (mbrs's `--reference_lprobs`).

    Yields:
        A `CandidateList` per segment, or a `BadRecord` where it cannot be used.

    Raises:
        UsageError: the options do not fit the format.
        InputError: the file cannot be read, or its structure (header, line counts, order of ids) does not fit.
    """
    format = format or _format_to_read(path)
    if format not in FORMATS:
        raise UsageError(f"unknown format {format!r}; expected one of {', '.join(INPUT_FORMATS)}")
    if nbest is not None and nbest < 1:
        raise UsageError(f"nbest {nbest} is not a positive number")
    companions = {"sources": sources, "logprobs": logprobs}
    for name, file in companions.items():
        if file is not None and name not in FORMATS[format].companions:
            takers = ", ".join(other for other in FORMATS if name in FORMATS[other].companions)
            raise UsageError(f"{_COMPANIONS[name]} goes with {takers}; {format} holds its own, so leave the file out")
    accepted = {name: companions[name] for name in FORMATS[format].companions}
    module: Any = import_module(FORMATS[format].module)
    return cast(Iterator[Record], module.read(path, nbest, **accepted))


def write_lists(
    path: str | Path,
    lists: Iterable[CandidateList],
    *,
    format: str | None = None,
    sources: str | Path | None = None,
    force: bool = False,
) -> None:
    """Write candidate lists so that `read_lists` gives them back; the file appears when it is complete.

    Args:
        path: the file; `.gz` is compressed.
        lists: any number, streamed.
        format: one of `OUTPUT_FORMATS`; by default it follows from the suffix.
        sources: the file for the sources of `lines` and `moses`, which hold none.
        force: overwrite existing files.

    Raises:
        InputError: a text holds what the format cannot (a line break, a tab, `|||`).
    """
    format = format or guess_format(path)
    writer = _writer(format)
    with atomic_output(path, force=force) as stream:
        stream.write(writer.HEADER)
        if "sources" not in FORMATS[format].companions:
            for index, item in enumerate(lists):
                stream.write(writer.render(item, index=index, lines=None))
            return
        if sources is None:
            raise UsageError(f"the format {format} needs a second file for the sources (sources=FILE)")
        with atomic_output(sources, force=force) as source_stream:
            for index, item in enumerate(lists):
                source_stream.write(single_line(item.source, item.id).encode() + b"\n")
                stream.write(writer.render(item, index=index, lines=None))


def guess_format(path: str | Path) -> str:
    """The format that a file's name stands for; standard input (`-`) is JSONL.

    Raises:
        UsageError: no format has this suffix.
    """
    if str(path) == "-":
        return "jsonl"
    suffix = Path(str(path).removesuffix(".gz")).suffix
    for name, format in FORMATS.items():
        if suffix in format.suffixes:
            return name
    suffixes = ", ".join(suffix for format in FORMATS.values() for suffix in format.suffixes)
    raise UsageError(
        f"{path}: no format has this suffix; expected one of {suffixes}, or --input-format {'|'.join(INPUT_FORMATS)}"
    )


def _format_to_read(path: str | Path) -> str:
    try:
        return guess_format(path)
    except UsageError:
        check_present(path)  # a missing file is the first thing to say
        raise


def render_header(format: str) -> bytes:
    """What comes before the first list of a file."""
    return _writer(format).HEADER


def render_list(item: CandidateList, format: str, index: int, lines: int | None = None) -> bytes:
    """One list as it stands in a file, final line break included.

    Args:
        item: the list.
        format: one of `OUTPUT_FORMATS`.
        index: the list's place in the file, the id of the format `moses`.
        lines: the number of lines per source that a file in the format `lines` has throughout; a list of another
            length raises InputError. The other formats take lists of any length.
    """
    return _writer(format).render(item, index=index, lines=lines)


def render_failure(record: BadRecord, format: str, nbest: int) -> bytes:
    """What stands for a segment that failed, so that the others keep their places.

    In JSONL a record with the error and no candidates; in `lines` as many empty lines as candidates were requested
    (`nbest`); nothing in TSV and Moses lists, where ids keep the segments apart.
    """
    return _writer(format).render_failure(record, nbest=nbest)


def _writer(format: str) -> _Writer:
    if format not in OUTPUT_FORMATS:
        expected = ", ".join(OUTPUT_FORMATS)
        if format in FORMATS:
            raise UsageError(f"the format {format} is read and not written; to write, choose one of {expected}")
        raise UsageError(f"unknown format {format!r}; expected one of {expected}")
    module: Any = import_module(FORMATS[format].module)
    return cast(_Writer, module)
