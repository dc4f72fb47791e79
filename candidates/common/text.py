"""Text files as this project reads and writes them: strict UTF-8, lines that end at `\\n` and nowhere else.

A `\\r`, U+2028 or form feed inside a translation is content, so Python's universal newlines are never used.
`-` is standard input or output, `.gz` is read and written by suffix. Outputs appear whole or not at all:
they are written beside their final name, synced to disk, then renamed.
"""

from __future__ import annotations

import errno
import gzip
import io
import os
import re
import sys
import unicodedata
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, cast

from candidates.common.errors import InputError, ResourceError, UsageError

UNPRINTABLE = ("Cc", "Cs", "Zl", "Zp")  # control characters, bytes that are no text, line separators
BOM = b"\xef\xbb\xbf"
TEMPORARY = ".tmp"
STREAMS = ("/dev/stdout", "/dev/stderr", "/dev/fd/", "/proc/self/fd/")


def raw_lines(path: str | Path, *, keep_bom: bool = False) -> Iterator[tuple[int, bytes]]:
    """Yield (line number from 1, bytes without the final `\\n`), streaming; a byte order mark is left out."""
    try:
        with _open_binary(path) as stream:
            for number, line in enumerate(stream, 1):
                if number == 1 and not keep_bom:
                    line = line.removeprefix(BOM)
                yield number, line.removesuffix(b"\n")
    except (gzip.BadGzipFile, zlib.error, EOFError) as exc:
        raise InputError(f"{path}: not a complete gzip file ({exc}); was it cut off?") from exc
    except OSError as exc:
        raise InputError(f"{path}: cannot be read: {exc.strerror or exc}") from exc


def decode_line(raw: bytes, path: str | Path, number: int) -> str:
    """Strict UTF-8; the error names file, line and byte."""
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as exc:
        raise InputError(
            f"{path}, line {number}, byte {exc.start + 1}: 0x{raw[exc.start]:02x} is not valid UTF-8; "
            "convert the file to UTF-8 first (iconv -t UTF-8)"
        ) from exc


def lines(path: str | Path, *, keep_bom: bool = False) -> Iterator[tuple[int, str]]:
    """Yield (line number from 1, text), streaming; stops at the first bad byte."""
    for number, raw in raw_lines(path, keep_bom=keep_bom):
        yield number, decode_line(raw, path, number)


@contextmanager
def atomic_output(path: str | Path, *, force: bool = False) -> Iterator[IO[bytes]]:
    """Write a file that appears under its name only when it is complete.

    An error or a kill on the way leaves nothing under the final name, and an error leaves no temporary
    file either. An existing file is refused without `force`. A symbolic link stays, and what it points to is written.
    """
    path = Path(path)
    target = regular_target(path)
    refuse_overwrite(path, force=force)
    temporary = target.with_name(f".{target.name}.{os.getpid()}{TEMPORARY}")
    try:
        with disk_errors(path), temporary.open("wb") as raw:
            with _compressed(raw, path) as stream:
                yield stream
            raw.flush()
            os.fsync(raw.fileno())
        publish(temporary, target)
    finally:
        with suppress(OSError):  # it was never made, and the error that says why must not be replaced
            temporary.unlink()


def printable(name: str) -> bool:
    """Whether a name can stand in a table: it holds no control character."""
    return not any(unicodedata.category(letter) in UNPRINTABLE for letter in name)


def regular_target(path: Path) -> Path:
    """The file behind a name, through symbolic links. A pipe or a device cannot appear whole, and is refused."""
    if str(path).startswith(STREAMS):
        raise InputError(f"{path} is not a regular file; leave out -o to write to standard output")
    target = Path(os.path.realpath(path))
    if target.exists() and not target.is_file() and not target.is_dir():
        raise InputError(f"{path} is a pipe or a device; expected the name of a regular file, or no -o and a shell's >")
    return target


def remove_debris(path: Path) -> None:
    """Remove temporary files of this path, beside the file it links to, that killed processes left behind."""
    path = Path(os.path.realpath(path))
    if not path.parent.is_dir():
        return
    pattern = re.compile(rf"\.{re.escape(path.name)}\.(\d+){re.escape(TEMPORARY)}")
    for entry in path.parent.iterdir():
        match = pattern.fullmatch(entry.name)
        if match and not _is_alive(int(match[1])):
            entry.unlink(missing_ok=True)


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True
    return True


def refuse_overwrite(path: Path, *, force: bool) -> None:
    """An existing file is overwritten only by force; a folder never."""
    if path.is_dir():
        raise UsageError(f"{path} is a folder; expected the name of a file to write")
    if path.exists() and not force:
        raise UsageError(f"{path} exists; give --force to overwrite it, or another name")


def publish(temporary: Path, final: Path) -> None:
    """Rename into place, and sync the folder so that the name survives a power cut."""
    with disk_errors(final):
        os.replace(temporary, final)
        folder = os.open(final.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


@contextmanager
def disk_errors(path: Path) -> Iterator[None]:
    """Turn the OSError of a full disk into ResourceError and that of an unwritable folder into UsageError."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as exc:
        if exc.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise ResourceError(
                f"no space left while writing {path}: {exc.strerror}; free some space and run again"
            ) from exc
        if exc.errno in (errno.ENOENT, errno.EACCES, errno.EROFS, errno.ENOTDIR, errno.EPERM):
            raise UsageError(f"cannot write {path}: {exc.strerror}; check the folder") from exc
        raise


def _open_binary(path: str | Path) -> IO[bytes]:
    if str(path) == "-":
        if sys.stdin is None:
            raise InputError("standard input is closed; name a file")
        return open(sys.stdin.fileno(), "rb", closefd=False)
    if str(path).endswith(".gz"):
        return io.BufferedReader(gzip.open(path, "rb"))
    return open(path, "rb")


@contextmanager
def _compressed(raw: IO[bytes], path: Path) -> Iterator[IO[bytes]]:
    if path.suffix != ".gz":
        yield raw
        return
    # No name and no time in the header: the same content gives the same bytes.
    with gzip.GzipFile(filename="", mode="wb", fileobj=raw, mtime=0) as stream:
        yield cast(IO[bytes], stream)
