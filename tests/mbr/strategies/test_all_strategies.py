"""What holds for every strategy: exact with all scores, independent of the order of the list, within its budget."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from benchmarks.support.replay import replay, segment_of, structured, truth
from candidates import Candidate
from candidates.common.errors import ModelError
from mbr import Decision, decode, rerank
from mbr.strategies import Segment, get_strategy
from tests.mbr.made import Better, Biased, Similar, Tables, questions

pytestmark = pytest.mark.one_world

UNLIMITED: dict[str, dict[str, Any]] = {
    "race": {"tolerance": 0, "budget": 10**9},
    "halving": {"budget": 10**9},
    "prune": {"tolerance": 0, "budget": 10**9},
}
EVERY = ["full", "both", "half", "balanced", "halving", "race", "prune"]
CASES = [(name, utility) for name in UNLIMITED for utility in (Better, Similar) if (name, utility) != ("race", Similar)]

candidates = st.lists(
    st.tuples(st.text("abc", max_size=3), st.floats(-12, 0), st.integers(1, 3)), min_size=2, max_size=24
)


def listed(some: list[tuple[str, float, int]]) -> list[Candidate]:
    """A text has one log-probability, however often it is listed."""
    own = {text: logprob for text, logprob, _ in some}
    return [Candidate(text, own[text], count) for text, _, count in some]


def by_text(decision: Decision) -> dict[str, float]:
    assert decision.candidates is not None
    return dict(zip(decision.candidates.texts, decision.expected.tolist(), strict=False))


@given(candidates, st.sampled_from(["uniform", "count", "logprob"]), st.sampled_from(["exclude", "include"]))
@settings(deadline=None, max_examples=40)
@pytest.mark.parametrize(("name", "utility"), CASES)
def test_with_an_unlimited_budget_the_decision_is_exact(
    name: str, utility: Any, some: list[tuple[str, float, int]], weights: Any, self_rule: Any
) -> None:
    rules = {"weights": weights, "self_rule": self_rule}
    exact = rerank("s", listed(some), utility(), strategy="full", **rules)
    found = rerank("s", listed(some), utility(), strategy=name, **UNLIMITED[name], **rules)
    assert by_text(found) == pytest.approx(by_text(exact), abs=1e-4, nan_ok=True)
    assert exact.margin is None or exact.margin < 1e-4 or found.text == exact.text
    assert "unseen" not in found.flags
    if "single" not in found.flags:
        # Of few candidates, too few pairs are scored in both orders to know that the utility is exactly antisymmetric.
        unknown = utility is Better and len(found.ranking) < 29
        assert (found.estimated_regret is None and unknown) or found.estimated_regret == pytest.approx(0, abs=1e-6)


def test_race_without_tolerance_sees_what_no_model_expects() -> None:
    """One pair decides, and nothing in the other scores tells of it."""
    values = np.zeros((30, 30))
    values[17, 3], values[3, 17] = 50, -50
    for seed in range(5):
        found = replay(values, get_strategy("race", **UNLIMITED["race"]), segment_of(values, seed))
        assert found.ranking[0] == 17
        assert found.ranking[-1] == 3


@pytest.mark.parametrize("name", ["halving", "prune"])
def test_biased_utilities_too_are_decided_as_balanced_does(name: str) -> None:
    for size in (2, 3, 7, 30):
        texts = [f"{k} text" for k in range(size)]
        plain, found = (
            rerank("s", texts, Biased(), strategy=one, **more)
            for one, more in (("balanced", {}), (name, UNLIMITED[name]))
        )
        assert found.ranking == plain.ranking
        np.testing.assert_allclose(found.expected, plain.expected, atol=1e-6)


@given(
    st.sampled_from(["race", "halving", "prune"]),
    st.integers(2, 30),
    st.integers(1, 600),
    st.sampled_from(["antisymmetric", "none"]),
    st.sampled_from([0, 0.01, 0.3]),
)
@example("halving", 29, 531, "antisymmetric", 0.01)
@example("prune", 30, 504, "antisymmetric", 0)
@example("race", 29, 574, "none", 0.01)
@settings(deadline=None, max_examples=150)
def test_no_more_than_the_budget_and_nothing_twice(
    name: str, size: int, budget: int, relation: Any, tolerance: float
) -> None:
    if name == "race":
        relation = "antisymmetric"
    options = {"budget": budget} if name == "halving" else {"budget": budget, "tolerance": tolerance}
    strategy = get_strategy(name, **options)
    draw = np.random.default_rng(size * 1000 + budget)
    diagonal = (draw.random(size) < 0.3) & (relation == "none")
    weights = np.exp(2 * draw.normal(size=size))
    segment = Segment(1 - draw.random(size), weights, weights * diagonal / 2, relation, diagonal)
    values = draw.normal(size=(size, size))
    outcome, asked, _ = questions(values, strategy, segment)
    pairs = [tuple(pair) for pair in np.concatenate(asked).tolist()]
    assert 0 < len(pairs) <= strategy.passes(size, int(diagonal.sum()), relation) <= budget
    assert len(set(pairs)) == len(pairs)
    assert all(map(len, asked))
    again = len(pairs) - len({frozenset(pair) for pair in pairs}) if relation == "antisymmetric" else 0
    complete = len(pairs) - again == size * (size - 1) // 2
    # With all pairs, those that `balanced` scores in the other order are a check and not part of the matrix.
    assert outcome.scored.sum() in {len(pairs), len(pairs) - (again if complete else 0)}
    if relation == "antisymmetric":
        if name != "race" or not tolerance:  # with a tolerance, race looks at likely winners again
            assert again <= max(0.02 * len(pairs), 3)
        assert all(i != j for i, j in pairs)
    if outcome.ranking is not None:
        assert outcome.expected is not None
        assert len(set(outcome.ranking)) == len(outcome.ranking) > 0
        assert np.isfinite(outcome.expected[list(outcome.ranking)]).all()
    told = outcome.certainty.estimated_regret
    assert told is None or told >= 0


@given(candidates, st.integers(1, 150), st.randoms(use_true_random=False))
@settings(deadline=None, max_examples=40)
@pytest.mark.parametrize(("name", "utility"), CASES)
def test_the_order_of_the_list_and_split_counts_change_nothing(
    name: str, utility: Any, some: list[tuple[str, float, int]], budget: int, draw: Any
) -> None:
    first = listed(some)
    written_out = [Candidate(one.text, one.logprob) for one in first for _ in range(one.count)]
    draw.shuffle(written_out)
    before, after = (rerank("s", one, utility(), strategy=name, budget=budget) for one in (first, written_out))
    assert by_text(before) == pytest.approx(by_text(after), abs=1e-6, nan_ok=True)
    assert (before.passes, before.certainty.contenders) == (after.passes, after.certainty.contenders)
    assert before.margin is None or before.margin < 1e-6 or before.text == after.text


@pytest.mark.parametrize(("name", "utility"), CASES)
def test_the_seed_fixes_everything_and_another_seed_asks_for_other_pairs(name: str, utility: Any) -> None:
    texts = [f"candidate {i}" for i in range(50)]

    def scored(seed: int) -> Decision:
        return rerank("s", texts, utility(), strategy=name, budget=250, seed=seed, keep_matrix=True)

    one, same, other = scored(1), scored(1), scored(2)
    assert one.matrix is not None
    assert same.matrix is not None
    assert other.matrix is not None
    assert (one.ranking, one.passes, one.certainty) == (same.ranking, same.passes, same.certainty)
    assert one.expected.tolist() == same.expected.tolist()
    assert (one.matrix.scored == same.matrix.scored).all()
    assert (one.matrix.scored != other.matrix.scored).any()


@pytest.mark.parametrize("name", ["race", "halving", "prune"])
@pytest.mark.parametrize("rho", [0.5, 2.0])
def test_told_that_it_is_enough_it_decides_with_what_it_has(name: str, rho: float) -> None:
    strategy = get_strategy(name)
    assert strategy.anytime
    values = structured(11, 40, rho=rho)
    exact = truth(values)
    whole = questions(values, strategy, segment_of(values, 11))
    losses = []
    for answers in range(1, len(whole[1])):
        outcome, asked, regrets = questions(values, strategy, segment_of(values, 11), answers)
        assert len(asked) == answers + 1  # the last one was not answered
        assert outcome.scored.sum() == sum(map(len, asked[:-1]))
        assert outcome.expected is not None
        assert outcome.ranking is not None
        assert np.isfinite(outcome.expected).all()
        assert sorted(outcome.ranking) == list(range(40))
        told = outcome.certainty.estimated_regret
        assert told is not None
        assert told >= 0
        if name == "race":
            assert regrets[-1] == told
        losses.append((exact.max() - exact[outcome.ranking[0]]) / (exact.max() - exact.mean()))
    assert regrets[0] == np.inf
    assert rho > 1 or max(losses, default=0) < 0.5


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize("size", [1, 2, 3, 4, 25])
def test_where_all_are_equal_the_first_is_chosen(name: str, size: int) -> None:
    utility = Tables({"s": np.zeros((size, size))})
    (decision,) = decode(utility.lists(), utility, strategy=name)
    assert decision.text == "0"
    if size == 1:
        assert (decision.flags, decision.passes) == (("single",), 0)
        return
    assert decision.flags == ("tie",)
    assert decision.estimated_regret == 0 or (decision.estimated_regret is None and name not in ("full", "both"))
    assert np.nan_to_num(decision.expected).tolist() == [0] * size


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize("size", [2, 3, 4, 5])
def test_short_lists_are_decided_exactly(name: str, size: int) -> None:
    matrices = {str(seed): structured(seed, size, rho=1, tau=0) for seed in range(20)}
    utility = Tables(matrices)
    for decision, values in zip(decode(utility.lists(), utility, strategy=name), matrices.values(), strict=True):
        assert decision.ranking[0] == truth(values).argmax()
        assert decision.passes <= get_strategy(name).passes(size, 0, "antisymmetric")


@pytest.mark.parametrize("name", ["halving", "prune", "full"])
@pytest.mark.parametrize("size", [2, 3, 4])
def test_short_lists_of_other_utilities_are_decided_exactly(name: str, size: int) -> None:
    texts = [f"text {k}" for k in range(size)]
    exact = rerank("s", texts, Similar(), strategy="full")
    found = rerank("s", texts, Similar(), strategy=name)
    assert found.ranking == exact.ranking
    np.testing.assert_allclose(found.expected, exact.expected, atol=1e-6)


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_score_that_is_no_number_never_decides(name: str, bad: float) -> None:
    values = structured(0, 20)
    broken = values.copy()
    broken[broken > 1] = bad
    utility = Tables({"a": values, "b": broken, "c": values})
    with pytest.raises(ModelError, match="segment 'b'"):
        list(decode(utility.lists(), utility, strategy=name))
    one, two, three = decode(utility.lists(), utility, strategy=name, on_error="fallback")
    assert (two.text, two.flags) == ("0", ("fallback",))
    assert one.ranking == three.ranking
    assert one.error is three.error is None
