"""Text files as this project reads and writes them: strict UTF-8, lines that end at `\\n` and nowhere else.

A `\\r`, U+2028 or form feed inside a translation is content, so Python's universal newlines are never used. Only in a
file whose first line ends with `\\r\\n` (Windows) a `\\r` before `\\n` belongs to the end of the line.
`-` is standard input or output, `.gz` is read and written by suffix. Outputs appear whole or not at all:
they are written beside their real file, synced to disk, then renamed. Commands call `check_output` for each of their
outputs before any work; what is neither a regular file nor a new name is refused and never replaced.
"""

from __future__ import annotations

import errno
import gzip
import io
import os
import re
import stat
import sys
import unicodedata
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, cast

from candidates.common.arrivals import Arrivals, arrives, standard_arrivals
from candidates.common.errors import InputError, MbrError, ResourceError, UsageError
from candidates.common.notes import note

UNPRINTABLE = ("Cc", "Cs", "Zl", "Zp")  # control characters, bytes that are no text, line separators
BOM = b"\xef\xbb\xbf"
TEMPORARY = ".tmp"
STREAMS = ("/dev/stdout", "/dev/stderr", "/dev/fd/", "/proc/self/fd/")
KINDS = {
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
}
LONGEST_SUFFIX = 24  # of the names of temporary files and of files beside an output
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
UNWRITABLE = (
    *(errno.ENOENT, errno.EACCES, errno.EROFS, errno.ENOTDIR, errno.EPERM),
    *(errno.EISDIR, errno.ELOOP, errno.ENAMETOOLONG),
)


def check_present(path: str | Path) -> None:
    """Refuse a file that is not there, before its name is taken for that of a format; `-` is standard input."""
    if str(path) != "-" and not os.path.lexists(path):
        raise InputError(f"{path}: cannot be read: {os.strerror(errno.ENOENT)}")


def raw_lines(path: str | Path, *, keep_bom: bool = False) -> Iterator[tuple[int, bytes]]:
    """Yield (line number from 1, bytes without the end of the line), streaming; a byte order mark is left out."""
    try:
        with _open_binary(path) as stream:
            yield from numbered_lines(stream, path, keep_bom=keep_bom)
    except (gzip.BadGzipFile, zlib.error, EOFError) as exc:
        raise InputError(f"{path}: not a complete gzip file ({exc}); was it cut off?") from exc
    except OSError as exc:
        raise InputError(f"{path}: cannot be read: {exc.strerror or exc}") from exc


def numbered_lines(stream: Iterable[bytes], path: str | Path, *, keep_bom: bool = False) -> Iterator[tuple[int, bytes]]:
    """The same of an open stream; `path` is its name in messages.

    The first line decides on `\\r`, so that a stream needs no look ahead: where it ends with `\\r\\n`, one `\\r` is
    removed before each `\\n`, and a note is logged; elsewhere a `\\r` at the end of a line is content.
    """
    end = b"\n"
    for number, line in enumerate(stream, 1):
        if number == 1:
            line = line if keep_bom else line.removeprefix(BOM)
            if line.endswith(b"\r\n"):
                end = b"\r\n"
                note(f"{shown(path)}: lines end with CR LF, as on Windows; the CR is not taken as text")
        yield number, line.removesuffix(end).removesuffix(b"\n")


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


def check_output(
    path: str | Path, *, force: bool = False, inputs: Iterable[str | Path | None] = (), folder: bool = False
) -> Path:
    """The real file (or folder) behind the name of an output, for a command to call before it reads or loads anything.

    Args:
        path: the name; symbolic links are followed, also those to files that do not exist yet.
        force: an existing file may be overwritten.
        inputs: files and folders that the command reads, which are never overwritten; `-` is standard input, None is
            left out.
        folder: the output is a folder, which may exist; folders above it are made.

    Raises:
        UsageError: the name leads to a device, a pipe, a socket, an input, an existing file (without `force`), or to a
            place that cannot be written to.
    """
    path = Path(path)
    target = regular_target(path)
    if not folder:
        refuse_overwrite(path, force=force)
    elif target.exists() and not target.is_dir():
        raise UsageError(f"{path} is a file; expected the name of a folder to write")
    _check_place(path, target, make=folder)
    for name in inputs:
        if name is not None and _is_input(target, name, folder=folder):
            kind = "standard input" if str(name) == "-" else f"the input {name}"
            raise UsageError(f"{path} is (or lies in) {kind}, which would be overwritten; give another name to write")
    return target


@contextmanager
def atomic_output(path: str | Path, *, force: bool = False) -> Iterator[IO[bytes]]:
    """Write a file that appears under its name only when it is complete.

    An error or a kill on the way leaves nothing under the final name, and an error leaves no temporary
    file either. An existing file is refused without `force`. A symbolic link stays, and what it points to is written.
    """
    path = Path(path)
    target = check_output(path, force=force)
    temporary = target.with_name(f".{target.name}.{os.getpid()}{TEMPORARY}")
    try:
        with disk_errors(path):
            raw = io.BufferedWriter(OutputFile(temporary, "w", shown=path))
        with raw:
            with _compressed(raw, path) as stream, _own_story():
                yield stream
            with disk_errors(path):
                raw.flush()
                os.fsync(raw.fileno())
        publish(temporary, target)
    finally:
        with suppress(OSError):  # it was never made, and the error with the reason must not be replaced
            temporary.unlink()


