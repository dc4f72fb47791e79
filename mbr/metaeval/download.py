"""The official data of WMT's metrics tasks, from the archive that the official toolkit publishes.

One archive holds all test sets. It is fetched once, in pieces if need be: an interrupted download continues where it
stopped, if the server still has the same file. Its SHA-256 must be the expected one before anything is unpacked. Of the
archive only the test set that was asked for is unpacked, and its folder appears complete or not at all.

The archive is replaced from time to time, and its publisher names no checksum; so callers give one, or waive the check.
"""

from __future__ import annotations

import hashlib
import http.client
import json
import os
import shutil
import tarfile
import urllib.error
import urllib.request
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path, PurePosixPath
from urllib.parse import urlsplit

from candidates.common.errors import InputError, MbrError, ResourceError, UsageError
from candidates.common.version import __version__
from pear.data.folders import is_test_set

URL = "https://data.statmt.org/wmt26/mt-metrics-eval-v2.tgz"
URL_VARIABLE, CHECKSUM_VARIABLE = "MBR_METAEVAL_URL", "MBR_METAEVAL_SHA256"
UNCHECKED = "none"  # in place of a checksum: the archive is not checked
PIECE = 2**20
SECONDS = 30.0  # without an answer
ATTEMPTS = 3
PARTIAL, VALIDATOR, REFUSED = ".partial", ".partial.json", ".refused"
Progress = Callable[[Iterable[int], int, int | None], Iterable[int]]  # pieces, bytes already there, all bytes


class DownloadError(MbrError):
    """The data could not be fetched, or is not what was expected."""

    exit_code = InputError.exit_code


def fetch_test_set(
    name: str,
    folder: str | Path,
    *,
    url: str | None = None,
    checksum: str | None = None,
    progress: Progress = lambda pieces, begin, size: pieces,
    report: Callable[[str], None] = lambda message: None,
) -> Path:
    """Fetch the archive into a folder if it is not there, and unpack a test set.

    Args:
        name: of the test set, such as wmt24.
        folder: for the archive and the test sets.
        url: of the archive; by default $MBR_METAEVAL_URL, else `URL`.
        checksum: its SHA-256, or "none"; by default $MBR_METAEVAL_SHA256.
        progress: wraps the pieces of a download.
        report: receives what is done.

    Returns:
        The folder of the test set.

    Raises:
        UsageError: no checksum was given, or the names cannot be used.
        DownloadError: the server cannot be reached or has no such file, or the archive is not the expected one.
    """
    address = url or os.environ.get(URL_VARIABLE) or URL
    expected = _checked_sum(checksum or os.environ.get(CHECKSUM_VARIABLE))
    if not name or name != PurePosixPath(name).name or name in (".", ".."):
        raise UsageError(f"--download {name!r}: expected the name of a test set, such as wmt24")
    root = Path(folder)
    target = root / name
    if is_test_set(target):
        report(f"{target} is there already")
        return target
    if target.exists():
        raise UsageError(f"{target} exists and is no test set; move it away, or name another folder with --data")
    archive = root / (PurePosixPath(urlsplit(address).path).name or "archive.tgz")
    try:
        root.mkdir(parents=True, exist_ok=True)
        if not archive.is_file():
            fetch(address, archive, progress=progress, report=report)
        _verify(archive, expected, address, report)
        _unpack(archive, name, target)
    except OSError as exc:
        raise ResourceError(f"{root}: {exc.strerror or exc}; is there room, and may files be written there?") from exc
    return target


def fetch(
    url: str,
    target: Path,
    *,
    progress: Progress = lambda pieces, begin, size: pieces,
    report: Callable[[str], None] = lambda message: None,
) -> None:
    """Fetch a file; it appears under its name when it is complete. What was fetched before is not fetched again."""
    if urlsplit(url).scheme not in ("http", "https"):
        raise UsageError(f"{url}: expected an address that begins with http:// or https://")
    partial = target.with_name(target.name + PARTIAL)
    failure: Exception | None = None
    for _ in range(ATTEMPTS):
        before = _size(partial)
        try:
            _fetch_rest(url, partial, progress, report)
            partial.replace(target)
            partial.with_name(target.name + VALIDATOR).unlink(missing_ok=True)
            return
        except (http.client.HTTPException, ConnectionError, TimeoutError, urllib.error.URLError) as exc:
            if isinstance(exc, urllib.error.HTTPError):
                raise _refused(url, exc) from exc
            failure = exc
            if _size(partial) <= before:  # not a byte came: another attempt would not help
                break
    got = _size(partial)
    reason = getattr(failure, "reason", failure)
    if not got:
        raise DownloadError(
            f"{url} cannot be reached ({reason}); check the network, name another address with --url or "
            f"${URL_VARIABLE}, or copy the data into the folder by other means"
        ) from failure
    raise DownloadError(
        f"{url}: interrupted after {got} bytes ({reason}); run the same command again, it goes on from there"
    ) from failure


