"""Progress bars of runs over segments: totals where files tell them, and a resumed bar starts where it was."""

from __future__ import annotations

import gzip
import io
import os
import sys
from pathlib import Path

import pytest

from candidates.command.console import Console
from candidates.command.progress import count_lines, segment_bar

pytestmark = pytest.mark.one_world


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("content", "count"),
    [(b"", 0), (b"a", 1), (b"a\n", 1), (b"a\nb", 2), (b"\n\n", 2), (b"a\r\nb\x0cc\n" * 300_000, 600_000)],
)
def test_lines_are_counted_as_they_are_read(tmp_path: Path, content: bytes, count: int) -> None:
    (tmp_path / "a.txt").write_bytes(content)
    assert count_lines(str(tmp_path / "a.txt")) == count


def test_what_cannot_be_counted_cheaply_has_no_total(tmp_path: Path) -> None:
    (tmp_path / "a.gz").write_bytes(gzip.compress(b"a\n"))
    os.mkfifo(tmp_path / "pipe")
    for name in ("a.gz", "pipe", "missing", "."):
        assert count_lines(str(tmp_path / name)) is None
    assert count_lines("-") is None


def test_a_bar_has_its_total_and_starts_where_the_run_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.txt").write_text("x\n" * 8)
    monkeypatch.setattr(sys, "stderr", Terminal())
    with segment_bar(Console("mbr-test"), str(tmp_path / "a.txt"), done=3) as bar:
        assert (bar.total, bar.n) == (8, 3)
    with segment_bar(Console("mbr-test"), None, done=0) as bar:
        assert bar.total is None
    with segment_bar(Console("mbr-test", quiet=True), str(tmp_path / "a.txt"), done=0) as bar:
        assert bar.disable
