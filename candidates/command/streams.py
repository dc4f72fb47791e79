"""Standard output and standard error of a command: UTF-8 in every locale, errors with a name, never lost in silence.

A caller may close standard output (`>&-`). Then the first write, or `check_standard_output` before any work, raises
UsageError. Descriptors 0 to 2 are occupied in any case: a file opened there would receive what libraries print.
"""

from __future__ import annotations

import argparse
import fcntl
import io
import os
import sys
from typing import Any, TextIO

from candidates.common.arrivals import arrives
from candidates.common.errors import UsageError
from candidates.common.text import OutputFile

STANDARD_OUTPUT = 1
CLOSED = "standard output is closed; expected a place for the results: give it one (> FILE, | PROGRAM, > /dev/null)"


class StandardOutput(OutputFile):
    """Descriptor 1, or a copy. Its first error is raised; after that, writes go nowhere: Python flushes at its exit."""

    def __init__(self, *, closed: bool, descriptor: int = STANDARD_OUTPUT) -> None:
        super().__init__(descriptor, "w", shown="standard output")
        self.unusable = closed
        self._failed = False

    def write(self, data: Any) -> int:
        if self._failed:
            return len(data)
        try:
            if self.unusable:
                raise UsageError(CLOSED)
            return super().write(data)
        except Exception:
            self._failed = True
            raise


def open_standard_streams() -> None:
    """Set up `sys.stdout` and `sys.stderr` for the life of the process; streams that a caller replaced stay."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(descriptor, True)
    os.close(descriptor)
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 - for the life of the process
    if isinstance(sys.stderr, io.TextIOWrapper):
        sys.stderr.reconfigure(errors="backslashreplace")
    if sys.stdout is None or sys.stdout is sys.__stdout__:
        sys.stdout = _standard_output(sys.stdout)


def is_typed(path: str | None) -> bool:
    """Whether an input is typed in a terminal, where each line is to be answered before the next one comes."""
    return path == "-" and sys.stdin is not None and sys.stdin.isatty()


def answers_lines(path: str | None, output: str | None, wanted: bool | None) -> bool:
    """Whether each line of an input is answered as soon as it can be.

    By default that is so in a terminal, and between two pipes: not where results go to a file that appears at the end.

    Args:
        path: the input; what is not standard input lies there whole.
        output: the file of the results, None where they go to standard output.
        wanted: --line-buffered or --no-line-buffered; None where neither was given.
    """
    if path != "-" or not arrives():
        return False
    return (output is None or is_typed(path)) if wanted is None else wanted


def add_line_option(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--line-buffered",
        action=argparse.BooleanOptionalAction,
        help="answer each line of standard input as soon as it can be (default: yes in a terminal, and in a pipe "
        "without -o)",
    )


def check_standard_output() -> None:
    """Refuse a closed standard output before any work, where it is the place of the results.

    Raises:
        UsageError: it is closed, or open for reading only.
    """
    raw = getattr(getattr(sys.stdout, "buffer", None), "raw", None)
    if sys.stdout is None or (isinstance(raw, StandardOutput) and raw.unusable):
        raise UsageError(CLOSED)


def keep_for_data() -> None:
    """From now on only `sys.stdout` writes to standard output; what libraries print there goes to standard error."""
    if isinstance(getattr(getattr(sys.stdout, "buffer", None), "raw", None), StandardOutput):
        sys.stdout.flush()
        copy = os.dup(STANDARD_OUTPUT)
        sys.stdout = _standard_output(sys.stdout, copy)
        os.dup2(2, STANDARD_OUTPUT)


def _standard_output(before: TextIO | None, descriptor: int = STANDARD_OUTPUT) -> TextIO:
    closed = before is None or fcntl.fcntl(STANDARD_OUTPUT, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY
    if isinstance(before, io.TextIOWrapper):
        before.flush()
    return io.TextIOWrapper(
        io.BufferedWriter(StandardOutput(closed=closed, descriptor=descriptor)),
        encoding="utf-8",
        errors="surrogateescape",  # names of files
        newline="\n",
        line_buffering=bool(getattr(before, "line_buffering", False)),
        write_through=bool(getattr(before, "write_through", False)),
    )
