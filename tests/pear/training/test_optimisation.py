"""One step of training."""

from __future__ import annotations

import copy
import itertools
from pathlib import Path

import pytest

from pear.checkpoint import Checkpoint
from pear.training.examples import examples
from pear.training.loop import TrainingRun
from pear.training.parallel import Alone
from tests.pear.training.runs import ALONE, GROUPS, farthest

pytestmark = pytest.mark.one_world


def test_two_batches_of_a_step_teach_what_one_of_all_their_rows_does(start: Checkpoint, tmp_path: Path) -> None:
    """The loss is a mean over the rows of a step, however they are divided."""
    results = []
    for number, parts in enumerate(((8,), (4, 4), (7, 1))):
        run = TrainingRun(ALONE, copy.deepcopy(start), GROUPS, [], tmp_path / str(number), Alone())
        (rows,) = examples(ALONE, GROUPS[:8], 0)
        ends = list(itertools.accumulate(parts))
        run.learn([(rows[end - size : end], True) for size, end in zip(parts, ends, strict=True)])
        results.append(dict(run.learner.network.state_dict()))
    assert farthest(results[0], results[1]) < 1e-5
    assert farthest(results[0], results[2]) < 1e-5
