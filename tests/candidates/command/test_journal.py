"""The journal: what is committed survives, a resumed run gives the bytes of an uninterrupted one."""

from __future__ import annotations

import gzip
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from candidates.command.journal import Journal, partial_path, progress_path, publish_as_is, was_interrupted
from candidates.common.errors import InputError, ResourceError, UsageError
from tests.support.limits import largest_file

ITEMS = [f"source {number}" for number in range(12)]


class Killed(BaseException):
    """What stops a run in these tests; like a signal it is no Exception."""


@pytest.fixture(autouse=True)
def commits_are_explicit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MBR_COMMIT_SECONDS", "1000")


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def chunks(item: str) -> list[bytes]:
    return [f"{item} -> out\n".encode(), f"{len(item)}\n".encode() * (1 + len(item) % 2)]


def work(
    folder: Path,
    *,
    stop: int | None = None,
    items: Sequence[str] = ITEMS,
    settings: dict[str, Any] | None = None,
    **options: Any,
) -> int:
    """Write two files, an item at a time, and publish them; `stop` raises after that many items in all."""
    files = [folder / "out", folder / "more.gz"]
    with Journal(files, settings or {"a": 1}, **options) as journal:
        done = journal.last.segments
        for number, item in enumerate(journal.skip_done(items), done + 1):
            journal.write(chunks(item), 1, failed=int(number % 5 == 0))
            if number == stop:
                raise Killed
        journal.finish([publish_as_is, publish_as_is])
        return journal.failed


def contents(folder: Path) -> list[bytes]:
    assert names(folder) == ["more.gz", "out"]
    return [(folder / "out").read_bytes(), (folder / "more.gz").read_bytes()]


@pytest.fixture
def interrupted(tmp_path: Path) -> Path:
    with pytest.raises(Killed):
        work(tmp_path, stop=5)
    return tmp_path


def test_a_run_publishes_its_files_whole_and_cleans_up(tmp_path: Path) -> None:
    assert work(tmp_path) == 2
    out, more = contents(tmp_path)
    assert out == b"".join(chunks(item)[0] for item in ITEMS)
    assert gzip.decompress(more) == b"".join(chunks(item)[1] for item in ITEMS)
    assert more[4:8] == b"\0" * 4, "no time in the header: the same content gives the same bytes"


def test_nothing_is_under_the_final_names_before_the_end(interrupted: Path) -> None:
    assert names(interrupted) == ["more.gz.partial", "out.partial", "out.progress"]
    assert was_interrupted([interrupted / "out", interrupted / "more.gz"])


@settings(max_examples=30, deadline=None)
@given(stops=st.lists(st.integers(1, len(ITEMS)), max_size=4).map(sorted))
def test_a_run_stopped_anywhere_and_resumed_gives_the_same_bytes(
    stops: list[int], tmp_path_factory: pytest.TempPathFactory
) -> None:
    whole, stopped = tmp_path_factory.mktemp("whole"), tmp_path_factory.mktemp("stopped")
    failed = work(whole)
    done = 0
    for stop in stops:
        if stop > done:
            with pytest.raises(Killed):
                work(stopped, stop=stop, resume=True)
            done = stop
    assert work(stopped, resume=True) == failed, "failures before the interruption count"
    assert contents(stopped) == contents(whole)


def test_a_run_stopped_before_its_first_segment_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), Journal([tmp_path / "out"], {}):
        raise ZeroDivisionError
    assert names(tmp_path) == []


def test_a_run_that_keeps_nothing_on_an_error_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(Killed):
        work(tmp_path, stop=5, keep_on_error=False)
    assert names(tmp_path) == []


