"""A budget for all lists together, spent where it helps most."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from benchmarks.support.replay import regret, structured, truth
from candidates import CandidateList
from candidates.common.errors import UsageError
from mbr import Decision, decode
from mbr.opening import open_decoder
from mbr.pool import OpenConversation, Pool, TotalBudget, until_all_end
from mbr.recipe import Recipe
from mbr.strategies import Ask, Enough, Outcome
from tests.mbr.made import Better, Similar, Tables

pytestmark = pytest.mark.one_world

EASY = {f"easy {k}": structured(k, 40, rho=0, tau=0) for k in range(6)}
HARD = {f"hard {k}": structured(k, 40, rho=2) for k in range(6)}
MIXED = {name: values for pair in zip(EASY.items(), HARD.items(), strict=True) for name, values in pair}


def spent(utility: Tables, total: int | None, **options: Any) -> dict[str, Decision]:
    decisions = list(decode(utility.lists(), utility, **{"strategy": "race", **options}, budget_total=total))
    assert [decision.id for decision in decisions] == list(utility.matrices)
    assert sum(utility.calls) == sum(decision.passes for decision in decisions)
    return {str(decision.id): decision for decision in decisions}


@pytest.mark.parametrize("window_passes", [16_384, 100, 1])
@pytest.mark.parametrize("total", [12 * 65, 2000, 3000])
def test_the_total_is_kept_and_goes_where_the_regret_is_largest(total: int, window_passes: int) -> None:
    utility = Tables(MIXED, window_passes)
    decisions = spent(utility, total)
    assert 0.9 * min(total, 1600) <= sum(utility.calls) <= total  # which is all they need
    easy = np.mean([decisions[name].passes for name in EASY])
    hard = np.mean([decisions[name].passes for name in HARD])
    assert easy <= 1.6 * 40
    assert hard >= (1.03 if total < 1000 else 3) * easy


def test_it_does_better_than_the_same_for_all() -> None:
    total = 12 * 120

    def loss(decisions: dict[str, Decision]) -> float:
        return float(np.mean([regret(truth(MIXED[name]), one.ranking[0]) for name, one in decisions.items()]))

    shared = spent(Tables(MIXED), total, tolerance=0.001)
    same_for_all = spent(Tables(MIXED), None, tolerance=0.001, budget=total // 12)
    assert loss(shared) < loss(same_for_all)


def test_more_than_enough_changes_nothing() -> None:
    plain, pooled = spent(Tables(MIXED), None), spent(Tables(MIXED, 50), 10**6)
    for name in MIXED:
        assert plain[name].ranking == pooled[name].ranking
        assert plain[name].passes == pooled[name].passes
        assert plain[name].certainty == pooled[name].certainty


def test_a_total_too_small_for_the_first_requests_is_refused() -> None:
    utility = Tables(MIXED)
    with pytest.raises(UsageError, match=r"400 passes in all is too small: the first requests .* 12 lists take \d+"):
        spent(utility, 400)
    assert utility.calls == []
    with pytest.raises(UsageError, match="decides nothing"):
        spent(utility, 0)


@pytest.mark.parametrize("name", ["full", "both", "half", "balanced", "halving"])
def test_strategies_that_spend_the_same_on_all_have_no_use_for_it(name: str) -> None:
    with pytest.raises(UsageError, match="'race' or 'prune'"):
        spent(Tables(MIXED), 5000, strategy=name)


@pytest.mark.parametrize("window_passes", [1, 60, 16_384])
def test_every_list_is_scored_once_before_any_is_scored_twice(window_passes: int) -> None:
    """Also where a conversation has no estimate of its regret: with few passes per list race is halving."""
    first_requests = 6 * 39
    decisions = spent(Tables(HARD, window_passes), first_requests + 10, budget=50)
    for decision in decisions.values():
        assert decision.passes >= 39
        assert decision.flags == ()
        assert np.isfinite(decision.expected).all()


@pytest.mark.parametrize(("utility", "name"), [(Better, "prune"), (Similar, "prune"), (Better, "race")])
@pytest.mark.parametrize("total", [2700, 6000])
def test_other_utilities_and_short_lists(utility: Any, name: str, total: int) -> None:
    lists = [CandidateList.of("s", [f"{size} {k}" for k in range(size)], id=size) for size in (1, 2, 3, 30, 60, 5)]
    decisions = list(decode(lists, utility(), strategy=name, budget_total=total))
    assert [decision.id for decision in decisions] == [1, 2, 3, 30, 60, 5]
    assert sum(decision.passes for decision in decisions) <= total
    assert decisions[0].flags == ("single",)
    for decision, exact in zip(decisions[1:3], decode(lists[1:3], utility(), strategy="full"), strict=True):
        assert decision.text == exact.text


@pytest.mark.parametrize("total", [12 * 65, 2000])
def test_lists_that_fail_do_not_stop_the_others(total: int) -> None:
    broken = {**MIXED, "hard 2": np.full((40, 40), np.nan)}
    late = structured(3, 40, rho=2)
    late[np.abs(late) > 6.5] = np.inf
    broken["hard 3"] = late
    utility = Tables(broken)
    decisions = spent_with_errors(utility, total)
    assert decisions["hard 2"].error is not None
    assert (decisions["hard 2"].text, decisions["hard 2"].ranking) == ("", ())
    good = [one for name, one in decisions.items() if name not in ("hard 2", "hard 3")]
    assert all(one.error is None and one.text for one in good)


def spent_with_errors(utility: Tables, total: int) -> dict[str, Decision]:
    decisions = list(decode(utility.lists(), utility, strategy="race", budget_total=total, on_error="skip"))
    assert [decision.id for decision in decisions] == list(utility.matrices)
    assert sum(utility.calls) <= total
    return {str(decision.id): decision for decision in decisions}


def test_it_is_in_the_signature() -> None:
    def signature(total: int | None) -> str:
        return str(open_decoder(Recipe("pear", strategy="race", budget_total=total), utility=Better()).signature())

    assert "|strategy:race|tol:0.01|budget:20N|" in signature(500)
    assert "|budget-total:500|" in signature(500)
    assert "budget-total" not in signature(None)


def test_without_a_total_rounds_of_all_lists_are_pooled() -> None:
    utility = Tables(MIXED)
    spent(utility, None)
    rounds = len(utility.calls)
    alone = 0
    for name, values in MIXED.items():
        one = Tables({name: values})
        spent(one, None)
        alone = max(alone, len(one.calls))
    assert rounds == alone


@pytest.mark.parametrize("total", [12 * 61, 1000, 1777, 3000, 10**5])
def test_what_is_chosen_is_what_is_spent_and_never_more_than_the_total(total: int) -> None:
    utility = Tables(MIXED)
    decoder = open_decoder(Recipe("pear", strategy="race", budget_total=total), utility=utility)
    pool = Pool[int](utility)
    for place, started in enumerate(decoder.start(utility.lists())):
        assert isinstance(started, OpenConversation)
        pool.add(place, started)
    budget = TotalBudget(total, [conversation for _, conversation in pool.open()])
    chosen_pairs = 0

    def choose(waiting: Any) -> Any:
        nonlocal chosen_pairs
        chosen = budget.choose(waiting)
        chosen_pairs += sum(len(conversation.asked.pairs) for conversation in chosen)
        assert chosen_pairs <= total
        return chosen

    ended: list[OpenConversation] = []
    while len(pool):
        ended += [conversation for _, conversation in pool.step(choose)]
        assert sum(utility.calls) == chosen_pairs
    assert len(ended) == 12
    assert sum(conversation.passes for conversation in ended) == chosen_pairs <= total
    assert all(conversation.error is None for conversation in ended)


def test_a_total_that_requests_fill_is_spent_to_the_last_pass() -> None:
    """Rounds of ten pairs each: 36 of the 60 that the lists would take."""
    utility = Tables({f"{k}": structured(k, 11) for k in range(6)})
    pool = Pool[int](utility)
    for place, item in enumerate(utility.lists()):
        pool.add(place, OpenConversation(item, _tens(10)))
    ended = list(until_all_end(pool, 360))
    assert sum(utility.calls) == 360
    assert sorted(conversation.passes for _, conversation in ended)[0] >= 10
    assert all(conversation.outcome is not None for _, conversation in ended)


def _tens(requests: int) -> Any:
    """A conversation that can end at any time, with a regret that stays the same."""
    values, scored = np.zeros((11, 11), np.float32), np.zeros((11, 11), np.bool_)
    try:
        for row in range(requests):
            yield Ask(np.array([(row, j) for j in range(11) if j != row]), regret=1.0)
    except Enough:
        pass
    return Outcome(values, scored)
