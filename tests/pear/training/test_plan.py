"""The order of the batches, and the share of them in which the encoder is frozen."""

from __future__ import annotations

import copy
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from pear.checkpoint import Checkpoint
from pear.training.loop import TrainingRun, train
from pear.training.parallel import Alone
from tests.pear.training.runs import ALONE, GROUPS, weights

pytestmark = pytest.mark.one_world


def test_a_frozen_encoder_stays_until_its_share_of_the_first_epoch(start: Checkpoint, tmp_path: Path) -> None:
    recipe = replace(ALONE, steps=None, epochs=1, freeze_encoder=0.5)
    steps = TrainingRun(recipe, copy.deepcopy(start), GROUPS, [], tmp_path / "count", Alone()).plan.steps
    before = weights(start)

    def moved(count: int) -> set[str]:
        result = train(replace(recipe, steps=count), copy.deepcopy(start), GROUPS, [], tmp_path / str(count))
        return {name.split(".")[0] for name, weight in weights(result).items() if not torch.equal(weight, before[name])}

    assert moved(steps // 2) == {"head"}
    assert moved(steps // 2 + 2) == {"head", "encoder"}