def test_a_kill_loses_only_what_was_not_committed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The state of the disk at a kill: after a commit, more bytes and half a record."""
    journal = Journal([tmp_path / "out"], {"a": 1})
    with journal:
        items = journal.skip_done(ITEMS)
        next(items)
        journal.write([b"first\n"], 1)
        journal.commit()
        next(items)
        journal.write([b"second\n"], 1)
        killed = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    for name, content in killed.items():
        (tmp_path / name).write_bytes(content)
    with (tmp_path / "out.partial").open("ab") as stream:
        stream.write(b"sec")
    with (tmp_path / "out.progress").open("ab") as stream:
        stream.write(b'{"segments": 2, "fai')
    with Journal([tmp_path / "out"], {"a": 1}, resume=True) as journal:
        assert journal.last.segments == 1
        assert list(journal.skip_done(ITEMS[:2])) == ITEMS[1:2]
        journal.write([b"second\n"], 1)
        journal.finish([publish_as_is])
    assert (tmp_path / "out").read_bytes() == b"first\nsecond\n"


def test_commits_come_by_the_clock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for seconds, commits in (("0", 3), ("1000", 0)):
        monkeypatch.setenv("MBR_COMMIT_SECONDS", seconds)
        with Journal([tmp_path / "out"], {}, force=True) as journal:
            for item in journal.skip_done(ITEMS[:3]):
                journal.write([item.encode()], 1)
            lines = (tmp_path / "out.progress").read_bytes().splitlines()
            assert len(lines) == 1 + commits
            journal.finish([publish_as_is])
    for seconds in ("soon", "nan", "inf", "-1", ""):
        monkeypatch.setenv("MBR_COMMIT_SECONDS", seconds)
        with pytest.raises(UsageError, match=f"MBR_COMMIT_SECONDS '{seconds}' is not a number of seconds; correct or"):
            Journal([tmp_path / "out"], {}, force=True)


def test_an_interrupted_run_is_continued_or_discarded_only_on_request(interrupted: Path) -> None:
    with pytest.raises(UsageError, match="an interrupted run left .*out.progress; give --resume .*, or --force"):
        work(interrupted)
    assert work(interrupted, force=True) == 2
    with pytest.raises(UsageError, match="out exists; give --force"):
        work(interrupted)
    assert work(interrupted, force=True, items=ITEMS[:3]) == 0
    assert contents(interrupted)[0].count(b"\n") == 3


def test_other_settings_are_refused(interrupted: Path) -> None:
    with pytest.raises(UsageError, match="the interrupted run had a 1, this one has 2; resume with the same"):
        work(interrupted, resume=True, settings={"a": 2})
    with pytest.raises(UsageError, match="the interrupted run had b None, this one has 'new'"):
        work(interrupted, resume=True, settings={"a": 1, "b": "new"})
    assert work(interrupted, resume=True) == 2


@pytest.mark.parametrize(
    ("items", "message"),
    [
        (["other", *ITEMS[1:]], "the first 5 segments of the input changed since the interrupted run; give --force"),
        ([*ITEMS[:4], "other"], "the first 5 segments of the input changed"),
        (ITEMS[:4], "the input has 4 segments, but 5 were done before; did it change?"),
        ([], "the input has 0 segments, but 5 were done before"),
    ],
)
def test_an_input_that_changed_is_refused_and_costs_nothing(interrupted: Path, items: list[str], message: str) -> None:
    with pytest.raises(InputError, match=message.replace("?", r"\?")):
        work(interrupted, resume=True, items=items)
    assert work(interrupted, resume=True) == 2


def test_an_input_may_grow_behind_what_was_done(interrupted: Path) -> None:
    work(interrupted, resume=True, items=[*ITEMS[:5], "new"])
    assert (interrupted / "out").read_bytes().endswith(b"new -> out\n")


def test_checked_yields_all_items_and_skip_done_the_rest(interrupted: Path) -> None:
    files = [interrupted / "out", interrupted / "more.gz"]
    for kind, expected in (("checked", ITEMS), ("skip_done", ITEMS[5:])):
        with Journal(files, {"a": 1}, resume=True) as journal:
            assert list(getattr(journal, kind)(ITEMS)) == expected


def test_a_generator_may_read_ahead(tmp_path: Path) -> None:
    """Digests belong to segments written, not to segments read."""
    with Journal([tmp_path / "out"], {}) as journal:
        ahead = list(journal.skip_done(ITEMS))
        journal.write([ahead[0].encode()], 1)
    with Journal([tmp_path / "out"], {}, resume=True) as journal:
        rest = list(journal.skip_done([ITEMS[0], "another"]))
    assert rest == ["another"]


COMMIT = {"segments": 5, "failed": 1, "sizes": [5, 5], "digest": "x"}


@pytest.mark.parametrize(
    "damaged",
    [
        b"nonsense\n",
        b"\xff\xfe\n",
        b"[]\n",
        b"{}\n",
        b'{"settings": 3}\n',
        b'{"settings": {"a": 1}}\nnull\n',
        b'{"settings": {"a": 1}}\n{"segments": 5}\n',
        *(
            b'{"settings": {"a": 1}}\n' + json.dumps(COMMIT | change).encode() + b"\n"
            for change in (
                {"sizes": [5]},
                {"sizes": [5, 5, 5]},
                {"sizes": [5, "5"]},
                {"sizes": [5, -1]},
                {"sizes": None},
                {"segments": "5"},
                {"failed": 0.5},
                {"more": 1},
            )
        ),
    ],
)
def test_a_damaged_progress_file_is_named_and_force_starts_anew(interrupted: Path, damaged: bytes) -> None:
    (interrupted / "out.progress").write_bytes(damaged)
    with pytest.raises(InputError, match="out.progress: not a progress file: .*; give --force to start anew"):
        work(interrupted, resume=True)
    assert (interrupted / "out.progress").read_bytes() == damaged
    assert work(interrupted, force=True) == 2


def test_an_empty_progress_file_is_a_run_that_has_just_begun(interrupted: Path) -> None:
    (interrupted / "out.progress").write_bytes(b"")
    assert work(interrupted, resume=True) == 2
    assert contents(interrupted)[0].count(b"\n") == len(ITEMS)


@pytest.mark.parametrize("damage", ["missing", "short"])
def test_partial_files_that_lost_bytes_are_refused(interrupted: Path, damage: str) -> None:
    path = interrupted / "more.gz.partial"
    if damage == "missing":
        path.unlink()
    else:
        path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(InputError, match="more.gz.partial is missing or shorter than recorded; give --force"):
        work(interrupted, resume=True)


def test_a_second_writer_is_refused_until_the_first_has_ended(interrupted: Path) -> None:
    files = [interrupted / "out", interrupted / "more.gz"]
    with Journal(files, {"a": 1}, resume=True) as first:
        for options in ({"resume": True}, {"force": True}):
            with pytest.raises(UsageError, match="another process is writing .*out; wait for it, or stop it"):
                work(interrupted, **options)
        assert first.last.segments == 5
    assert work(interrupted, resume=True) == 2


def test_a_run_refused_for_its_settings_lets_go_of_the_files(interrupted: Path) -> None:
    """Even while the error is still looked at."""
    journal = Journal([interrupted / "out", interrupted / "more.gz"], {"a": 1}, resume=True)
    (interrupted / "out.progress").write_bytes(b"broken meanwhile\n")
    with pytest.raises(InputError) as error:
        journal.__enter__()
    assert work(interrupted, force=True) == 2
    assert "not a progress file" in str(error.value)


@pytest.mark.parametrize("place", ["nowhere/more", "file/more"])
def test_a_second_file_that_cannot_be_opened_leaves_nothing(tmp_path: Path, place: str) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match=f"cannot write .*{place}: .*; check the folder"):
        Journal([tmp_path / "out", tmp_path / place], {}).__enter__()
    assert names(tmp_path) == ["file"]


def test_a_folder_is_no_output(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is a folder; expected the name of a file"):
        Journal([tmp_path], {}, force=True)


def test_a_full_disk_keeps_the_last_commit(tmp_path: Path) -> None:
    lines = [f"{number} {'x' * 700}\n".encode() for number in range(9)]

    def run(**options: Any) -> None:
        with Journal([tmp_path / "out"], {}, **options) as journal:
            done = journal.last.segments
            for number, _ in enumerate(journal.skip_done(ITEMS[:9]), done):
                journal.write([lines[number]], 1)
                journal.commit()
            journal.finish([publish_as_is])

    with (
        pytest.raises(ResourceError, match="no space left while writing .*out.partial: .*; free some space"),
        largest_file(3000),
    ):
        run()
    assert names(tmp_path) == ["out.partial", "out.progress"]
    assert (tmp_path / "out.partial").read_bytes() == b"".join(lines[:4])
    run(resume=True)
    assert (tmp_path / "out").read_bytes() == b"".join(lines)


@pytest.mark.parametrize(
    ("sizes", "room", "name"),
    [((9000, 1), 5000, "out.partial"), ((1, 9000), 5000, "more.partial"), ((1, 1), 100, "out.progress")],
)
def test_a_full_disk_is_blamed_on_the_file_that_was_written(
    tmp_path: Path, sizes: tuple[int, int], room: int, name: str
) -> None:
    def run() -> None:
        with Journal([tmp_path / "out", tmp_path / "more"], {}) as journal:
            for _ in journal.checked(ITEMS):
                journal.write([b"x" * size for size in sizes], 1)
                journal.commit()

    with pytest.raises(ResourceError, match=f"no space left while writing .*{name}: "), largest_file(room):
        run()
    assert names(tmp_path) == []


def test_files_grow_beside_the_real_file_and_a_link_stays(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "out").symlink_to("real/behind")
    with Journal([tmp_path / "out"], {}) as journal:
        for item in journal.skip_done(ITEMS[:2]):
            journal.write([item.encode()], 1)
        assert names(tmp_path / "real") == ["behind.partial", "behind.progress"]
        assert names(tmp_path) == ["out", "real"]
        assert was_interrupted([tmp_path / "out"])
        journal.finish([publish_as_is])
    assert (tmp_path / "out").is_symlink()
    assert names(tmp_path / "real") == ["behind"]


def test_a_disk_that_is_full_from_the_start_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(ResourceError), largest_file(3):
        work(tmp_path)
    assert names(tmp_path) == []


def test_a_kill_while_publishing_is_resumed(tmp_path: Path) -> None:
    """The second file had its name already."""
    files = [tmp_path / "out", tmp_path / "more"]

    def stop(partial: Path, final: Path) -> None:
        raise Killed

    def run(first: Any, **options: Any) -> None:
        with Journal(files, {}, **options) as journal:
            for item in journal.skip_done(ITEMS):
                journal.write(chunks(item), 1)
            journal.finish([first, publish_as_is])

    with pytest.raises(Killed):
        run(stop)
    assert names(tmp_path) == ["more", "out.partial", "out.progress"]
    run(publish_as_is, resume=True)
    assert names(tmp_path) == ["more", "out"]
    assert (tmp_path / "more").read_bytes() == b"".join(chunks(item)[1] for item in ITEMS)


def test_a_kill_after_publishing_is_a_finished_run(tmp_path: Path) -> None:
    work(tmp_path)
    files = [tmp_path / "out", tmp_path / "more.gz"]
    progress_path(files[0]).write_text("{}\n")
    partial_path(files[1]).touch()
    assert not was_interrupted(files)
    assert names(tmp_path) == ["more.gz", "out"]
