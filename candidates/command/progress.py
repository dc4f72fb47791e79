"""The progress bar of a run over segments: with a total and the time to go where the number of segments is known.

with segment_bar(console, "sources.txt", done=sink.done) as bar:
    bar.update()
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from candidates.command.console import Console
from candidates.command.streams import is_typed

CHUNK = 1 << 20


def segment_bar(console: Console, one_per_line: str | None, *, done: int) -> Any:
    """A bar on stderr, for people at a terminal only.

    Args:
        one_per_line: a file with a line for every segment; None where there is none.
        done: segments of an interrupted run, where the bar starts.
    """
    from tqdm import tqdm

    shown = console.shows_progress and not is_typed(one_per_line)
    total = count_lines(one_per_line) if shown and one_per_line is not None else None
    return tqdm(total=total, initial=done, unit=" segments", disable=not shown, leave=False)


def count_lines(path: str) -> int | None:
    """The number of lines of a regular file; None for standard input, pipes, what is compressed or cannot be read."""
    file = Path(path)
    if path == "-" or file.suffix == ".gz" or not file.is_file():
        return None
    count, last = 0, b"\n"
    try:
        with file.open("rb", buffering=0) as stream:
            while chunk := os.read(stream.fileno(), CHUNK):
                count, last = count + chunk.count(b"\n"), chunk[-1:]
    except OSError:
        return None
    return count + (last != b"\n")
