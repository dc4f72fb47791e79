"""The learner of a recipe: its kind, its scale, gradient checkpointing."""

from __future__ import annotations

import copy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from candidates.common.errors import ModelError
from pear.checkpoint import Checkpoint
from pear.training.loop import train
from tests.pear.training.processes import tiny
from tests.pear.training.runs import ALONE, GROUPS, farthest, weights

pytestmark = pytest.mark.one_world


def test_a_frozen_scale_stays_and_a_learned_one_moves(start: Checkpoint, tmp_path: Path) -> None:
    for learn_scale in (False, True):
        fresh = copy.deepcopy(start)
        before = weights(fresh)["head._alpha_raw"]
        result = train(replace(ALONE, steps=3, learn_scale=learn_scale), fresh, GROUPS, [], tmp_path / str(learn_scale))
        assert torch.equal(before, weights(result)["head._alpha_raw"]) is not learn_scale


def test_a_network_of_another_kind_is_refused(start: Checkpoint, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="the network is a pear, the recipe wants a single"):
        train(replace(ALONE, kind="single"), start, GROUPS, [], tmp_path)


def test_gradient_checkpointing_computes_layers_twice_and_learns_the_same(tmp_path: Path) -> None:
    results, calls = [], []
    for on in (False, True):
        fresh = tiny(tmp_path / "tokenizer", model_type="xlm-roberta-xl")
        calls.append(0)

        def count(*args: Any) -> None:
            calls[-1] += 1

        fresh.network.encoder.encoder.layer[0].intermediate.register_forward_hook(count)
        recipe = replace(ALONE, steps=2, gradient_checkpointing=on)
        results.append(weights(train(recipe, fresh, GROUPS, [], tmp_path / str(on))))
    assert calls == [2, 4]
    assert farthest(*results) < 1e-6
