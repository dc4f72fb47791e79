"""The sink: results on standard output or in files, headers once, the same bytes after an interruption."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from candidates.command.journal import publish_as_is
from candidates.command.sink import Sink

ITEMS = ["one", "two", "three"]


class Killed(BaseException):
    pass


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def work(
    output: Path | None,
    others: Sequence[Path] = (),
    *,
    items: Sequence[str] = ITEMS,
    stop: int | None = None,
    **options: Any,
) -> list[int]:
    """One line per item in every file, under a header; returns what is noted before publishing."""
    noted: list[int] = []
    options = {"resume": False, "force": False} | options
    with Sink(output, [(path, publish_as_is) for path in others], {"a": 1}, **options) as sink:
        sink.begin(b"head\n", *(b"other head\n" for _ in others))
        for number, item in enumerate(sink.remaining(items), sink.done + 1):
            line = item.encode() + b"\n"
            sink.write(line, [line.upper() for _ in others], segments=1, failed=int(item == "two"))
            if number == stop:
                raise Killed
        sink.finish(noted.append)
    return noted


@pytest.mark.parametrize("items", [ITEMS, []])
def test_standard_output_takes_header_and_lines_in_order(
    items: list[str], capfdbinary: pytest.CaptureFixture[bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert work(None, items=items) == []
    assert capfdbinary.readouterr().out == b"head\n" + b"".join(item.encode() + b"\n" for item in items)
    assert names(tmp_path) == []


def test_lines_on_standard_output_do_not_wait(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    with Sink(None, [], {}, resume=False, force=False) as sink:
        sink.begin(b"")
        sink.write(b"one\n", [], segments=1, failed=0)
        assert capfdbinary.readouterr().out == b"one\n"


@pytest.mark.parametrize("items", [ITEMS, []])
def test_files_hold_header_and_lines_and_standard_output_nothing(
    items: list[str], tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    noted = work(tmp_path / "out", [tmp_path / "a", tmp_path / "b"], items=items)
    assert noted == [1 if items else 0], "the number of failed segments, before anything is published"
    lines = b"".join(item.encode() + b"\n" for item in items)
    assert (tmp_path / "out").read_bytes() == b"head\n" + lines
    for name in "ab":
        assert (tmp_path / name).read_bytes() == b"other head\n" + lines.upper()
    assert names(tmp_path) == ["a", "b", "out"]
    assert capfdbinary.readouterr().out == b""


def test_other_files_may_go_with_standard_output(tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    assert work(None, [tmp_path / "a"]) == []
    assert capfdbinary.readouterr().out == b"head\none\ntwo\nthree\n"
    assert (tmp_path / "a").read_bytes() == b"other head\nONE\nTWO\nTHREE\n"


def test_what_goes_with_standard_output_cannot_be_resumed_and_is_removed(tmp_path: Path) -> None:
    with pytest.raises(Killed):
        work(None, [tmp_path / "a"], stop=2)
    assert names(tmp_path) == []


@pytest.mark.parametrize("stop", [1, 2, 3])
def test_a_resumed_run_gives_the_same_bytes_with_headers_once(tmp_path: Path, stop: int) -> None:
    for name in ("whole", "stopped"):
        (tmp_path / name).mkdir()
    files = ("out", "a.gz")
    whole, stopped = ([tmp_path / name / file for file in files] for name in ("whole", "stopped"))
    noted = work(whole[0], whole[1:])
    with pytest.raises(Killed):
        work(stopped[0], stopped[1:], stop=stop)
    assert not stopped[0].exists()
    with Sink(stopped[0], [(stopped[1], publish_as_is)], {"a": 1}, resume=True, force=False) as sink:
        assert (sink.done, sink.failed_before) == (stop, int(stop > 1))
        assert list(sink.checked(ITEMS)) == ITEMS
    assert work(stopped[0], stopped[1:], resume=True) == noted
    assert [path.read_bytes() for path in stopped] == [path.read_bytes() for path in whole]


def test_headers_alone_are_written_once_after_a_failure_to_publish(tmp_path: Path) -> None:
    """Without a segment, headers are all there is: a resumed run writes them again, and not twice."""

    def fail(partial: Path, final: Path) -> None:
        raise Killed

    with Sink(tmp_path / "out", [(tmp_path / "a", fail)], {}, resume=False, force=False) as sink:
        sink.begin(b"head\n", b"other head\n")
        with pytest.raises(Killed):
            sink.finish(lambda failed: None)
    with Sink(tmp_path / "out", [(tmp_path / "a", publish_as_is)], {}, resume=True, force=False) as sink:
        sink.begin(b"head\n", b"other head\n")
        sink.finish(lambda failed: None)
    assert (tmp_path / "out").read_bytes() == b"head\n"
    assert (tmp_path / "a").read_bytes() == b"other head\n"


def test_what_is_noted_before_publishing_is_noted_in_time(tmp_path: Path) -> None:
    """So that a configuration is saved whenever its output exists; an error there keeps the work."""

    def note(failed: int) -> None:
        assert not (tmp_path / "out").exists()
        raise Killed

    with Sink(tmp_path / "out", [], {"a": 1}, resume=False, force=False) as sink:
        sink.begin(b"head\n")
        for item in sink.remaining(ITEMS):
            sink.write(item.encode() + b"\n", [], segments=1, failed=0)
        with pytest.raises(Killed):
            sink.finish(note)
    assert names(tmp_path) == ["out.partial", "out.progress"]
    with Sink(tmp_path / "out", [], {"a": 1}, resume=True, force=False) as sink:
        sink.begin(b"head\n")
        assert list(sink.remaining(ITEMS)) == []
        sink.finish(lambda failed: None)
    assert (tmp_path / "out").read_bytes() == b"head\none\ntwo\nthree\n"


def test_the_way_on_is_known_where_something_was_kept(tmp_path: Path) -> None:
    def interrupted(output: Path | None, items: Sequence[str]) -> str | None:
        with suppress(Killed), Sink(output, [], {}, resume=True, force=False) as sink:
            sink.begin(b"")
            for item in sink.remaining(items):
                sink.write(item.encode(), [], segments=1, failed=0)
            raise Killed
        return sink.way_on()

    assert interrupted(None, ITEMS) is None
    assert interrupted(tmp_path / "a.txt", []) is None
    done = interrupted(tmp_path / "a.txt", ITEMS[:1])
    assert done == "run the same command with --resume to continue (1 segment done)"
    again = interrupted(tmp_path / "a.txt", ITEMS)
    assert again == "run the same command with --resume to continue (3 segments done)"