@contextmanager
def _own_story() -> Iterator[None]:
    """A full disk stays one where a library ends with an error of its own for it, as torch.save does."""
    try:
        yield
    except MbrError:
        raise
    except Exception as exc:
        cause = exc.__context__
        if isinstance(cause, ResourceError):
            raise ResourceError(str(cause)) from exc
        raise


class OutputFile(io.FileIO):
    """A file open for writing, whose errors name it and no other file.

    Args:
        file: its path, or an open descriptor, which stays open.
        mode: as of `io.FileIO`.
        shown: its name in messages.
    """

    def __init__(self, file: Path | int, mode: str, *, shown: str | Path) -> None:
        super().__init__(file, mode, closefd=not isinstance(file, int))
        self.shown = shown

    def write(self, data: Any) -> int:
        with disk_errors(self.shown):
            return super().write(data)


def shown(path: str | Path) -> str:
    """The name of an input in messages."""
    return "standard input" if str(path) == "-" else str(path)


def printable(name: str) -> bool:
    """Whether a name can stand in a table: it holds no control character."""
    return not any(unicodedata.category(letter) in UNPRINTABLE for letter in name)


def regular_target(path: Path) -> Path:
    """The file or folder behind a name, through symbolic links; it need not exist.

    Raises:
        UsageError: a device, a pipe or a socket, which cannot appear whole and must not be replaced; a loop of links;
            a name that the system refuses.
    """
    if str(path).startswith(STREAMS):
        raise UsageError(f"{path} is not a regular file; leave out -o to write to standard output")
    with disk_errors(path):
        try:
            kind = KINDS.get(stat.S_IFMT(os.stat(path).st_mode))
        except (FileNotFoundError, NotADirectoryError):  # a new name, or a link to one
            kind = None
        except ValueError as exc:
            raise UsageError(f"{str(path)!r} is no name of a file: {exc}; give another name") from exc
        except OSError as exc:
            if exc.errno == errno.ELOOP:
                raise UsageError(f"{path} is a symbolic link that leads back to itself; give another name") from exc
            raise
    if kind:
        raise UsageError(
            f"{path} is {kind}, which is never replaced; expected the name of a regular file, or no -o and a shell's "
            "redirection (>)"
        )
    return Path(os.path.realpath(path))


def _check_place(path: Path, target: Path, *, make: bool) -> None:
    """Refuse an output whose folder is missing (and not made), no folder, or not writable."""
    place = target if target.is_dir() else target.parent
    while make and not os.path.exists(place):
        place = place.parent
    if not os.path.exists(place):
        above = next(folder for folder in place.parents if os.path.exists(folder))
        number = errno.ENOENT if above.is_dir() else errno.ENOTDIR
    elif not place.is_dir():
        number = errno.ENOTDIR
    elif not os.access(place, os.W_OK | os.X_OK):
        number = errno.EROFS if os.statvfs(place).f_flag & os.ST_RDONLY else errno.EACCES
    elif len(os.fsencode(target.name)) + LONGEST_SUFFIX > os.pathconf(place, "PC_NAME_MAX"):
        number = errno.ENAMETOOLONG
    else:
        return
    with disk_errors(path):
        raise OSError(number, os.strerror(number))


def _is_input(target: Path, name: str | Path, *, folder: bool) -> bool:
    """Whether writing the target would overwrite this input, or a part of it."""
    try:
        written = os.stat(target)
        if str(name) == "-":
            return sys.stdin is not None and os.path.samestat(os.fstat(sys.stdin.fileno()), written)
        read = os.stat(name)
    except (OSError, ValueError):  # one of them does not exist
        return False
    real = Path(os.path.realpath(name))
    return os.path.samestat(written, read) or (target in real.parents if folder else real in target.parents)


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
    """Rename into place, and sync the folder so that the name survives a power cut. A link stays."""
    final = regular_target(final)
    with disk_errors(final):
        os.replace(temporary, final)
        folder = os.open(final.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


@contextmanager
def disk_errors(path: str | Path) -> Iterator[None]:
    """Turn the OSError of a full disk into ResourceError and that of an unwritable place into UsageError.

    Libraries in Rust (safetensors, tokenizers) raise exceptions of their own, whose texts hold the system's number.
    """
    try:
        yield
    except (BrokenPipeError, MbrError):
        raise
    except Exception as exc:
        number = exc.errno if isinstance(exc, OSError) else _number_of(exc)
        if number in FULL:
            reason = os.strerror(number)
            raise ResourceError(f"no space left while writing {path}: {reason}; free some space and run again") from exc
        if number in UNWRITABLE:
            raise UsageError(f"cannot write {path}: {os.strerror(number)}; check the folder") from exc
        raise


def _number_of(error: Exception) -> int | None:
    match = re.search(r"\(os error (\d+)\)", str(error))
    return int(match[1]) if match else None


def _open_binary(path: str | Path) -> IO[bytes] | Arrivals:
    if str(path) == "-":
        if sys.stdin is None:
            raise InputError("standard input is closed; name a file")
        return standard_arrivals() if arrives() else open(sys.stdin.fileno(), "rb", closefd=False)
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


def yaml_problem(error: Exception) -> str:
    """What is wrong with a YAML text and where, in one line; the error's own message draws the place over several."""
    mark = getattr(error, "problem_mark", None)
    parts = [part for name in ("context", "problem") if (part := getattr(error, name, None))]
    reason = ": ".join(parts) or " ".join(str(error).split())
    return reason if mark is None else f"line {mark.line + 1}, column {mark.column + 1}: {reason}"
