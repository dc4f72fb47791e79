"""Confidence pruning: who is dropped, and how much is left to score."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from benchmarks.support.replay import regret, replay, segment_of, structured, truth
from mbr import rerank
from mbr.strategies import get_strategy
from tests.mbr.made import Better, Similar, questions

pytestmark = pytest.mark.one_world


@pytest.mark.parametrize("relation", ["antisymmetric", "none"])
def test_it_loses_little_and_leaves_most_pairs_out(relation: Any) -> None:
    losses, passes = [], []
    for seed in range(30):
        values = structured(seed, tau=0.15 if relation == "antisymmetric" else 0)
        found = replay(values, get_strategy("prune"), segment_of(values, seed, relation))
        losses.append(regret(truth(values, relation), found.ranking[0]))
        passes.append(found.passes)
    assert np.mean(losses) <= 0.01
    assert np.mean(passes) <= 0.25 * (4950 if relation == "antisymmetric" else 9900)


def test_all_who_are_left_meet_the_same_references() -> None:
    """Eight, then sixteen, ...: what a step asks for is the new references against those left, and nothing else."""
    values = structured(2, 100, rho=2)
    _, asked, _ = questions(values, get_strategy("prune"), segment_of(values, 2, "none"))
    references: set[int] = set()
    alive = set(range(100))
    for pairs, size in zip(asked, (8, 16, 32, 64, 100), strict=False):
        hypotheses, new = set(pairs[:, 0].tolist()), set(pairs[:, 1].tolist())
        assert hypotheses <= alive
        assert not references & new
        references |= new
        assert len(references) == size
        assert len(pairs) == len(hypotheses) * len(new) - len(hypotheses & new)
        alive = hypotheses


def test_a_larger_tolerance_drops_more() -> None:
    def passes(tolerance: float) -> float:
        matrices = [structured(seed, 60, rho=2) for seed in range(10)]
        strategy = get_strategy("prune", tolerance=tolerance)
        return float(np.mean([replay(v, strategy, segment_of(v, k)).passes for k, v in enumerate(matrices)]))

    assert passes(0.3) < passes(0.05) < passes(0.001) < passes(0)
    assert passes(0) == 60 * 59 / 2 + 35


def test_a_fiftieth_of_the_first_step_is_scored_in_both_orders() -> None:
    values = structured(2, 100)
    _, asked, _ = questions(values, get_strategy("prune"), segment_of(values, 2))
    first = asked[0]
    twice = len(first) - len({frozenset(pair) for pair in first.tolist()})
    assert twice == int(0.02 * (len(first) - twice))
    later = np.concatenate([*asked[1:], np.empty((0, 2), np.intp)])
    assert len({frozenset(pair) for pair in later.tolist()}) == len(later)


def test_who_stayed_longer_ranks_higher() -> None:
    values = structured(4, 80)
    outcome, asked, _ = questions(values, get_strategy("prune"), segment_of(values, 4, "none"))
    assert outcome.ranking is not None
    last = set(asked[-1][:, 0].tolist())
    assert set(outcome.ranking[: len(last)]) == last


@pytest.mark.parametrize("utility", [Better, Similar])
def test_a_budget_that_ends_within_a_step_is_used_up_to_the_last_whole_reference(utility: Any) -> None:
    texts = [f"candidate {i}" for i in range(60)]
    for budget in (5, 59, 100, 300, 400):
        decision = rerank("s", texts, utility(), strategy="prune", budget=budget)
        assert budget - 60 < decision.passes <= budget
        assert ("unseen" in decision.flags) == (budget < 59 or (utility is Similar and budget < 118))
    assert get_strategy("prune", budget=100).settings == {"tol": 0.01, "budget": 100}
