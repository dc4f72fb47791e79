"""Judgements are kept: through kills, beside other processes, and not at the price of an error."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from candidates.common import store
from candidates.common.store import key_of
from mbr.cache.judgements import Cache
from mbr.evaluate import judging as module
from mbr.evaluate.base import Floats
from mbr.evaluate.judges import JudgeSpec
from mbr.evaluate.judging import judged_rows
from tests.conftest import ROOT
from tests.mbr.evaluate.made import Count

pytestmark = pytest.mark.one_world

ROWS = [(f"source {number}", f"output {number % 7} " + "x" * 2 * number) for number in range(30)]


def entries(begin: int, end: int) -> list[tuple[bytes, Floats]]:
    return [(key_of("judge", (str(number),)), np.array([number, 1.0])) for number in range(begin, end)]


def keys(end: int) -> list[bytes]:
    return [key for key, _ in entries(0, end)]


def test_what_is_put_is_found_again_by_another_process(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "judgements.sqlite"
    with Cache(path) as cache:
        cache.put(entries(0, 1500))
    with Cache(path) as cache:
        found = cache.get(keys(2000), 2)
        assert {key: value.tolist() for key, value in found.items()} == {k: v.tolist() for k, v in entries(0, 1500)}
        assert cache.get(keys(2000), 3) == {}  # values of another shape are not ours


def test_keys_tell_rows_and_judges_apart() -> None:
    rows = [("a", "b"), ("ab", ""), ("", "ab"), ("a", "b", ""), ("b", "a"), ("a\x00", "b"), ("\ud800", "")]
    found = {key_of(identity, row) for identity in ("x", "xa", "") for row in rows}
    assert len(found) == 3 * len(rows)


def test_no_row_is_scored_twice(tmp_path: Path, counting: type[Count]) -> None:
    judge = JudgeSpec("count").open(references=0)
    with Cache(tmp_path / "c.sqlite") as cache:
        first = judged_rows(judge, ROWS + ROWS[:5], cache)
        assert counting.rows_scored == len(ROWS)
        counting.events.clear()
        again = judged_rows(judge, ROWS[::-1], cache)
        assert counting.events == []
        new = judged_rows(judge, [*ROWS, ("new", "row")], cache)
        assert counting.rows_scored == len(ROWS) + 1
    plain = judge.judge(ROWS)
    for judged, expected in ((first, slice(0, 30)), (new, slice(0, 30))):
        assert (judged.statistics[:30] == plain.statistics[expected]).all()
        assert (judged.truncated[:30] == plain.truncated[expected]).all()
    assert (again.statistics == plain.statistics[::-1]).all()
    assert plain.truncated.any()
    other = JudgeSpec("count", "large").open(references=0)
    with Cache(tmp_path / "c.sqlite") as cache:
        judged_rows(other, ROWS, cache)
    assert counting.rows_scored == len(ROWS) * 3 + 1  # another model knows nothing of them; and the plain call above


def test_without_a_cache_all_is_scored_once(counting: type[Count]) -> None:
    judge = JudgeSpec("count").open(references=0)
    assert (judged_rows(judge, ROWS * 2).statistics[:30] == judge.judge(ROWS).statistics).all()
    assert counting.rows_scored == 2 * len(ROWS)


def test_portions_are_committed_one_by_one(
    tmp_path: Path, counting: type[Count], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A judge that fails half-way leaves what was done before."""
    monkeypatch.setattr(module, "FIRST_PORTION", 100)
    monkeypatch.setattr(module, "PORTION_SECONDS", 0.0)  # so every later portion is one row
    judge = JudgeSpec("count").open(references=0)
    plain, calls = judge.judge, []

    def failing(rows: list[tuple[str, ...]]) -> object:
        calls.append(len(rows))
        if len(calls) == 4:
            raise MemoryError
        return plain(rows)

    monkeypatch.setattr(judge, "judge", failing)
    with Cache(tmp_path / "c.sqlite") as cache:
        with pytest.raises(MemoryError):
            judged_rows(judge, ROWS, cache)
        assert len(cache.get([key_of(judge.identity, row) for row in ROWS], 3)) == sum(calls[:3])


