"""Race: what it promises on matrices of known structure, and how it spends its passes."""

from __future__ import annotations

import time
from functools import cache
from typing import Any

import numpy as np
import pytest

from benchmarks.support.peer_strategies import random_anchors
from benchmarks.support.replay import Played, regret, replay, segment_of, structured, truth
from candidates.common.errors import UsageError
from mbr import rerank
from mbr.strategies import get_strategy
from tests.mbr.made import Biased, Similar, questions

pytestmark = pytest.mark.one_world

SEEDS = 24
# The tolerance is a mean over many lists; over this few, losses that are rare and large may add up to twice of it.
BY_CHANCE = 2


@cache
def race(rho: float, tolerance: float) -> tuple[list[Played], list[float]]:
    """Lists of 100 with an order bias of 0.15: how each ended, and its true regret."""
    replays, losses = [], []
    for seed in range(SEEDS):
        values = structured(seed, rho=rho)
        replays.append(replay(values, get_strategy("race", tolerance=tolerance), segment_of(values, 1000 + seed)))
        losses.append(regret(truth(values), replays[-1].ranking[0]))
    return replays, losses


def mean_estimate(replays: list[Played]) -> float:
    return float(np.mean([one.outcome.certainty.estimated_regret for one in replays]))  # type: ignore[misc]


def test_a_tolerance_of_one_percent_takes_two_or_three_passes_per_candidate() -> None:
    replays, losses = race(0.5, 0.01)
    passes = [one.passes for one in replays]
    anchors = []
    for seed, spent in enumerate(passes):
        values = structured(seed)
        choice = random_anchors(values, spent, np.random.default_rng(seed), antisymmetric=True).ranking[0]
        anchors.append(regret(truth(values), choice))
    print(f"regret {np.mean(losses):.2%} in {np.mean(passes):.0f} passes, random anchors {np.mean(anchors):.2%}")
    assert np.mean(losses) <= BY_CHANCE * 0.01
    assert np.mean(passes) <= 300
    assert np.mean(losses) <= np.mean(anchors) / 3


@pytest.mark.parametrize("tolerance", [0.01, 0.05])
def test_where_utilities_are_no_differences_it_takes_more_passes_and_the_tolerance_holds(tolerance: float) -> None:
    replays, losses = race(2.0, tolerance)
    assert np.mean(losses) <= BY_CHANCE * tolerance
    assert np.mean([one.passes for one in replays]) > 1.5 * np.mean([one.passes for one in race(0.5, 0.01)[0]])


def test_the_estimated_regret_is_calibrated() -> None:
    """On the average the truth is no more than twice as bad, and where it is easy to tell, not far from it."""
    replays, losses = race(2.0, 0.05)
    assert np.mean(losses) / 2 <= mean_estimate(replays) <= 0.05
    replays, losses = race(0.5, 0.05)
    assert np.mean(losses) / 2 <= mean_estimate(replays) <= 3 * np.mean(losses)


def test_that_of_halving_too() -> None:
    replays, losses = [], []
    for seed in range(SEEDS):
        values = structured(seed, rho=2)
        replays.append(replay(values, get_strategy("halving", budget=500), segment_of(values, 1000 + seed)))
        losses.append(regret(truth(values), replays[-1].ranking[0]))
    assert np.mean(losses) / 2 <= mean_estimate(replays) <= 2 * np.mean(losses)


def test_a_large_order_bias_costs_half_much_and_balanced_little() -> None:
    def loss(name: str) -> float:
        matrices = [structured(seed, tau=0.5) for seed in range(SEEDS)]
        found = [replay(v, get_strategy(name), segment_of(v, seed)) for seed, v in enumerate(matrices)]
        return float(np.mean([regret(truth(v), one.ranking[0]) for v, one in zip(matrices, found, strict=True)]))

    assert loss("balanced") < loss("half") / 3


def test_a_smaller_tolerance_takes_more_passes_and_the_estimate_keeps_it() -> None:
    loose, tight = race(2.0, 0.05)[0], race(2.0, 0.01)[0]
    assert np.mean([one.passes for one in loose]) < np.mean([one.passes for one in tight])
    for one in loose:
        told = one.outcome.certainty.estimated_regret
        assert told is not None
        assert told <= 0.05 or one.passes == 2000


@pytest.mark.parametrize("size", [10, 50, 100, 101])
def test_an_exactly_additive_utility_is_solved_by_the_screen(size: int) -> None:
    for seed in range(5):
        values = structured(seed, size, rho=0, tau=0)
        found = replay(values, get_strategy("race"), segment_of(values, seed))
        assert found.passes <= 1.5 * size + 3
        assert found.ranking[0] == truth(values).argmax()
        # The prior of the model draws expected utilities a little towards their mean.
        np.testing.assert_allclose(found.outcome.expected, truth(values), atol=0.01)
        assert found.outcome.certainty.rho == pytest.approx(0, abs=0.05)


def test_a_thousand_candidates_take_no_million_passes() -> None:
    values = structured(1, 1000)
    began = time.process_time()
    found = replay(values, get_strategy("race"), segment_of(values, 3))
    assert time.process_time() - began < 10
    assert found.passes <= 5000
    assert regret(truth(values), found.ranking[0]) <= 0.05


