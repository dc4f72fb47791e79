"""Scores written down and read off again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from candidates.common.errors import UsageError
from mbr.cache.log import ScoreLog
from tests.conftest import write_jsonl

pytestmark = pytest.mark.one_world

FIRST = [("s", "a", "b"), ("s", "b", "c")]
SECOND = [("s", "c", "ä")]


class Model:
    """Counts what it is asked."""

    def __init__(self) -> None:
        self.asked: list[int] = []

    def __call__(self, triples: Sequence[tuple[str, str, str]]) -> Any:
        self.asked.append(len(triples))
        return np.array([len("".join(triple)) / 7 for triple in triples], np.float32)


def test_a_resumed_run_asks_the_model_for_nothing_it_has_answered(tmp_path: Path) -> None:
    path, model = tmp_path / "out.scores", Model()
    with ScoreLog(path, "settings") as log:
        first = log.score(FIRST, model)
    with ScoreLog(path, "settings", resume=True) as log:
        np.testing.assert_array_equal(log.score(FIRST, model), first)
        log.score(SECOND, model)
        log.remove()
    assert model.asked == [2, 1]
    assert not path.exists()


@pytest.mark.parametrize("lost", [1, 7, 20])
def test_a_torn_record_is_computed_again(tmp_path: Path, lost: int) -> None:
    path, model = tmp_path / "out.scores", Model()
    with ScoreLog(path, "settings") as log:
        wanted = [log.score(FIRST, model), log.score(SECOND, model)]
    path.write_bytes(path.read_bytes()[:-lost])
    for _ in range(2):
        with ScoreLog(path, "settings", resume=True) as log:
            for some, scores in zip((FIRST, SECOND), wanted, strict=True):
                np.testing.assert_array_equal(log.score(some, model), scores)
    assert model.asked == [2, 1, 1]


def test_other_questions_are_computed(tmp_path: Path) -> None:
    path, model = tmp_path / "out.scores", Model()
    with ScoreLog(path, "settings") as log:
        log.score(FIRST, model)
    with ScoreLog(path, "settings", resume=True) as log:
        log.score(SECOND, model)
    assert model.asked == [2, 1]


def test_nothing_is_lost_unasked(tmp_path: Path) -> None:
    path, model = tmp_path / "out.scores", Model()
    with ScoreLog(path, "settings"):
        pass
    assert not path.exists()  # no answer, no file
    with ScoreLog(path, "settings") as log:
        log.score(FIRST, model)
    with pytest.raises(UsageError, match="--resume to continue"):
        ScoreLog(path, "settings")
    with pytest.raises(UsageError, match="other settings"):
        ScoreLog(path, "others", resume=True)
    path.write_text("precious")
    for resume in (False, True):
        with pytest.raises(UsageError, match="in the way"):
            ScoreLog(path, "settings", resume=resume)
    with ScoreLog(path, "settings", force=True) as log:
        log.score(FIRST, model)
    assert model.asked == [2, 2]


PROGRAM = """
import atexit, os, signal, sys
import numpy as np
from benchmarks.support.replay import structured
from candidates.command.launch import start
from mbr import PairUtility
from mbr.utilities import UTILITIES

class Judge(PairUtility):
    name, relation, default_strategy = "judge", "antisymmetric", "race"
    asked = 0
    def score_pairs(self, triples):
        Judge.asked += len(triples)
        if Judge.asked > int(os.environ["DIE_AFTER"]):
            os.kill(os.getpid(), signal.SIGKILL)
        values = {source: structured(int(source), 40, rho=1) for source in {triple[0] for triple in triples}}
        return np.array([values[source][int(a), int(b)] for source, a, b in triples], np.float32)

UTILITIES.built_in["judge"] = "__main__:Judge"
atexit.register(lambda: print(Judge.asked, file=sys.stderr))
start("mbr-decode")
"""


def test_a_killed_run_with_a_budget_for_all_ends_with_the_same_bytes(tmp_path: Path) -> None:
    candidates = [str(number) for number in range(40)]
    lists = write_jsonl(
        tmp_path / "lists.jsonl", [{"source": str(source), "candidates": candidates} for source in range(12)]
    )

    def decode(output: Path, die_after: int, *words: str) -> subprocess.CompletedProcess[str]:
        command = ["--utility", "judge", "--candidates", str(lists), "--budget-total", "2400", "-o", str(output)]
        return subprocess.run(
            [sys.executable, "-c", PROGRAM, *command, "--format", "jsonl", *words],
            env={**os.environ, "DIE_AFTER": str(die_after)},
            capture_output=True,
            text=True,
            check=False,
        )

    whole = decode(tmp_path / "whole.jsonl", 10**9)
    assert whole.returncode == 0, whole.stderr
    killed = decode(tmp_path / "killed.jsonl", 1500)
    assert killed.returncode == -signal.SIGKILL
    assert (tmp_path / "killed.jsonl.scores").stat().st_size > 4000
    resumed = decode(tmp_path / "killed.jsonl", 10**9, "--resume")
    assert resumed.returncode == 0, resumed.stderr
    assert (tmp_path / "killed.jsonl").read_bytes() == (tmp_path / "whole.jsonl").read_bytes()
    assert int(resumed.stderr.split()[-1]) < int(whole.stderr.split()[-1]) - 500
    assert not list(tmp_path.glob("*.scores"))


@pytest.mark.parametrize("place", [3, 20, 26, 33])
def test_a_damaged_record_is_named_and_computed_again(tmp_path: Path, place: int) -> None:
    path, model = tmp_path / "out.scores", Model()
    with ScoreLog(path, "settings") as log:
        wanted = [log.score(FIRST, model), log.score(SECOND, model)]
    raw, head = bytearray(path.read_bytes()), len(b"mbr-decode scores: settings\n")
    raw[head + place] ^= 1
    path.write_bytes(raw)
    warnings: list[str] = []
    for _ in range(2):
        with ScoreLog(path, "settings", resume=True, warn=warnings.append) as log:
            for some, scores in zip((FIRST, SECOND), wanted, strict=True):
                np.testing.assert_array_equal(log.score(some, model), scores)
    assert model.asked == [2, 1, 2, 1]
    assert warnings == [f"{path}: the scores from byte {head} on are damaged; they are computed again"]
