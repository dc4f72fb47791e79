"""The listwise objective: its gradient, its choices, the weights that it finds."""

from __future__ import annotations

import numpy as np
import pytest

from mbr.tune.listwise import PENALTIES, Problem, _loss, fit, standardised
from mbr.tune.validation import best_penalty, folds_of, validate

pytestmark = pytest.mark.one_world


def made(lists: int, weights: list[float], *, noise: float, seed: int = 1, size: int = 20) -> Problem:
    draw = np.random.default_rng(seed)
    features = [draw.normal(size=(size, len(weights))) for _ in range(lists)]
    qualities = [values @ np.array(weights) + noise * draw.normal(size=size) for values in features]
    return Problem.of(standardised(features)[0], qualities)


def test_the_gradient_is_that_of_the_objective() -> None:
    problem = made(7, [1.0, -2.0, 0.5], noise=1.0, size=5)
    at = np.array([0.3, -0.2, 0.9])
    _, gradient = _loss(at, problem, 0.01)
    steps = 1e-6 * np.eye(3)
    numeric = [(_loss(at + step, problem, 0.01)[0] - _loss(at - step, problem, 0.01)[0]) / 2e-6 for step in steps]
    np.testing.assert_allclose(gradient, numeric, atol=1e-6)


def test_known_weights_are_recovered() -> None:
    truth = np.array([3.0, 1.5, -1.0, 0.0])
    weights = fit(made(300, truth.tolist(), noise=1.5), 0.001, seed=1)
    cosine = weights @ truth / np.linalg.norm(weights) / np.linalg.norm(truth)
    assert cosine > 0.99
    assert weights[0] / weights[1] == pytest.approx(2.0, rel=0.2)


def test_a_weight_that_must_not_be_negative_is_zero_instead() -> None:
    problem = made(100, [2.0, -1.0], noise=0.5)
    assert fit(problem, 0.01)[1] < 0
    assert fit(problem, 0.01, positive=[1])[1] == 0


def test_choices_are_the_first_of_the_best() -> None:
    features = [np.array([[1.0], [2.0], [2.0]]), np.array([[0.0]]), np.array([[3.0], [1.0]])]
    problem = Problem.of(features, [np.arange(3.0), np.zeros(1), np.arange(2.0)])
    assert problem.choices(np.array([1.0])).tolist() == [1, 0, 0]
    assert problem.choices(np.array([-1.0])).tolist() == [0, 0, 1]
    assert problem.choices(np.array([0.0])).tolist() == [0, 0, 0]
    assert problem.quality(np.array([2, 0, 1])).tolist() == [2.0, 0.0, 1.0]
    some = problem.take(np.array([2, 0]))
    assert some.sizes.tolist() == [2, 3]
    assert some.features[:, 0].tolist() == [3.0, 1.0, 1.0, 2.0, 2.0]


def test_standard_units_are_those_within_lists() -> None:
    values, deviations = standardised([np.array([[1.0, 5.0], [3.0, 5.0]]), np.array([[101.0, 7.0], [103.0, 7.0]])])
    assert deviations.tolist() == [1.0, 0.0]
    assert values[1].tolist() == [[-1.0, 0.0], [1.0, 0.0]]


def test_lists_of_one_source_share_a_fold() -> None:
    sources = [f"s{k % 17}" for k in range(60)]
    folds = folds_of(sources, 5, 1)
    assert len({(source, fold) for source, fold in zip(sources, folds.tolist(), strict=True)}) == 17
    assert set(folds.tolist()) == set(range(5))


def test_many_noise_features_on_few_lists_gain_in_training_and_not_by_validation() -> None:
    """What is overfitted looks like a gain on its own lists; lists that were held out show that it is none."""
    problem = made(40, [0.0] * 20, noise=1.0)
    sources = [f"s{k}" for k in range(40)]
    first = problem.quality(np.zeros(40, np.int64))
    trained = problem.quality(problem.choices(fit(problem, PENALTIES[-1], seed=1))) - first
    held_out = problem.quality(validate(problem, sources, positive=[], seed=1).choices) - first
    error = held_out.std() / np.sqrt(40)
    assert trained.mean() > 4 * trained.std() / np.sqrt(40)
    assert abs(held_out.mean()) < 1.96 * error


def test_of_equally_good_penalties_the_strongest_is_taken() -> None:
    sources = [f"s{k}" for k in range(40)]
    assert best_penalty(made(40, [1.0], noise=0.0), sources, positive=[], seed=1) == PENALTIES[0]
