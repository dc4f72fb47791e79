"""Lines of standard input as they arrive through a pipe or a terminal, and whether another one is on its way.

A command that answers lines one by one asks `nothing_arrives` after each: where no whole line follows within a short
delay, it answers what it has, and marks the place in its stream with `PAUSE`. Lines that come fast are never waited
for, so that batches fill. No thread reads ahead: what has not been read waits in the pipe, and the writer with it.
"""

from __future__ import annotations

import os
import select
import stat
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from enum import Enum
from typing import Final, Self, TypeVar

# Seconds that are spent waiting for further lines, in total, before those at hand are answered.
DELAY = 0.05
BLOCK = 1 << 16  # bytes of a pipe, by default

Item = TypeVar("Item")


class Pause(Enum):
    """A mark in a stream: nothing more is at hand, answer what has come so far."""

    PAUSE = "pause"


PAUSE: Final = Pause.PAUSE


class Arrivals:
    """The lines of a descriptor, with their line breaks, each as soon as it is whole."""

    def __init__(self, descriptor: int, delay: float = DELAY) -> None:
        self._descriptor = descriptor
        self._delay = delay
        self._lines: deque[bytes] = deque()
        self._begun = bytearray()  # of a line whose end has not come
        self._ended = False
        self._waited = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *details: object) -> None:
        """The descriptor belongs to the process and stays open."""

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> bytes:
        while not self._lines:
            if self._ended:
                raise StopIteration
            self._read()
        return self._lines.popleft()

    def idle(self) -> bool:
        """Whether no further line, and no end, comes within the delay, of which earlier waits have taken a part."""
        while not self._lines and not self._ended:
            began = time.monotonic()
            ready, _, _ = select.select([self._descriptor], [], [], max(0.0, self._delay - self._waited))
            self._waited += time.monotonic() - began
            if not ready:
                self._waited = 0.0
                return True
            self._read()
        return False

    def _read(self) -> None:
        block = os.read(self._descriptor, BLOCK)
        *whole, rest = block.split(b"\n")
        for line in whole:
            self._lines.append(bytes(self._begun) + line + b"\n")
            self._begun.clear()
        self._begun += rest
        if not block:
            self._ended = True
            if self._begun:
                self._lines.append(bytes(self._begun))


_standard: Arrivals | None = None  # what standard input is being read by: there is one of each


def arrives() -> bool:
    """Whether standard input is a pipe, a socket or a terminal, where lines come over time."""
    if sys.stdin is None:
        return False
    try:
        mode = os.fstat(sys.stdin.fileno()).st_mode
    except (OSError, ValueError):  # a stand-in without a descriptor
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or sys.stdin.isatty()


def standard_arrivals() -> Arrivals:
    """The lines of standard input, from here on."""
    global _standard
    _standard = Arrivals(sys.stdin.fileno())
    return _standard


def nothing_arrives() -> bool:
    """Whether the reader of standard input finds no further line within the delay; False at its end, or of a file."""
    return _standard is not None and _standard.idle()


def with_pauses(items: Iterable[Item], idle: Callable[[], bool]) -> Iterator[Item | Pause]:
    """The items, each of one line of input, with a mark wherever no further line is at hand."""
    for item in items:
        yield item
        if idle():
            yield PAUSE


def without_pauses(items: Iterable[Item | Pause]) -> Iterator[Item]:
    """The items alone."""
    return (item for item in items if not isinstance(item, Pause))
