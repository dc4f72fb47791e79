"""Sequential halving: its passes, its choice, and how close it comes to the full matrix."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.support.peer_strategies import random_anchors
from benchmarks.support.replay import regret, replay, segment_of, structured, truth
from candidates import Candidate, CandidateList
from candidates.common.errors import UsageError
from mbr import Decision, Recipe, decode, open_decoder, pipeline, read_matrices, rerank
from mbr.strategies import Outcome, Segment, get_strategy
from mbr.strategies.base import checks_of
from mbr.strategies.elimination import counted_weights
from mbr.strategies.halving import fair_share
from tests.conftest import Run, write_jsonl
from tests.mbr.made import Better, Biased, Similar, questions

pytestmark = pytest.mark.one_world


TEXTS = [f"candidate {i}" for i in range(60)]
LISTS = [(f"source {k}", [f"{k} {text}" for text in TEXTS[: k + 2]]) for k in range(0, 50, 3)]


def segment(size: int, relation: Any = "antisymmetric", **fields: Any) -> Segment:
    ones = np.ones(size)
    known = {"draws": np.random.default_rng(size).random(size), "weights": ones, "own_weights": 0 * ones}
    return Segment(**{**known, "diagonal": np.zeros(size, np.bool_), **fields}, relation=relation)


def play(values: np.ndarray, item: Segment, budget: int) -> tuple[Outcome, list[np.ndarray]]:
    return questions(values, get_strategy("halving", budget=budget), item)[:2]


def test_five_passes_a_candidate_lose_next_to_nothing_and_random_anchors_lose_much() -> None:
    losses, anchor_losses = [], []
    for seed in range(50):
        values = structured(seed)
        found = replay(values, get_strategy("halving", budget=500), segment_of(values, 1000 + seed))
        assert found.passes == 500
        exact = truth(values)
        losses.append(regret(exact, found.ranking[0]))
        anchors = random_anchors(values, 500, np.random.default_rng(2000 + seed), antisymmetric=True)
        anchor_losses.append(regret(exact, anchors.ranking[0]))
    halving, anchors_mean = float(np.mean(losses)), float(np.mean(anchor_losses))
    print(f"mean regret at 500 passes: halving {halving:.2%}, random anchors {anchors_mean:.2%}")
    assert halving <= 0.015
    assert halving <= anchors_mean / 3


@given(st.integers(2, 40), st.integers(1, 900), st.sampled_from(["antisymmetric", "none"]), st.integers(0, 2))
@settings(deadline=None, max_examples=300)
def test_it_spends_the_budget_and_never_more(size: int, budget: int, relation: Any, doubles: int) -> None:
    draw = np.random.default_rng(size * 1000 + budget)
    diagonal = np.arange(size) < (doubles * size / 2 if relation == "none" else 0)
    weights = np.exp(draw.normal(size=size))
    item = segment(size, relation, weights=weights, own_weights=weights * diagonal / 2, diagonal=diagonal)
    outcome, asked = play(draw.normal(size=(size, size)), item, budget)
    pairs = np.concatenate(asked)
    in_all = size * (size - 1) // 2
    everything = in_all + checks_of(size) if relation == "antisymmetric" else 2 * in_all + diagonal.sum()
    assert len(pairs) == min(budget, everything)
    assert len(pairs) == get_strategy("halving", budget=budget).passes(size, int(diagonal.sum()), relation)
    assert len(set(map(tuple, pairs.tolist()))) == len(pairs)
    both_orders = len(pairs) - len({frozenset(pair) for pair in pairs.tolist()})
    if relation == "antisymmetric":  # no pair twice, but for a fiftieth that measures the order bias
        whole_rounds = 2 * size <= budget < in_all
        assert both_orders == int(0.02 * budget) if whole_rounds else both_orders <= int(0.02 * budget)
    beside = max(len(pairs) - in_all, 0) if relation == "antisymmetric" else 0  # in the other order, to measure
    assert outcome.scored.sum() == len(pairs) - beside
    assert all(map(len, asked))


def test_the_default_is_ten_passes_a_candidate() -> None:
    default = get_strategy("halving")
    assert [default.passes(n, 0, "antisymmetric") for n in (2, 10, 21, 22, 100)] == [1, 45, 210, 220, 1000]
    assert default.settings == {"budget": "10N"}


@pytest.mark.parametrize("utility", [Biased, Similar])
@pytest.mark.parametrize("self_rule", ["exclude", "include"])
def test_a_budget_for_everything_decides_as_the_plain_strategy(utility: Any, self_rule: Any) -> None:
    plain = "balanced" if utility is Biased else "full"
    for before, after in zip(
        decode(LISTS, utility(), strategy=plain, self_rule=self_rule),
        decode(LISTS, utility(), strategy="halving", budget=5000, self_rule=self_rule),
        strict=True,
    ):
        assert after.ranking == before.ranking
        assert after.passes == before.passes
        np.testing.assert_allclose(after.expected, before.expected, atol=1e-6)


@pytest.mark.parametrize("relation", ["antisymmetric", "none"])
def test_one_pass_short_of_everything_is_nearly_exact(relation: Any) -> None:
    values = structured(3, size=30, tau=0)
    outcome, _ = play(values, segment(30, relation), 30 * 29 // (2 if relation == "antisymmetric" else 1) - 1)
    assert outcome.expected is not None
    assert outcome.ranking is not None
    exact = truth(values, relation)
    assert outcome.ranking[0] == exact.argmax()
    missing = 1 if relation == "none" else 1 + int(0.02 * 434)  # reversed pairs are paid for, and tell nothing new
    assert np.isclose(outcome.expected, exact, atol=1e-5).sum() >= 30 - 2 * missing


def test_small_lists() -> None:
    two = structured(0, size=2)
    outcome, asked = play(two, segment(2), 1)
    assert (len(asked), outcome.ranking) == (1, None)  # all there is, so `balanced`
    for budget in (1, 2, 3):
        outcome, asked = play(structured(1, size=3), segment(3), budget)
        assert sum(map(len, asked)) == budget
    outcome, _ = play(two, segment(2, "none"), 1)
    assert outcome.ranking is not None
    assert len(outcome.ranking) == 1  # the other one was only a reference


words = st.lists(st.text("abc", max_size=3), min_size=2, max_size=30)


@given(words, st.integers(1, 200), st.randoms(use_true_random=False))
@settings(deadline=None)
@pytest.mark.parametrize("utility", [Biased, Similar])
def test_permuting_candidates_permutes_the_result(utility: Any, texts: list[str], budget: int, draw: Any) -> None:
    shuffled = draw.sample(texts, len(texts))
    before = rerank("s", texts, utility(), strategy="halving", budget=budget)
    after = rerank("s", shuffled, utility(), strategy="halving", budget=budget)
    assert before.candidates is not None
    assert after.candidates is not None
    expected = dict(zip(before.candidates.texts, before.expected, strict=False))
    again = dict(zip(after.candidates.texts, after.expected, strict=False))
    assert expected == pytest.approx(again, abs=1e-9, nan_ok=True)
    assert before.passes == after.passes
    if "tie" not in before.flags:
        assert before.text == after.text


def test_the_same_seed_gives_the_same_result_and_another_seed_asks_for_other_pairs() -> None:
    def scored(seed: int) -> Decision:
        return rerank("s", TEXTS, Better(), strategy="halving", budget=200, seed=seed, keep_matrix=True)

    first, again, other = scored(1), scored(1), scored(2)
    assert first.matrix is not None
    assert again.matrix is not None
    assert other.matrix is not None
    assert first.ranking == again.ranking
    assert first.expected.tolist() == again.expected.tolist()
    assert (first.matrix.values == again.matrix.values).all()
    assert (first.matrix.scored != other.matrix.scored).any()
    assert first.matrix.scored.sum() == first.matrix.passes == 200


def test_candidates_rank_by_the_round_they_reached() -> None:
    values = structured(5, size=64)
    outcome, asked = play(values, segment(64), 400)
    assert outcome.expected is not None
    assert outcome.ranking is not None
    assert sorted(outcome.ranking) == list(range(64))
    halves = [outcome.ranking[a:b] for a, b in ((0, 2), (2, 4), (4, 8), (8, 16), (16, 32), (32, 64))]
    for half in halves:
        estimates = outcome.expected[list(half)]
        assert (np.diff(estimates) <= 0).all()
    out = np.isin(np.concatenate(asked[1:]), halves[-1])
    assert not out.all(axis=1).any()  # who is out meets those who are left, and nobody else
    regret_to_expect = outcome.certainty.estimated_regret
    assert regret_to_expect is not None
    assert 0 <= regret_to_expect < 0.1


def test_slots_alternate() -> None:
    """Whoever meets many references comes first in half of the passes."""
    values = structured(6)
    outcome, asked = play(values, segment(100), 1000)
    assert outcome.ranking is not None
    pairs = np.concatenate(asked)
    for candidate in outcome.ranking[:8]:
        first, second = (pairs == candidate).sum(axis=0)
        assert abs(first - second) <= 0.15 * (first + second)


def test_duplicates_are_scored_once_and_count_as_often_as_listed() -> None:
    """Enough passes for exact rows of the best: their expected utilities are those of the written-out list."""
    texts = [*TEXTS, *TEXTS[:20], *TEXTS[:5]]
    for utility in (Better(), Similar()):
        exact = rerank("s", texts, utility, strategy="full")
        decision = rerank("s", texts, utility, strategy="halving", budget=1500)
        assert decision.passes == 1500
        best = list(decision.ranking[:2])
        assert decision.text == exact.text
        np.testing.assert_allclose(decision.expected[best], exact.expected[best], atol=1e-5)


def test_a_heavy_reference_decides() -> None:
    """One candidate with nearly all the weight: whoever beats it most is the best, and it costs few passes to see."""
    candidates = [Candidate(text, -1.0 if text == TEXTS[7] else -12.0) for text in TEXTS]
    exact = rerank("s", candidates, Better(), weights="logprob", strategy="full", self_rule="include")
    quick = rerank("s", candidates, Better(), weights="logprob", strategy="halving", budget=120, self_rule="include")
    assert quick.text == exact.text
    assert quick.expected[list(quick.ranking[:2])] == pytest.approx(exact.expected[list(quick.ranking[:2])], rel=0.02)
    assert rerank("s", TEXTS, Better(), strategy="full").text != exact.text


@pytest.mark.parametrize("used", [1, 2, 4, 6])
def test_estimates_are_unbiased_for_any_weights(used: int) -> None:
    """The mean over many draws of the weighted sum is the sum over all references."""
    weights = np.array([5.0, 2.0, 1.0, 1.0, 0.5, 0.1])
    values = np.array([1.0, -3.0, 2.0, 4.0, -6.0, 30.0])
    draw = np.random.default_rng(used)
    sums = []
    for _ in range(20_000):
        order, counted = counted_weights(weights, 1 - draw.random(6), used)
        sums.append(counted @ values[order[:used]])
    error = np.std(sums) / len(sums) ** 0.5
    assert abs(np.mean(sums) - weights @ values) <= 4 * error + 1e-9


def test_rounds_share_the_passes_as_far_as_they_can_use_them() -> None:
    assert fair_share(remaining=8, rounds=3, references=100, passes=240) // 8 == 10  # then 20 for four, 40 for two
    assert fair_share(remaining=8, rounds=3, references=8, passes=64) == 64  # eight references for all eight
    assert fair_share(remaining=100, rounds=7, references=100, passes=50) == 0


def test_a_budget_too_small_for_all_is_flagged() -> None:
    decision = rerank("s", TEXTS, Better(), strategy="halving", budget=10)
    assert decision.flags == ("unseen",)
    assert decision.passes == 10
    assert len(decision.ranking) == 11
    assert np.isfinite(decision.expected).sum() == 11
    for utility in (Better(), Similar()):
        for budget in range(1, 8):
            assert rerank("s", [*TEXTS, TEXTS[0]], utility, strategy="halving", budget=budget).passes == budget
    for budget in (59, 60, 61):  # reversed pairs never cost anybody the first reference
        decision = rerank("s", TEXTS, Better(), strategy="halving", budget=budget)
        assert (decision.flags, decision.passes) == ((), budget)


@pytest.mark.parametrize("utility", [Biased, Similar])
def test_lists_together_are_decided_as_one_by_one(utility: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    pooled = list(decode(LISTS, utility(), strategy="halving", budget=90))
    monkeypatch.setattr(pipeline, "WINDOW_LISTS", 1)
    for one, other in zip(pooled, decode(LISTS, utility(), strategy="halving", budget=90), strict=True):
        assert (one.ranking, one.passes, one.flags) == (other.ranking, other.passes, other.flags)
        np.testing.assert_array_equal(one.expected, other.expected)


def test_a_lexical_utility_computes_its_matrix_once(monkeypatch: pytest.MonkeyPatch) -> None:
    from mbr.utilities.chrf import ChrF

    calls = []
    matrix = ChrF.matrix
    monkeypatch.setattr(ChrF, "matrix", lambda *words: calls.append(1) or matrix(*words))
    decision = rerank("s", TEXTS, "chrf", strategy="halving", budget=400)
    assert (decision.passes, len(calls)) == (400, 1)


def test_the_number_of_passes_is_known_before() -> None:
    for utility in (Better(), Similar()):
        for texts in (TEXTS, [*TEXTS[:9], *TEXTS[:3]]):
            for self_rule in ("exclude", "include"):
                recipe = Recipe(utility.name, strategy="halving", strategy_options={"budget": 100}, self_rule=self_rule)  # type: ignore[arg-type]
                decoder = open_decoder(recipe, utility=utility)
                ((decision,),) = decoder.windows([CandidateList.of("s", texts)])
                assert decision.passes == decoder.passes(decision.candidates)  # type: ignore[arg-type]


def test_budgets_that_make_no_sense() -> None:
    for budget in (0, -5):
        with pytest.raises(UsageError, match="positive"):
            rerank("s", ["a", "b"], Better(), strategy="halving", budget=budget)
    with pytest.raises(UsageError, match="it takes none.; a budget goes with strategy 'race', 'halving' or 'prune'"):
        rerank("s", ["a", "b"], Better(), budget=5)


def test_the_command(run: Run, tmp_path: Path) -> None:
    write_jsonl(tmp_path / "l.jsonl", [{"source": "s", "candidates": TEXTS}, {"source": "t", "candidates": ["a", "b"]}])
    command = ("mbr-decode", "--utility", "chrf", "--candidates", "l.jsonl", "--strategy", "halving")
    result = run(*command, "--budget", "500", "--format", "jsonl", "--matrix", "m.npz")
    assert result.returncode == 0, result.stderr
    first = json.loads(result.stdout.splitlines()[0])
    assert first["passes"] == 500
    assert 0 <= first["estimated_regret"] < 1
    assert first["contenders"] >= 1
    assert first["rho"] > 0
    assert first["tau"] is None  # chrF has no order
    assert "|strategy:halving|budget:500|self:exclude|nbest:all|weights:count|seed:1|" in result.stderr
    assert [matrix.scored.sum() for matrix in read_matrices(tmp_path / "m.npz")] == [500, 4]
    assert "pairs       504 " in run(*command, "--budget", "500", "--dry-run").stdout
    assert "|budget:10N|" in run(*command).stderr
    wrong = run(*command, "--budget", "0")
    assert (wrong.returncode, "positive" in wrong.stderr) == (2, True)
    wrong = run(*command[:5], "--budget", "5")
    assert (wrong.returncode, "halving" in wrong.stderr) == (2, True)
