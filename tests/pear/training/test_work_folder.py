"""Runs that are interrupted and continued, and files that are damaged or of another run."""

from __future__ import annotations

import copy
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from candidates.common.errors import ModelError, UsageError
from pear.checkpoint import Checkpoint
from pear.training.loop import train
from pear.training.work_folder import BEST, CHECKPOINT, LOG, WorkFolder
from tests.conftest import ROOT
from tests.pear.training.processes import judged, tiny
from tests.pear.training.runs import ALONE, GROUPS, log, weights

pytestmark = pytest.mark.one_world


CUT = replace(ALONE, steps=18, every=6, accumulate=2)


KILLED = """
import os, signal, sys
from pathlib import Path
import torch
from pear.training.loop import TrainingRun, train
from tests.pear.training.processes import tiny
from tests.pear.training.runs import GROUPS
from tests.pear.training.test_work_folder import CUT
torch.set_num_threads(1)
save = TrainingRun.save

def save_or_die(self, weights):
    if self.place.step == 12:  # the log has its line, the best weights may be new, the checkpoint is old
        os.kill(os.getpid(), signal.SIGKILL)
    save(self, weights)

TrainingRun.save = save_or_die
train(CUT, tiny(Path(sys.argv[1], "tokenizer"), dropout=0.1), GROUPS, GROUPS[:6], Path(sys.argv[1], "cut"))
"""


def test_a_killed_run_goes_on_as_if_it_had_not_been(tmp_path: Path) -> None:
    command = [sys.executable, "-c", KILLED, str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, env={**os.environ, "OMP_NUM_THREADS": "1"}, capture_output=True)
    assert done.returncode == -signal.SIGKILL, done.stderr.decode()
    assert [line["step"] for line in log(tmp_path / "cut")] == [6, 12]
    results = {}
    for name in ("whole", "cut"):
        fresh = tiny(tmp_path / "tokenizer", dropout=0.1)
        results[name] = weights(train(CUT, fresh, GROUPS, GROUPS[:6], tmp_path / name))
    whole, cut = (torch.load(tmp_path / name / CHECKPOINT, weights_only=True) for name in ("whole", "cut"))
    assert cut["place"]["epoch"] > 0  # pairs were drawn anew on the way
    assert all(torch.equal(whole["learner"][name], weight) for name, weight in cut["learner"].items())
    assert all(torch.equal(results["whole"][name], weight) for name, weight in results["cut"].items())
    times = ("seconds", "tokens_per_second")
    lines = [
        [{k: v for k, v in line.items() if k not in times} for line in log(tmp_path / n)] for n in ("whole", "cut")
    ]
    assert lines[0] == lines[1]
    assert len(lines[0]) == 3


def test_a_checkpoint_of_another_run_is_refused(start: Checkpoint, tmp_path: Path) -> None:
    recipe = replace(ALONE, steps=2)
    train(recipe, copy.deepcopy(start), GROUPS, [], tmp_path)
    for other, groups, said in (
        (replace(recipe, flip=0.2, seed=2), GROUPS, "flip was 0.1, is 0.2; seed was 1, is 2"),
        (recipe, judged(64, seed=2, candidates=2), "the data are not the same"),
    ):
        with pytest.raises(UsageError, match=f"another run \\({said}.*another folder"):
            train(other, copy.deepcopy(start), groups, [], tmp_path)
    larger = tiny(tmp_path / "tokenizer", model_type="xlm-roberta-xl")
    with pytest.raises(UsageError, match="another network than this run begins with"):
        train(recipe, larger, GROUPS, [], tmp_path)


@pytest.mark.parametrize("damage", [lambda c: c[: len(c) // 2], lambda c: b"", lambda c: b"no checkpoint" * 99])
@pytest.mark.parametrize("name", [CHECKPOINT, BEST])
def test_a_damaged_file_is_named(name: str, damage: Any, start: Checkpoint, tmp_path: Path) -> None:
    recipe = replace(ALONE, steps=1)
    train(recipe, copy.deepcopy(start), GROUPS, [], tmp_path)
    file = tmp_path / name
    file.write_bytes(damage(file.read_bytes()))
    with pytest.raises(ModelError, match=rf"{name}: cannot be read as a file of a training run.*train anew"):
        train(recipe, copy.deepcopy(start), GROUPS, [], tmp_path)


def test_a_checkpoint_with_other_content_is_named(start: Checkpoint, tmp_path: Path) -> None:
    recipe = replace(ALONE, steps=1)
    train(recipe, copy.deepcopy(start), GROUPS, [], tmp_path)
    for content in ({"learner": {}}, [1]):
        torch.save(content, tmp_path / CHECKPOINT)
        with pytest.raises(ModelError, match=f"{CHECKPOINT}: cannot be read as a file of a training run: it h"):
            train(recipe, copy.deepcopy(start), GROUPS, [], tmp_path)


JUNK = (
    b"junk\n",
    b"\xff\xfe\n",
    b"[1]\n",
    b"{}\n",
    b'{"step": "2", "best": true}\n',
    b'{"step": 1, "best": true, "dev_pdp": "x"}\n',
)


def test_damaged_lines_of_the_log_are_dropped_and_counted(start: Checkpoint, tmp_path: Path) -> None:
    recipe, messages = replace(ALONE, steps=3, every=1), list[str]()
    train(recipe, copy.deepcopy(start), GROUPS, [], tmp_path)
    whole = (tmp_path / LOG).read_bytes()
    (tmp_path / LOG).write_bytes(JUNK[0] + whole + b"".join(JUNK[1:]) + whole[:20])
    assert [line["step"] for line in WorkFolder(tmp_path).read_log()] == [1, 2, 3]
    train(recipe, copy.deepcopy(start), GROUPS, [], tmp_path, say=messages.append)
    assert (tmp_path / LOG).read_bytes() == whole
    assert messages == [
        f"warning: {len(JUNK)} damaged lines of {tmp_path / LOG} were dropped; the training is not affected"
    ]