def _fetch_rest(url: str, partial: Path, progress: Progress, report: Callable[[str], None]) -> None:
    """Append what is missing; from the beginning where the server's file is not the one that was begun."""
    begin, validator = _size(partial), _validator(partial)
    headers = {"User-Agent": f"mbr-decode/{__version__}", "Accept-Encoding": "identity"}
    if begin and validator:
        headers |= {"Range": f"bytes={begin}-", "If-Range": validator}
    try:
        response = urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=SECONDS)
    except urllib.error.HTTPError as exc:
        if exc.code != http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
            raise
        exc.close()
        partial.unlink(missing_ok=True)  # it is longer than the file on the server
        _fetch_rest(url, partial, progress, report)
        return
    with response:
        goes_on = response.status == http.HTTPStatus.PARTIAL_CONTENT
        begin = begin if goes_on else 0
        if goes_on:
            report(f"going on after {begin} bytes")
        length = response.headers.get("Content-Length")
        size = begin + int(length) if length and length.isdecimal() else None
        _keep_validator(partial, response.headers.get("ETag") or response.headers.get("Last-Modified"))
        with partial.open("ab" if goes_on else "wb") as stream:

            def pieces() -> Iterator[int]:
                while piece := response.read(PIECE):
                    stream.write(piece)
                    yield len(piece)

            for _ in progress(pieces(), begin, size):
                pass
        if size is not None and _size(partial) < size:
            raise http.client.IncompleteRead(b"", size - _size(partial))


def _refused(url: str, exc: urllib.error.HTTPError) -> DownloadError:
    exc.close()
    return DownloadError(
        f"{url}: the server answers {exc.code} {exc.reason}; the archive may have moved: name its address with --url "
        f"or ${URL_VARIABLE}"
    )


def _checked_sum(text: str | None) -> str | None:
    """The expected checksum; None where the archive is not to be checked."""
    if text is None:
        raise UsageError(
            "no checksum of the archive was given, and its publisher names none; expected the SHA-256 that you "
            f"trust (--checksum or ${CHECKSUM_VARIABLE}), or --checksum {UNCHECKED} to skip the check and print the sum"
        )
    if text.lower() == UNCHECKED:
        return None
    if len(text) != 64 or set(text.lower()) - set("0123456789abcdef"):
        raise UsageError(f"--checksum {text!r:.80}: expected the 64 hexadecimal digits of a SHA-256, or {UNCHECKED}")
    return text.lower()


def _verify(archive: Path, expected: str | None, url: str, report: Callable[[str], None]) -> None:
    digest = hashlib.sha256()
    with archive.open("rb") as stream:
        while piece := stream.read(PIECE):
            digest.update(piece)
    actual = digest.hexdigest()
    if expected is None:
        report(f"{archive.name} has the SHA-256 {actual}; keep it for --checksum")
    elif actual != expected:
        refused = archive.with_name(archive.name + REFUSED)
        archive.replace(refused)
        raise DownloadError(
            f"{url}: the SHA-256 is {actual}, expected {expected}; the file is now {refused.name} and is not used. The "
            "archive may have been replaced by a newer one: ask its publisher, and give the new sum with --checksum"
        )


def _unpack(archive: Path, name: str, target: Path) -> None:
    """The members below a folder of this name, wherever it is in the archive; links and devices are left out."""
    temporary = target.with_name(f".{name}.{os.getpid()}.unpacking")
    others: set[str] = set()
    try:
        with tarfile.open(archive, "r:*") as stream:
            for entry in stream:
                parts = PurePosixPath(entry.name).parts
                if len(parts) > 2 and ".." not in parts:
                    others.add(parts[1])
                if name not in parts[:2] or ".." in parts or not entry.isfile():
                    continue
                place = temporary.joinpath(*parts[parts.index(name) + 1 :])
                content = stream.extractfile(entry)
                assert content is not None
                place.parent.mkdir(parents=True, exist_ok=True)
                with content, place.open("wb") as output:
                    shutil.copyfileobj(content, output, PIECE)
        if not is_test_set(temporary):
            raise DownloadError(f"{archive}: no test set {name!r}; found {', '.join(sorted(others)) or 'none'}")
        temporary.replace(target)
    except (tarfile.TarError, EOFError, zlib.error) as exc:
        raise DownloadError(f"{archive}: no readable archive ({exc}); remove it and fetch it again") from exc
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _size(path: Path) -> int:
    with suppress(OSError):
        return path.stat().st_size
    return 0


def _validator(partial: Path) -> str | None:
    """The mark of the server's file (ETag or date) when its download began."""
    try:
        value = json.loads(partial.with_name(partial.name.removesuffix(PARTIAL) + VALIDATOR).read_text())["validator"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return value if isinstance(value, str) else None


def _keep_validator(partial: Path, validator: str | None) -> None:
    path = partial.with_name(partial.name.removesuffix(PARTIAL) + VALIDATOR)
    path.write_text(json.dumps({"validator": validator}))
