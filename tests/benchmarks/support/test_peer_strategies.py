"""The decision rules of others: what they pay, what they look at, and what they decide with everything paid."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from benchmarks.support import peer_strategies
from benchmarks.support.peer_strategies import (
    SCHEDULE,
    Replay,
    confidence_pruning,
    low_rank,
    plain_random_pairs,
    random_anchors,
)

pytestmark = pytest.mark.one_world

Rule = Callable[..., Replay]
GENERAL: list[Rule] = [random_anchors, low_rank, confidence_pruning]
CASES = [(rule, kind) for rule in GENERAL for kind in (True, False)] + [(plain_random_pairs, True)]
every_case = pytest.mark.parametrize(("rule", "antisymmetric"), CASES)


class Watched(np.ndarray):  # type: ignore[type-arg]
    """Remembers which of its entries were looked at, one by one."""

    looks: list[tuple[Any, Any]]

    def __getitem__(self, key: Any) -> Any:
        first, second = key
        self.looks.append((first.copy(), second.copy()))
        return np.asarray(self)[first, second]


def made(seed: int, size: int, noise: float = 0.5) -> np.ndarray:
    """Differences of qualities and noise in each entry: neither antisymmetric nor 0 on the diagonal."""
    draw = np.random.default_rng(seed)
    quality = draw.normal(size=size)
    return quality[:, None] - quality + noise * draw.normal(size=(size, size))


def run(rule: Rule, values: np.ndarray, budget: int, antisymmetric: bool, **options: Any) -> Replay:
    return rule(values, budget, np.random.default_rng(7), antisymmetric=antisymmetric, **options)


@every_case
@pytest.mark.parametrize(("size", "budget"), [(1, 5), (2, 1), (30, 0), (30, 10), (30, 100), (30, 400), (30, 10_000)])
def test_only_what_was_paid_is_looked_at(rule: Rule, antisymmetric: bool, size: int, budget: int) -> None:
    values = made(size, size)
    watched = values.view(Watched)
    watched.looks = []
    replay = run(rule, watched, budget, antisymmetric)
    assert sorted(replay.ranking) == list(range(size))
    first, second = (np.concatenate([look[k] for look in watched.looks] or [np.zeros(0, int)]) for k in (0, 1))
    assert len(first) == replay.passes <= budget
    assert len(set(zip(first, second, strict=True))) == replay.passes
    if antisymmetric:
        assert len({frozenset(pair) for pair in zip(first, second, strict=True)}) == replay.passes
        assert (first != second).all()
    for elsewhere in (np.nan, 1e6):
        other = np.full_like(values, elsewhere)
        other[first, second] = values[first, second]
        again = run(rule, other, budget, antisymmetric)
        assert (again.ranking == replay.ranking).all()
        assert again.passes == replay.passes


@every_case
@pytest.mark.parametrize("weighted", [False, True])
def test_with_everything_paid_the_decision_is_exact(rule: Rule, antisymmetric: bool, weighted: bool) -> None:
    for seed in range(10):
        values = made(seed, 20)
        if antisymmetric:
            values = (values - values.T) / 2
        weights = np.random.default_rng(seed).uniform(0.5, 1.5, 20) if weighted else np.ones(20)
        replay = run(rule, values, 400, antisymmetric, weights=weights if weighted else None)
        others = weights.sum() - (weights if rule is plain_random_pairs else 0)
        expected = values @ weights / others
        assert replay.ranking[0] == expected.argmax()
        if rule is not confidence_pruning:
            assert (replay.ranking == np.argsort(-expected)).all()
            assert replay.passes == (190 if antisymmetric else 400)


def test_random_anchors_are_whole_references() -> None:
    values = made(0, 100)
    assert run(random_anchors, values, 500, antisymmetric=True).passes == 99 + 98 + 97 + 96 + 95
    assert run(random_anchors, values, 599, antisymmetric=False).passes == 500
    nothing = run(random_anchors, values, 98, antisymmetric=True)
    assert (nothing.passes, list(nothing.ranking)) == (0, list(range(100)))


@pytest.mark.parametrize("rule", [low_rank, plain_random_pairs])
def test_random_entries_use_all_of_the_budget(rule: Rule) -> None:
    assert run(rule, made(0, 100), 500, antisymmetric=True).passes == 500


def test_a_matrix_of_low_rank_is_completed() -> None:
    draw = np.random.default_rng(0)
    values = draw.normal(size=(60, 3)) @ draw.normal(size=(3, 60))
    replay = run(low_rank, values, 1800, antisymmetric=False)
    assert list(replay.ranking[:3]) == list(np.argsort(-values.mean(axis=1))[:3])


def test_the_least_squares_of_a_row_are_those_of_what_was_seen_in_it() -> None:
    draw = np.random.default_rng(0)
    features, seen = draw.normal(size=(20, 8)), draw.random((20, 20)) < 0.6
    targets = np.where(seen, draw.normal(size=(20, 20)), 0)
    found = peer_strategies._ridge(targets, seen, features, peer_strategies.REGULARISATION)
    for row, mask, answer in zip(targets, seen, found, strict=True):
        # The penalty 0.1 |x|^2 as eight more observations of 0.
        stacked = np.concatenate([features[mask], 0.1**0.5 * np.eye(8)])
        plain, *_ = np.linalg.lstsq(stacked, np.concatenate([row[mask], np.zeros(8)]), rcond=None)
        assert np.allclose(answer, plain)


def test_pruning_is_random_anchors_until_the_budget_buys_its_first_step() -> None:
    values = made(0, 100)
    for budget in (50, 500, 763):  # 764 = 99 + 98 + ... + 92
        pruned, anchors = (
            run(rule, values, budget, antisymmetric=True) for rule in (confidence_pruning, random_anchors)
        )
        assert pruned.passes == anchors.passes
        assert (pruned.ranking == anchors.ranking).all()


def test_pruning_ends_when_one_is_left_and_ranks_who_went_later_higher() -> None:
    clear = np.subtract.outer(np.arange(50.0), np.arange(50.0))
    replay = run(confidence_pruning, clear, 10_000, antisymmetric=False)
    assert replay.passes == 50 * SCHEDULE[0]
    assert list(replay.ranking) == list(range(49, -1, -1))
    close = made(3, 100, noise=3.0)
    replay = run(confidence_pruning, close, 10_000, antisymmetric=False)
    assert 100 * SCHEDULE[0] < replay.passes < 100 * 100


def test_random_pairs_need_antisymmetry() -> None:
    with pytest.raises(ValueError, match="antisymmetric=True"):
        run(plain_random_pairs, made(0, 4), 3, antisymmetric=False)