KILLED = """
import sys, time
import numpy as np
from pathlib import Path
from mbr.cache.judgements import Cache
from candidates.common.store import key_of
with Cache(Path(sys.argv[1])) as cache:
    for number in range(10**6):
        cache.put([(key_of("judge", (str(number),)), np.array([number, 1.0]))])
        print(number, flush=True)
"""


def test_a_kill_loses_nothing_that_was_committed(tmp_path: Path) -> None:
    path = tmp_path / "c.sqlite"
    process = subprocess.Popen([sys.executable, "-c", KILLED, str(path)], stdout=subprocess.PIPE, cwd=ROOT, text=True)
    assert process.stdout is not None
    for line in process.stdout:
        if int(line) == 40:
            break
    process.send_signal(signal.SIGKILL)
    said = [41, *map(int, process.stdout.read().split())]
    process.wait()
    with Cache(path, warn=pytest.fail) as cache:
        assert len(cache.get(keys(max(said)), 2)) >= max(said) - 1
        assert len(cache.get(keys(41), 2)) == 41


WRITER = """
import sys
import numpy as np
from pathlib import Path
from mbr.cache.judgements import Cache
from candidates.common.store import key_of
warnings = []
with Cache(Path(sys.argv[1]), warn=warnings.append) as cache:
    for number in range(int(sys.argv[2]), int(sys.argv[3])):
        cache.put([(key_of("judge", (str(number),)), np.array([number, 1.0]))])
assert not warnings, warnings
"""


def test_processes_write_at_the_same_time(tmp_path: Path) -> None:
    path = tmp_path / "c.sqlite"
    ranges = [("0", "60"), ("30", "90"), ("60", "120")]
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER, str(path), *one], cwd=ROOT, stderr=subprocess.PIPE)
        for one in ranges
    ]
    assert [(writer.wait(), writer.communicate()[1]) for writer in writers] == [(0, b"")] * 3
    with Cache(path) as cache:
        assert len(cache.get(keys(120), 2)) == 120


