"""Recipes of training: the learning rate, and settings that are refused."""

from __future__ import annotations

from typing import Any

import pytest

from candidates.common.errors import UsageError
from pear.training.recipe import Recipe

pytestmark = pytest.mark.one_world


def test_the_rate_rises_and_falls() -> None:
    recipe = Recipe(warm_up=0.1)
    rates = [recipe.rate(step, 100) for step in range(100)]
    assert rates[:10] == sorted(rates[:10])
    assert rates[10] == 1.0
    assert rates[10:] == sorted(rates[10:], reverse=True)
    assert 0 < rates[-1] < 0.02
    assert {Recipe(warm_up=0.1, schedule="constant").rate(step, 100) for step in range(10, 100)} == {1.0}


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"kind": "cat"}, "kind 'cat' is unknown"),
        ({"flip": -1}, "flip -1 is not a number from 0 on"),
        ({"dev_share": 1.0}, "is not a share"),
        ({"accumulate": 0}, "is not a positive number"),
        ({"patience": 0}, "is not a positive number"),
        ({"learning_rate": 1}, "'learning_rate' is no setting of a training run"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        Recipe.from_dict(settings)
