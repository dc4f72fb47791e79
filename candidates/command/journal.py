"""Output files that survive a kill: written beside their final names, committed every second, published whole.

During a run `NAME.partial` grows beside the real file (symbolic links are followed), and `NAME.progress` records how
much of it is valid: segments done, bytes per file, a digest of the input so far. A run that is killed and resumed cuts
the partial files back to the last commit, checks that input and settings are the same, and continues; the published
files have the same bytes as those of an uninterrupted run. Under the final names there is never anything but a complete
file.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import io
import json
import math
import os
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self, TypeVar

from candidates.common.errors import InputError, MbrError, UsageError
from candidates.common.text import (
    OutputFile,
    atomic_output,
    check_output,
    disk_errors,
    publish,
    refuse_overwrite,
    regular_target,
    remove_debris,
)
from candidates.common.words import counted

Item = TypeVar("Item")
Publisher = Callable[[Path, Path], None]


@dataclass(frozen=True)
class Commit:
    """How much of the partial files is valid: segments done, failed ones among them, bytes per file, input digest."""

    segments: int
    failed: int
    sizes: list[int]
    digest: str


class Journal:
    """The files of one run. Use it with `with`: leaving it by an error keeps what was committed, for `resume`."""

    def __init__(
        self,
        files: list[Path],
        settings: dict[str, Any],
        *,
        resume: bool = False,
        force: bool = False,
        keep_on_error: bool = True,
    ) -> None:
        for path in files:
            check_output(path, force=True)  # what can be overwritten is decided below
        self.files = files
        self.settings = settings
        self._seconds = seconds_between_commits()
        self._partials = [partial_path(path) for path in files]
        self._progress_path = progress_path(files[0])
        self._digest = hashlib.blake2b(digest_size=16)
        # Digests of the input up to each segment that was read but not yet written: a generator reads ahead.
        self._digests: deque[str] = deque()
        self._streams: list[IO[bytes]] = []
        self._finishing = False
        self._keep = keep_on_error
        interrupted = self._progress_path.exists() and keep_on_error
        if interrupted and not resume and not force:
            raise UsageError(
                f"an interrupted run left {self._progress_path}; give --resume to continue it, or --force to start anew"
            )
        if not (interrupted and resume):
            for path in files:
                refuse_overwrite(path, force=force)
        self.last = self._read_progress() if interrupted and resume else Commit(0, 0, [0] * len(files), "")

    def __enter__(self) -> Self:
        with disk_errors(self._progress_path):
            self._progress = self._progress_path.open("a+b")
            try:
                _lock(self._progress, self.files[0])
                if self.last.segments:
                    self.last = self._read_progress()  # now that no other process can write it
            except BaseException:
                self._progress.close()  # releases the lock; the files belong to another process, or are damaged
                raise
        try:
            with disk_errors(self._progress_path):
                self._cut_progress()
            for path, size in zip(self._partials, self.last.sizes, strict=True):
                with disk_errors(path):
                    path.touch()
                    stream = io.BufferedRandom(OutputFile(path, "r+", shown=path))
                    self._streams.append(stream)
                    stream.truncate(size)
                    stream.seek(size)
        except BaseException:
            self._close()
            if not self.last.segments:
                self._remove()
            raise
        self._written = self.last
        self._committed_at = time.monotonic()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._finishing:  # published, or stopped on the way with everything committed
            return
        try:
            self.commit()
        except (OSError, MbrError):
            pass  # a full disk: the last commit stands
        finally:
            self._close()
        if not (self.last.segments and self._keep):
            self._remove()

    def skip_done(self, items: Iterable[Item]) -> Iterator[Item]:
        """The items not yet done. Those done before are read again and must be the same as then."""
        return islice(self.checked(items), self.last.segments, None)

    def checked(self, items: Iterable[Item]) -> Iterator[Item]:
        """All items; those done before must be the same as then, which shows when the last of them is read."""
        done = self.last
        read = 0
        for item in items:
            self._digest.update(repr(item).encode("utf-8", "surrogatepass"))
            read += 1
            if read > done.segments:
                self._digests.append(self._digest.hexdigest())
            elif read == done.segments and self._digest.hexdigest() != done.digest:
                raise InputError(
                    f"the first {counted(done.segments, 'segment')} of the input changed since the interrupted run; "
                    "give --force instead of --resume to start anew"
                )
            yield item
        if read < done.segments:
            raise InputError(f"the input has {read} segments, but {done.segments} were done before; did it change?")

    @property
    def failed(self) -> int:
        """Failed segments of the whole run, those before an interruption included."""
        return self._written.failed

    @property
    def digest(self) -> str:
        """Of the input up to the last segment that was written."""
        return self._written.digest

    def write(self, chunks: list[bytes], segments: int, failed: int = 0) -> None:
        """Append to each file its chunk for the next `segments` items, and commit if it is time."""
        digest = self._written.digest
        for _ in range(segments):
            digest = self._digests.popleft()
        for stream, chunk in zip(self._streams, chunks, strict=True):
            stream.write(chunk)
        sizes = [size + len(chunk) for size, chunk in zip(self._written.sizes, chunks, strict=True)]
        self._written = Commit(self._written.segments + segments, self._written.failed + failed, sizes, digest)
        if time.monotonic() - self._committed_at >= self._seconds:
            self.commit()

    def commit(self) -> None:
        """Sync everything written so far to disk and record it: a resumed run continues from here."""
        for path, stream in zip(self._partials, self._streams, strict=True):
            with disk_errors(path):
                stream.flush()
                os.fsync(stream.fileno())
        self._append_progress(asdict(self._written))
        self.last = self._written
        self._committed_at = time.monotonic()

    def finish(self, publishers: list[Publisher]) -> None:
        """Publish the files, the first one last: when it is there, the run is complete."""
        self.commit()
        self._finishing = True
        self._close()
        for partial, final, put in reversed(list(zip(self._partials, self.files, publishers, strict=True))):
            put(partial, final)
        self._remove()

    def _cut_progress(self) -> None:
        """Start the progress file anew, or cut off a line that a kill left unfinished."""
        self._progress.seek(0)
        whole = self._progress.read().rfind(b"\n") + 1 if self.last.segments else 0
        self._progress.truncate(whole)
        if not whole:
            self._append_progress({"settings": self.settings})

    def _append_progress(self, record: dict[str, Any]) -> None:
        with disk_errors(self._progress_path):
            self._progress.write(json.dumps(record).encode() + b"\n")
            self._progress.flush()
            os.fsync(self._progress.fileno())

    def _read_progress(self) -> Commit:
        lines = self._progress_path.read_bytes().split(b"\n")[:-1]  # a line without its end was never finished
        nothing = Commit(0, 0, [0] * len(self.files), "")
        if not lines:
            return nothing
        try:
            header, *commits = [json.loads(line) for line in lines]
            before = dict(header["settings"])
            last = _parsed_commit(commits[-1], files=len(self.files)) if commits else nothing
        except (ValueError, KeyError, TypeError) as exc:
            raise InputError(f"{self._progress_path}: not a progress file: {exc}; give --force to start anew") from exc
        changed = [key for key in {**before, **self.settings} if before.get(key) != self.settings.get(key)]
        if changed:
            key = changed[0]
            raise UsageError(
                f"the interrupted run had {key} {before.get(key)!r}, this one has {self.settings.get(key)!r}; resume "
                "with the same settings, or give --force to start anew"
            )
        for path, final, size in zip(self._partials, self.files, last.sizes, strict=True):
            if not path.exists() and final.is_file() and final.stat().st_size == size:
                os.replace(regular_target(final), path)  # killed while publishing, when this file had its name already
            # Killed before the first commit, a run may not have made its files yet.
            if size and (not path.exists() or path.stat().st_size < size):
                raise InputError(f"{path} is missing or shorter than recorded; give --force to start anew")
        # Without a segment there may be headers, which a resumed run writes again.
        return last if last.segments else nothing

    def _close(self) -> None:
        # Not all may have been opened.
        for path, stream, size in zip(self._partials, self._streams, self.last.sizes, strict=False):
            try:
                stream.close()
            except (OSError, MbrError):
                pass  # what the full disk did not take was never committed
            finally:
                os.truncate(path, size)
        with contextlib.suppress(OSError):
            self._progress.close()

    def _remove(self) -> None:
        """The progress file goes last: while it is there, a kill in here is an interruption that a resume cleans up."""
        for path in self.files:
            remove_debris(path)
        for path in [*self._partials, self._progress_path]:
            with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                path.unlink()


def seconds_between_commits() -> float:
    """From the environment: a short interval costs time; a long one loses more work in a kill."""
    seconds = os.environ.get("MBR_COMMIT_SECONDS", "1")
    try:
        value = float(seconds)
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf:
        raise UsageError(f"MBR_COMMIT_SECONDS {seconds!r} is not a number of seconds; correct or unset it")
    return value


def _parsed_commit(record: dict[str, Any], *, files: int) -> Commit:
    commit = Commit(**record)
    numbers = [commit.segments, commit.failed, *commit.sizes]
    if len(commit.sizes) != files or any(type(number) is not int or number < 0 for number in numbers):
        raise ValueError(f"expected counts and {files} file sizes, found {record}")
    return commit


def _lock(stream: IO[bytes], output: Path) -> None:
    """One process at a time: a job that is slow to die must not cut the file of the one that took over."""
    try:
        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as exc:
        raise UsageError(f"another process is writing {output}; wait for it, or stop it") from exc


def beside(file: Path, suffix: str) -> Path:
    """The file with this suffix beside the real file that a name leads to."""
    real = Path(os.path.realpath(file))
    return real.with_name(real.name + suffix)


def partial_path(file: Path) -> Path:
    return beside(file, ".partial")


def progress_path(first_file: Path) -> Path:
    return beside(first_file, ".progress")


def recorded_settings(first_file: Path) -> dict[str, Any] | None:
    """The settings of an interrupted run on this file; None where there is none, or none that can be read."""
    try:
        with progress_path(first_file).open("rb") as stream:
            return dict(json.loads(stream.readline())["settings"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def was_interrupted(files: list[Path]) -> bool:
    """Whether a run on these files waits to be resumed.

    A run killed after its first file was published, but before it had cleaned up, is complete: its traces are removed.
    """
    first = files[0]
    if not progress_path(first).exists():
        return False
    if partial_path(first).exists() or not first.exists():
        return True
    for path in [*map(partial_path, files), progress_path(first)]:
        path.unlink(missing_ok=True)
    return False


def publish_as_is(partial: Path, final: Path) -> None:
    """Rename, or compress under a `.gz` name."""
    if final.suffix != ".gz":
        publish(partial, final)
        return
    with atomic_output(final, force=True) as target, partial.open("rb") as source:
        while block := source.read(1 << 20):
            target.write(block)
