"""The complete strategies: what they ask for, and what an order bias does to them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.support.replay import replay
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
