"""The complete strategies: what they ask for, and what an order bias does to them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.support.replay import regret, replay, segment_of, truth
from mbr.strategies import Outcome, Segment, get_strategy
from mbr.strategies.half import regular_tournament


def play(name: str, values: np.ndarray, order: np.ndarray | None = None, diagonal: bool = False) -> tuple[Outcome, int]:
    """Answer a strategy's questions from a complete matrix."""
    ones = np.ones(len(values))
    draws = (np.arange(len(values)) if order is None else np.argsort(order)) / len(values)
    segment = Segment(draws, ones, 0 * ones, "antisymmetric", np.full(len(values), diagonal))
    found = replay(values, get_strategy(name), segment)
    return found.outcome, found.passes


def matrix(size: int, order_bias: float = 0.0) -> np.ndarray:
    draw = np.random.default_rng(size)
    quality = draw.normal(size=size)
    values = quality[:, None] - quality[None]
    noise = draw.normal(size=(size, size))
    values += (noise - noise.T) / 2
    values = values + order_bias
    np.fill_diagonal(values, 0)
    return values.astype(np.float32)


@pytest.mark.parametrize("name", ["half", "balanced", "both"])
@pytest.mark.parametrize("size", [2, 3, 8, 25])
def test_an_antisymmetric_utility_gives_every_strategy_the_full_matrix(name: str, size: int) -> None:
    values = matrix(size)
    full, passes = play("full", values)
    outcome, fewer = play(name, values)
    np.testing.assert_allclose(outcome.values, full.values, atol=1e-6)
    assert passes == size * (size - 1)
    assert fewer == (passes if name == "both" else passes // 2)
    assert fewer == get_strategy(name).passes(size, 0, "antisymmetric")


@given(st.integers(2, 60))
def test_balanced_puts_each_candidate_first_as_often_as_second_within_one(size: int) -> None:
    pairs = regular_tournament(size)
    first, second = np.bincount(pairs[:, 0], minlength=size), np.bincount(pairs[:, 1], minlength=size)
    assert np.abs(first - second).max() <= 1
    assert len({frozenset(pair) for pair in pairs.tolist()}) == len(pairs) == size * (size - 1) // 2


def test_a_constant_order_bias_moves_half_but_not_balanced() -> None:
    size = 101
    truth = matrix(size).sum(axis=1)
    biased = matrix(size, order_bias=0.5)

    def error(name: str) -> float:
        return float(np.abs(play(name, biased)[0].values.sum(axis=1) - truth).max())

    assert error("half") == pytest.approx(0.5 * (size - 1), rel=1e-4)
    assert error("balanced") == pytest.approx(0, abs=1e-3)
    assert error("both") == pytest.approx(0, abs=1e-3)


def test_scored_marks_what_was_asked() -> None:
    outcome, _ = play("half", matrix(4))
    assert outcome.scored.tolist() == np.triu(np.ones((4, 4), bool), 1).tolist()
    assert play("full", matrix(3), diagonal=True)[0].scored.all()


def with_slot_effects(seed: int, size: int, constant: float, candidates: float, pairs: float) -> np.ndarray:
    """Differences of qualities (root mean square 1) and an order bias: a constant, effects of candidates, of pairs."""
    draw = np.random.default_rng(seed)
    quality = draw.normal(size=size) / 2**0.5
    own, bias = draw.normal(size=(2, size, size)) / 2**0.5
    effects = candidates * draw.normal(size=size) / 2**0.5
    values = quality[:, None] - quality + 0.1 * (own - own.T) + constant + pairs * (bias + bias.T)
    values += effects[:, None] + effects
    np.fill_diagonal(values, 0)
    return values.astype(np.float32)


@pytest.mark.parametrize(
    ("name", "size", "effects"),
    [
        ("half", 30, (1.0, 0.5, 0.3)),  # true: 22 %
        ("half", 30, (0.3, 0.3, 0.1)),
        ("half", 60, (0.0, 0.5, 0.1)),
        ("balanced", 30, (1.0, 0.5, 0.3)),  # true: 1.3 %
    ],
)
def test_one_order_says_what_the_other_may_change(name: str, size: int, effects: tuple[float, float, float]) -> None:
    true, estimated = [], []
    for seed in range(150):
        values = with_slot_effects(seed, size, *effects)
        played = replay(values, get_strategy(name), segment_of(values, seed))
        true.append(regret(truth(values), int(played.ranking[0])))
        estimated.append(played.outcome.certainty.estimated_regret)
    assert np.mean(true) > 0.005
    assert 0.5 < np.mean(estimated) / np.mean(true) < 2


@pytest.mark.parametrize("name", ["half", "balanced"])
def test_pairs_in_the_other_order_measure_the_bias_and_change_no_score(name: str) -> None:
    values = with_slot_effects(1, 40, 0.5, 0.2, 0.1)
    outcome, passes = play(name, values)
    assert passes == 780 + 15 == get_strategy(name).passes(40, 0, "antisymmetric")
    assert outcome.scored.sum() == 780
    np.testing.assert_array_equal(outcome.values, -outcome.values.T)
    np.testing.assert_array_equal(outcome.values[outcome.scored], values[outcome.scored])
    bias = ((values + values.T) / 2)[~np.eye(40, dtype=bool)]
    differences = outcome.values.mean(axis=1)
    differences = (differences[:, None] - differences)[~np.eye(40, dtype=bool)]
    assert outcome.certainty.tau == pytest.approx(np.sqrt((bias**2).mean() / (differences**2).mean()), rel=0.2)


@pytest.mark.parametrize("name", ["half", "balanced"])
def test_an_exactly_antisymmetric_utility_loses_nothing_by_one_order(name: str) -> None:
    certainty = play(name, np.round(matrix(40) * 64) / 64)[0].certainty
    assert (certainty.estimated_regret, certainty.contenders, certainty.tau) == (0, 1, 0)


@pytest.mark.parametrize("name", ["half", "balanced", "race", "halving", "prune"])
@pytest.mark.parametrize("size", [2, 3, 4])
def test_what_one_order_of_few_pairs_may_lose_is_not_known(name: str, size: int) -> None:
    certainty = play(name, matrix(size, order_bias=0.5))[0].certainty
    assert (certainty.estimated_regret, certainty.contenders) == (None, None)


@pytest.mark.parametrize("name", ["full", "both"])
@pytest.mark.parametrize("size", [2, 3, 30])
def test_both_orders_of_every_pair_leave_nothing_open(name: str, size: int) -> None:
    certainty = play(name, matrix(size, order_bias=0.5))[0].certainty
    assert (certainty.estimated_regret, certainty.contenders) == (0, 1)


def test_the_estimate_of_one_order_includes_terms() -> None:
    """Terms that decide the list leave nothing open."""
    values = with_slot_effects(1, 30, 1.0, 0.5, 0.3)
    open_choice = replay(values, get_strategy("half"), segment_of(values, 1)).outcome.certainty
    decided = replay(values, get_strategy("half"), segment_of(values, 1, terms=50.0 * (np.arange(30) == 7))).outcome
    assert open_choice.estimated_regret > 0.01
    assert (decided.certainty.estimated_regret, decided.certainty.contenders) == (0, 1)
