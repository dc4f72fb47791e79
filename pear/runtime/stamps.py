"""What changes whenever the files of a model do, and what was computed of all weights, remembered by it.

To name a local checkpoint all of its weights are read and digested, which takes seconds for a large one. The result is
kept in the cache folder by a stamp of the files: their paths, sizes, times and inodes. A note that cannot be read,
written or trusted only means that the weights are read again.

    stamp = Stamp.of(folder)                          # before the files are read
    remembered(stamp, key, lambda: digest_of(weights))
"""

from __future__ import annotations

import contextlib
import hashlib
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from candidates.common.cache import cache_folder
from candidates.common.errors import MbrError
from candidates.common.text import atomic_output
from candidates.common.version import __version__

MOST_FILES = 200  # of a model; a folder with more holds other things
RECENT = 2.0  # seconds; a file that was changed just now may change once more within a tick of the file system's clock


@dataclass(frozen=True)
class Stamp:
    """The files of a model as they were at one moment; without `text` they cannot be told apart from others."""

    root: Path
    text: str | None
    changed: float  # when the last of them did, in seconds

    @classmethod
    def of(cls, root: Path) -> Stamp:
        """Of a file, or of all files of a folder."""
        try:
            places = [root] if root.is_file() else list(islice(root.rglob("*"), 2 * MOST_FILES))
            files = sorted(file.resolve() for file in places if file.is_file())
            changed = max((max(file.stat().st_mtime, file.stat().st_ctime) for file in files), default=0.0)
            text = "\n".join(f"{file} {stamp_file(file)}" for file in files)
        except OSError:
            return cls(root, None, 0.0)
        return cls(root, text if files and len(places) <= MOST_FILES else None, changed)

    @property
    def holds(self) -> bool:
        """Whether the files are what they were, and a change would show in their times."""
        return self.text is not None and time.time() - self.changed > RECENT and Stamp.of(self.root) == self


def stamp_file(file: Path) -> str:
    """Includes the time of the last change (ctime), which cannot be set back as the modification time can."""
    status = file.stat()
    return f"{status.st_size} {status.st_mtime_ns} {status.st_ctime_ns} {status.st_ino}"


def remembered(stamp: Stamp, key: bytes, compute: Callable[[], str]) -> str:
    """What `compute` returns, a word, for these files; from the cache folder where it is known.

    Args:
        stamp: of the files, taken before they were read.
        key: everything else that the word depends on.
    """
    if not stamp.holds:
        return compute()
    import torch

    digest = hashlib.blake2b(key, digest_size=16)
    for part in (__version__, torch.__version__, stamp.text):
        digest.update(f"\n{part}".encode())
    name = digest.hexdigest()
    try:
        file = cache_folder() / "fingerprints" / name
    except RuntimeError:  # a user without a home folder
        return compute()
    word = _read(file)
    if word is None:
        word = compute()
        with contextlib.suppress(OSError, MbrError):
            file.parent.mkdir(parents=True, exist_ok=True)
            with atomic_output(file, force=True) as stream:
                stream.write(_line(name, word).encode())
    return word


def _read(file: Path) -> str | None:
    """The word in a note; None where the note is missing or damaged."""
    try:
        line = file.read_text(encoding="utf-8")
    except (OSError, ValueError):
        return None
    word = line.split(" ")[0]
    return word if line == _line(file.name, word) else None


def _line(name: str, word: str) -> str:
    return f"{word} {hashlib.blake2b(f'{name} {word}'.encode(), digest_size=8).hexdigest()}\n"
