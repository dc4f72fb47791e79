"""In a terminal: a line that is typed is answered before the next one."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys
from pathlib import Path

import pytest

SECONDS = 100


def answer(process: subprocess.Popen[bytes]) -> str:
    """The next line of output, before the input has ended."""
    assert process.stdout is not None
    ready, _, _ = select.select([process.stdout], [], [], SECONDS)
    assert ready, "no answer to the line"
    return process.stdout.readline().decode()


@pytest.mark.parametrize(
    ("words", "first", "second"),
    [
        (("mbr-decode", "--utility", "chrf", "--nbest", "3"), "Guten Tag", "Guten Morgen"),
        (
            ("mbr-decode", "--utility", "chrf", "--nbest", "3", "--method", "sample", "--format", "jsonl"),
            '{"id": 0, ',
            '{"id": 1, ',
        ),
        (("mbr-generate", "--nbest", "2"), '{"id": 0, "source": "Good day.",', '{"id": 1, "source": "Good morning.",'),
    ],
    ids=["decode", "sampled", "generate"],
)
def test_each_line_is_answered_as_it_is_typed(words: tuple[str, ...], first: str, second: str, tmp_path: Path) -> None:
    keyboard, terminal = pty.openpty()
    command = [str(Path(sys.executable).with_name(words[0])), *words[1:]]
    process = subprocess.Popen(
        command, stdin=terminal, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0, cwd=tmp_path
    )
    os.close(terminal)
    try:
        os.write(keyboard, b"Good day.\n")
        assert answer(process).startswith(first)
        os.write(keyboard, b"Good morning.\n")
        assert answer(process).startswith(second)
        os.write(keyboard, b"\x04")
        _, errors = process.communicate(timeout=SECONDS)
    finally:
        process.kill()
        process.wait()
        os.close(keyboard)
    assert process.returncode == 0
    assert b"reading text from the terminal, one sentence per line; Ctrl-D ends it" in errors