def test_everybody_comes_first_about_as_often_as_second() -> None:
    """Within four, also those who meet many; reversed pairs come on top."""
    most = 0
    for seed in range(5):
        values = structured(seed, 60, rho=2)
        _, asked, _ = questions(values, get_strategy("race", tolerance=0.01), segment_of(values, seed))
        once: dict[frozenset[int], tuple[int, int]] = {}
        for i, j in np.concatenate(asked).tolist():
            once.setdefault(frozenset((i, j)), (i, j))
        pairs = np.array(list(once.values()))
        slots = np.bincount(pairs[:, 0], minlength=60) - np.bincount(pairs[:, 1], minlength=60)
        assert np.abs(slots).max() <= 4
        most = max(most, int(np.bincount(pairs.ravel(), minlength=60).max()))
    assert most > 30


def test_a_fiftieth_is_scored_in_both_orders() -> None:
    values = structured(3, 100, rho=2)
    outcome, asked, _ = questions(values, get_strategy("race", tolerance=0.01), segment_of(values, 3))
    twice = int((outcome.scored & outcome.scored.T).sum()) // 2
    assert twice == int(0.02 * (len(np.concatenate(asked)) - twice))


def test_passes_go_to_those_who_may_be_the_best() -> None:
    values = structured(7, 100, rho=1)
    outcome, asked, _ = questions(values, get_strategy("race", tolerance=0.005), segment_of(values, 7))
    meetings = np.bincount(np.concatenate(asked).ravel(), minlength=100)
    assert meetings[list(outcome.ranking[:5])].mean() > 3 * meetings[list(outcome.ranking[20:])].mean()  # type: ignore[index]


def test_a_heavy_reference_is_met_first() -> None:
    """Opponents are drawn by weight: the one with most of it is met by nearly all who matter."""
    weights = np.ones(60)
    weights[7] = 100
    met = 0
    losses = []
    for seed in range(5):
        values = structured(seed, 60, rho=1.5, tau=0)
        found = replay(values, get_strategy("race"), segment_of(values, seed, weights=weights))
        exact = truth(values, weights=weights)
        losses.append(regret(exact, found.ranking[0]))
        scored = found.outcome.scored | found.outcome.scored.T
        met += int(scored[7, found.ranking[:4]].sum())
    assert met >= 15
    assert np.mean(losses) <= 0.03


def test_hints_save_passes_or_at_least_do_no_harm() -> None:
    passes: dict[str, list[int]] = {"none": [], "good": [], "useless": []}
    losses: dict[str, list[float]] = {"none": [], "good": [], "useless": []}
    for seed in range(16):
        values = structured(seed, 60, rho=1)
        exact = truth(values)
        noise = np.random.default_rng(1000 + seed).normal(size=(2, 60))
        for name, hints in {"none": None, "good": exact + 0.2 * noise[0], "useless": noise[1]}.items():
            found = replay(values, get_strategy("race"), segment_of(values, seed, hints=hints))
            passes[name].append(found.passes)
            losses[name].append(regret(exact, found.ranking[0]))
    assert np.mean(passes["good"]) < np.mean(passes["none"])
    assert np.mean(passes["useless"]) < 1.3 * np.mean(passes["none"])
    assert all(np.mean(some) <= BY_CHANCE * 0.01 for some in losses.values())


def test_a_budget_too_small_for_the_screen_is_spent_as_by_halving() -> None:
    texts = [f"candidate {i}" for i in range(60)]
    for budget in (10, 59, 89):
        race_, halving = (rerank("s", texts, Biased(), strategy=name, budget=budget) for name in ("race", "halving"))
        assert race_.ranking == halving.ranking
        assert race_.passes == halving.passes == budget
    assert 60 <= rerank("s", texts, Biased(), strategy="race", budget=90).passes <= 90


def test_what_it_needs_and_what_makes_no_sense() -> None:
    with pytest.raises(UsageError, match="antisymmetric utility, which 'similar' is not; use halving"):
        rerank("s", ["a", "b"], Similar(), strategy="race")
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"tolerance": 1.0}, "a share from 0 to below 1"),
        ({"tolerance": -0.1}, "a share from 0 to below 1"),
        ({"tolerance": float("nan")}, "a share from 0 to below 1"),
        ({"budget": 0}, "positive"),
        ({"budget": -1}, "positive"),
        ({"strategy": "halving", "tolerance": 0.1}, "takes budget.; a tolerance goes with strategy 'race' or 'prune'"),
        ({"strategy": "full", "tolerance": 0.1}, "takes none.; a tolerance goes with strategy 'race' or 'prune'"),
        ({"strategy": "full", "budget": 10}, "'race', 'halving' or 'prune'"),
    ]
    for options, message in wrong:
        with pytest.raises(UsageError, match=message):
            rerank("s", ["a", "b"], Biased(), **{"strategy": "race", **options})


def test_the_passes_it_may_take_are_known_before() -> None:
    default = get_strategy("race")
    assert [default.passes(n, 0, "antisymmetric") for n in (2, 3, 10, 100, 1000)] == [1, 3, 46, 2000, 20000]
    assert default.settings == {"tol": 0.01, "budget": "20N"}
    assert get_strategy("race", budget=7).passes(100, 0, "antisymmetric") == 7