@pytest.mark.parametrize("damage", ["text", "middle", "cut"])
def test_a_broken_file_is_moved_aside_with_a_word(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "c.sqlite"
    with Cache(path) as cache:
        cache.put(entries(0, 2000))
    raw = path.read_bytes()
    damaged = {"text": b"not a database " * 99, "middle": raw[:4096] + os.urandom(len(raw) - 4096), "cut": raw[:9999]}
    path.write_bytes(damaged[damage])
    warnings: list[str] = []
    with Cache(path, warn=warnings.append) as cache:
        assert cache.get(keys(2000), 2) == {}
        cache.put(entries(0, 10))
        assert len(cache.get(keys(2000), 2)) == 10
    assert len(warnings) == 1
    assert "is broken" in warnings[0]
    (aside,) = tmp_path.glob("c.sqlite.broken-*")
    assert aside.read_bytes() == damaged[damage]


def test_a_cache_that_cannot_be_written_is_done_without(tmp_path: Path, counting: type[Count]) -> None:
    (tmp_path / "file").write_text("")
    warnings: list[str] = []
    with Cache(tmp_path / "file" / "c.sqlite", warn=warnings.append) as cache:
        judged = judged_rows(JudgeSpec("count").open(references=0), ROWS, cache)
    assert len(judged.statistics) == len(ROWS)
    assert len(warnings) == 1
    assert "not kept" in warnings[0]


def test_a_locked_file_is_done_without_after_a_while(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "WAIT_SECONDS", 0.1)
    path, warnings = tmp_path / "c.sqlite", []
    with Cache(path, warn=warnings.append) as cache:
        other = sqlite3.connect(path)
        other.execute("BEGIN EXCLUSIVE")
        began = time.monotonic()
        cache.put(entries(0, 3))
        assert cache.get(keys(3), 2) == {}
        assert time.monotonic() - began < 5
        other.close()
    assert len(warnings) == 1
    assert "locked" in warnings[0]


@pytest.mark.parametrize("trouble", ["locked", "full", "readonly"])
def test_after_a_failed_write_nothing_is_written_and_all_is_read(
    trouble: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "WAIT_SECONDS", 0.1)
    path, warnings = tmp_path / "c.sqlite", []
    with Cache(path, warn=warnings.append) as cache:
        cache.put(entries(0, 500))
        cache.keep_identity(b"key", "judge")
        assert cache._connection is not None
        other = sqlite3.connect(path)
        if trouble == "locked":
            other.execute("BEGIN IMMEDIATE")  # others may read
        elif trouble == "full":
            cache._connection.execute("PRAGMA max_page_count = 1")  # as many as there are
        else:
            cache._connection.execute("PRAGMA query_only = ON")
        cache.put(entries(500, 1500))
        assert (len(warnings), len(cache.get(keys(1500), 2))) == (1, 500)
        other.close()
        cache._connection.executescript("PRAGMA max_page_count = 9999; PRAGMA query_only = OFF")
        cache.put(entries(500, 1500))
        cache.keep_identity(b"new", "judge")
        assert len(cache.get(keys(1500), 2)) == 500
        assert (cache.identity(b"key"), cache.identity(b"new")) == ("judge", None)
    assert len(warnings) == 1
    assert "no longer kept" in warnings[0]
    assert trouble in warnings[0]


def test_the_first_portion_is_small_and_the_next_fits_the_speed(
    counting: type[Count], monkeypatch: pytest.MonkeyPatch
) -> None:
    judge = JudgeSpec("count").open(references=0)
    rows = [(f"source {number}", "x" * 3000) for number in range(20)]
    plain, calls = judge.judge, []

    def watched(portion: list[tuple[str, ...]]) -> object:
        calls.append(len(portion))
        return plain(portion)

    monkeypatch.setattr(judge, "judge", watched)
    judged_rows(judge, rows)
    assert calls == [1, 19]


def test_texts_are_not_in_the_file(tmp_path: Path, counting: type[Count]) -> None:
    with Cache(tmp_path / "c.sqlite") as cache:
        judged_rows(JudgeSpec("count").open(references=0), [("a secret source", "a secret output")], cache)
    assert b"secret" not in (tmp_path / "c.sqlite").read_bytes()


DAMAGES = {
    "a wrong byte": "UPDATE sealed_{0} SET value = x'ff' || substr(value, 2)",
    "nothing": "UPDATE sealed_{0} SET value = x''",
    "another type": "UPDATE sealed_{0} SET value = 7",
    "text": "UPDATE sealed_{0} SET value = 'text'",
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_judgements_are_named_and_judged_again(tmp_path: Path, counting: type[Count], damage: str) -> None:
    path, warnings = tmp_path / "c.sqlite", list[str]()
    judge = JudgeSpec("count").open(references=0)
    with Cache(path) as cache:
        wanted = judged_rows(judge, ROWS, cache)
        cache.keep_identity(b"key", "judge")
    counting.events.clear()
    connection = sqlite3.connect(path)
    with connection:
        connection.execute(
            DAMAGES[damage].format("judgements") + " WHERE key IN (SELECT key FROM sealed_judgements LIMIT 2)"
        )
        connection.execute(DAMAGES[damage].format("identities"))
    connection.close()
    for _ in range(2):
        with Cache(path, warn=warnings.append) as cache:
            assert (judged_rows(judge, ROWS, cache).statistics == wanted.statistics).all()
            assert cache.identity(b"key") is None
    assert counting.rows_scored == len(ROWS) + 2
    assert len(warnings) == 2
    assert "of the judgements is damaged (its checksum is wrong); it is dropped and computed again" in warnings[0]
    assert warnings[1] == f"{path}: 3 damaged entries in all were computed again"


def test_nan_is_neither_kept_nor_taken_for_a_judgement(tmp_path: Path) -> None:
    path, warnings, key = tmp_path / "c.sqlite", list[str](), b"key"
    with Cache(path) as cache:
        cache.put([(key, np.array([np.nan, 1.0]))])
        assert cache.get([key], 2) == {}
    connection = sqlite3.connect(path)
    with connection:
        value = store.sealed(key, np.array([np.nan, 1.0]).tobytes())
        connection.execute("INSERT INTO sealed_judgements VALUES (?, ?)", [key, value])
    connection.close()
    with Cache(path, warn=warnings.append) as cache:
        assert cache.get([key], 2) == {}
    assert len(warnings) == 1
    assert "it holds NaN or infinity" in warnings[0]
