"""Tables as annotation campaigns publish them: CSV or TSV, plain, gzipped, or one file inside a `.tar.gz`.

Rows come out as dictionaries with the line they stood on. UTF-8 is strict and a TSV cell is raw text (no quoting),
so that a stray quotation mark cannot swallow the rows behind it.
"""

from __future__ import annotations

import csv
import gzip
import re
import tarfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from candidates.common.errors import InputError
from candidates.common.text import decode_line, lines, numbered_lines
from candidates.common.words import counted

Row = tuple[str, dict[str, str]]  # where it stood ("file, line 7"), cells by column

# Only to find "ende" or "ru-en" in the middle of a file's name, where any four letters could stand.
LANGUAGES = {"cs", "de", "en", "es", "et", "fi", "fr", "gu", "ha", "he", "hi", "is", "ja", "kk", "km", "lt", "lv"}
LANGUAGES |= {"mr", "ne", "pl", "ps", "ro", "ru", "si", "ta", "tr", "uk", "zh"}


def is_archive(path: str | Path) -> bool:
    return str(path).endswith((".tar.gz", ".tgz"))


def table_lines(path: str | Path, suffix: str = ".tsv") -> Iterator[tuple[int, str]]:
    """The lines of a file, or of the one file with this suffix inside an archive."""
    return _archived_lines(Path(path), suffix) if is_archive(path) else lines(path)


def members(path: Path) -> list[str]:
    """The names of the files in an archive."""
    with _broken(path), _archive(path) as archive:
        return [entry.name for entry in _files(archive)]


def member(path: Path, suffix: str) -> str:
    """The name of the one file in an archive that ends with `suffix`."""
    with _broken(path), _archive(path) as archive:
        return _only(archive, path, suffix).name


def tsv_rows(path: str | Path, suffix: str = ".tsv") -> Iterator[Row]:
    """The rows under a header of tab-separated names. Columns whose name begins with `#` are remarks."""
    rows = table_lines(path, suffix)
    first = next(rows, None)
    if first is None or not first[1].strip():
        raise _empty(path)
    header = [name for name in first[1].split("\t") if not name.startswith("#")]
    twice = [name for name in header if header.count(name) > 1]
    if twice:
        raise InputError(f"{path}: two columns are called {twice[0]!r:.40}; expected different names")
    count = 0
    for number, line in rows:
        if not line.strip():
            continue
        cells = line.split("\t")
        if len(cells) != len(header):
            raise InputError(
                f"{path}, line {number}: {counted(len(cells), 'cell')}, but the header has {len(header)} columns; "
                "expected the same; is a tab inside a text?"
            )
        count += 1
        yield f"{path}, line {number}", dict(zip(header, cells, strict=True))
    if not count:
        raise _empty(path)


def csv_rows(path: str | Path) -> Iterator[Row]:
    """The rows under a header, with the quoting of RFC 4180."""
    reader = csv.reader((f"{line}\n" for _, line in lines(path)), strict=True)
    count = 0
    try:
        header = next(reader, None)
        if not header:
            raise _empty(path)
        for cells in reader:
            if not cells:
                continue
            where = f"{path}, line {reader.line_num}"
            if len(cells) != len(header):
                raise InputError(
                    f"{where}: {counted(len(cells), 'cell')}, but the header has {len(header)} columns; "
                    "expected the same; is a comma unquoted?"
                )
            count += 1
            yield where, dict(zip(header, cells, strict=True))
    except csv.Error as exc:
        raise InputError(f"{path}, line {reader.line_num}: not valid CSV: {exc}; check its quotes") from exc
    if not count:
        raise _empty(path)


def column(cells: dict[str, str], names: Sequence[str], where: str) -> str:
    """The first of these columns that the table has."""
    for name in names:
        if name in cells:
            return cells[name]
    raise InputError(
        f"{where}: no column {' or '.join(names)} among {', '.join(cells)!r:.200}; "
        "is the format right? (csv, mqm, sxs, da)"
    )


def optional(cells: dict[str, str], names: Sequence[str], default: str = "") -> str:
    return next((cells[name] for name in names if name in cells), default)


def lp_from_name(name: str) -> str:
    """The language pair in a file's name ("en-de-mqm.csv", "mqm_ted_ende.tsv"), or ""."""
    name = Path(name).name
    begins = re.match(r"([a-z]{2,3})[-_]([a-z]{2,3})[-_.]", name)
    if begins and set(begins.groups()) & LANGUAGES:
        return f"{begins[1]}-{begins[2]}"
    for source, target in re.findall(r"(?<![A-Za-z])(?=([a-z]{2})[-_]?([a-z]{2})(?![A-Za-z]))", name):
        if {source, target} <= LANGUAGES and "en" in (source, target):
            return f"{source}-{target}"
    return ""


def _empty(path: str | Path) -> InputError:
    return InputError(f"{path}: no rows; expected a header and at least one row; was the download cut off?")


def _archived_lines(path: Path, suffix: str) -> Iterator[tuple[int, str]]:
    with _broken(path), _archive(path) as archive:
        entry = _only(archive, path, suffix)
        stream = archive.extractfile(entry)
        assert stream is not None  # a regular file, by `_only`
        name = f"{path} ({entry.name})"
        for number, raw in numbered_lines(stream, name):
            yield number, decode_line(raw, name, number)


def _archive(path: Path) -> tarfile.TarFile:
    return tarfile.open(path, "r:gz")


@contextmanager
def _broken(path: Path) -> Iterator[None]:
    """Give a damaged archive and a missing file their own words."""
    try:
        yield
    except (tarfile.TarError, gzip.BadGzipFile, zlib.error, EOFError) as exc:
        raise InputError(f"{path}: not a complete .tar.gz archive ({exc}); was it cut off?") from exc
    except OSError as exc:
        raise InputError(f"{path}: cannot be read: {exc.strerror or exc}") from exc


def _files(archive: tarfile.TarFile) -> list[tarfile.TarInfo]:
    # Archives packed on a Mac carry a `._name` beside each file.
    return [entry for entry in archive if entry.isfile() and not Path(entry.name).name.startswith("._")]


def _only(archive: tarfile.TarFile, path: Path, suffix: str) -> tarfile.TarInfo:
    files = _files(archive)
    fitting = [entry for entry in files if entry.name.endswith(suffix)]
    if len(fitting) != 1:
        names = ", ".join(entry.name for entry in files)
        raise InputError(
            f"{path}: {len(fitting)} files end with {suffix!r} among {names!r:.200}; expected one; "
            "unpack the archive and name the file"
        )
    return fitting[0]
