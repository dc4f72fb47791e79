"""Sequential halving: its passes, its choice, and how close it comes to the full matrix."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from candidates import Candidate, CandidateList
from candidates.errors import UsageError
from mbr import Decision, Decoder, PairUtility, decode, pipeline, read_matrices, rerank
from mbr.decide import expected_utility
from mbr.strategies import Outcome, Segment, get_strategy
from mbr.strategies.halving import counted_weights, fair_share
from tests.conftest import Run, write_jsonl

pytestmark = pytest.mark.one_world


def number(text: str) -> float:
    """As good as random in (-1, 1), and different for different texts."""
    return zlib.crc32(text.encode()) / 2**31 - 1


class Better(PairUtility):
    """Antisymmetric: differences of qualities, and a part of its own for each pair."""

    name = "better"
    relation = "antisymmetric"
    default_strategy = "balanced"
    bias = 0.0

    def score_pairs(self, triples: Sequence[tuple[str, str, str]]) -> Any:
        scores = [number(a) - number(b) + (number(a + b) - number(b + a)) / 3 + self.bias for _, a, b in triples]
        return np.array(scores, np.float32)


class Biased(Better):
    """The same with an order bias."""

    bias = 0.2


class Similar(PairUtility):
    """No relation between u(i, j) and u(j, i); u(i, i) is far from all others."""

    name = "similar"

    def score_pairs(self, triples: Sequence[tuple[str, str, str]]) -> Any:
        scores = [9.0 if a == b else number(a) + number(b + b) + number(a + b) / 3 for _, a, b in triples]
        return np.array(scores, np.float32)


TEXTS = [f"candidate {i}" for i in range(60)]
LISTS = [(f"source {k}", [f"{k} {text}" for text in TEXTS[: k + 2]]) for k in range(0, 50, 3)]


def segment(size: int, relation: Any = "antisymmetric", **fields: Any) -> Segment:
    ones = np.ones(size)
    known = {"draws": np.random.default_rng(size).random(size), "weights": ones, "own_weights": 0 * ones}
    return Segment(**{**known, "diagonal": np.zeros(size, np.bool_), **fields}, relation=relation)


def play(values: np.ndarray, item: Segment, budget: int) -> tuple[Outcome, list[np.ndarray]]:
    """Answer the questions from a complete matrix; returns what was asked, round by round."""
    talk = get_strategy("halving", budget=budget).talk(item)
    asked = [next(talk)]
    while True:
        try:
            asked.append(talk.send(values[tuple(asked[-1].T)].astype(np.float32)))
        except StopIteration as end:
            return end.value, asked


def structured(seed: int, size: int = 100, rho: float = 0.5, tau: float = 0.15) -> np.ndarray:
    """Differences of qualities, an antisymmetric part of its own for each pair (rho), an order bias (tau)."""
    draw = np.random.default_rng(seed)
    quality = draw.normal(size=size)
    noise = np.triu(draw.normal(size=(size, size)), 1)
    bias = np.triu(draw.normal(1, 1, size=(size, size)), 1)
    values = quality[:, None] - quality + 2**0.5 * (rho * (noise - noise.T) + tau * (bias + bias.T))
    np.fill_diagonal(values, 0)
    return values


def random_anchors(values: np.ndarray, budget: int, draw: np.random.Generator) -> int:
    """The best by its mean against as many random references as the budget allows, each scored in a random order."""
    size = len(values)
    costs = np.cumsum(np.arange(size - 1, 0, -1))
    anchors = draw.permutation(size)[: np.searchsorted(costs, budget, side="right")]
    upper = np.triu(draw.random((size, size)) < 0.5, 1)
    one_order = np.where(upper | np.tril(~upper.T, -1), values, -values.T)
    return int(one_order[:, anchors].mean(axis=1).argmax())


def regret(values: np.ndarray, choice: int) -> float:
    truth = (values - values.T).mean(axis=1)
    return float((truth.max() - truth[choice]) / (truth.max() - truth.mean()))


def test_five_passes_a_candidate_lose_next_to_nothing_and_random_anchors_lose_much() -> None:
    losses, anchor_losses = [], []
    for seed in range(50):
        values = structured(seed)
        draw = np.random.default_rng(1000 + seed)
        outcome, asked = play(values, segment(100, draws=draw.random(100)), 500)
        assert sum(map(len, asked)) == 500
        assert outcome.ranking is not None
        losses.append(regret(values, outcome.ranking[0]))
        anchor_losses.append(regret(values, random_anchors(values, 500, draw)))
    halving, anchors = float(np.mean(losses)), float(np.mean(anchor_losses))
    print(f"mean regret at 500 passes: halving {halving:.2%}, random anchors {anchors:.2%}")
    assert halving <= 0.03
    assert halving <= anchors / 3


@given(st.integers(2, 40), st.integers(1, 900), st.sampled_from(["antisymmetric", "none"]), st.integers(0, 2))
@settings(deadline=None, max_examples=300)
def test_it_spends_the_budget_and_never_more(size: int, budget: int, relation: Any, doubles: int) -> None:
    draw = np.random.default_rng(size * 1000 + budget)
    diagonal = np.arange(size) < (doubles * size / 2 if relation == "none" else 0)
    weights = np.exp(draw.normal(size=size))
    item = segment(size, relation, weights=weights, own_weights=weights * diagonal / 2, diagonal=diagonal)
    outcome, asked = play(draw.normal(size=(size, size)), item, budget)
    pairs = np.concatenate(asked)
    everything = size * (size - 1) // 2 if relation == "antisymmetric" else size * (size - 1) + diagonal.sum()
    assert len(pairs) == min(budget, everything)
    assert len(pairs) == get_strategy("halving", budget=budget).passes(size, int(diagonal.sum()), relation)
    distinct = {frozenset(pair) for pair in pairs.tolist()} if relation == "antisymmetric" else set(map(tuple, pairs))
    assert len(distinct) == len(pairs)
    assert outcome.scored.sum() == len(pairs)
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
    exact = expected_utility(values, np.ones(30), np.ones(30))
    assert outcome.ranking[0] == exact.argmax()
    assert np.isclose(outcome.expected, exact, atol=1e-5).sum() >= 28


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
    assert outcome.estimated_regret is None


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
    assert fair_share(alive=8, rounds=3, references=100, passes=240) // 8 == 10  # then twenty for four, forty for two
    assert fair_share(alive=8, rounds=3, references=8, passes=64) == 64  # eight references for all eight
    assert fair_share(alive=100, rounds=7, references=100, passes=50) == 0


def test_a_budget_too_small_for_all_is_flagged() -> None:
    decision = rerank("s", TEXTS, Better(), strategy="halving", budget=10)
    assert decision.flags == ("unseen",)
    assert decision.passes == 10
    assert len(decision.ranking) == 11
    assert np.isfinite(decision.expected).sum() == 11
    for utility in (Better(), Similar()):
        for budget in range(1, 8):
            assert rerank("s", [*TEXTS, TEXTS[0]], utility, strategy="halving", budget=budget).passes == budget
    assert rerank("s", TEXTS, Better(), strategy="halving", budget=59).flags == ()


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
                decoder = Decoder(utility, get_strategy("halving", budget=100), self_rule=self_rule)  # type: ignore[arg-type]
                ((decision,),) = decoder.windows([CandidateList.of("s", texts)])
                assert decision.passes == decoder.passes(decision.candidates)  # type: ignore[arg-type]


def test_budgets_that_make_no_sense() -> None:
    for budget in (0, -5):
        with pytest.raises(UsageError, match="positive"):
            rerank("s", ["a", "b"], Better(), strategy="halving", budget=budget)
    with pytest.raises(UsageError, match="goes with strategy 'halving'"):
        rerank("s", ["a", "b"], Better(), budget=5)


def test_the_command(run: Run, tmp_path: Path) -> None:
    write_jsonl(tmp_path / "l.jsonl", [{"source": "s", "candidates": TEXTS}, {"source": "t", "candidates": ["a", "b"]}])
    command = ("mbr-decode", "--utility", "chrf", "--candidates", "l.jsonl", "--strategy", "halving")
    result = run(*command, "--budget", "500", "--format", "jsonl", "--matrix", "m.npz")
    assert result.returncode == 0, result.stderr
    assert '"passes": 500, "estimated_regret": null' in result.stdout
    assert "|strategy:halving|budget:500|self:exclude|nbest:all|weights:count|seed:1|" in result.stderr
    assert [matrix.scored.sum() for matrix in read_matrices(tmp_path / "m.npz")] == [500, 4]
    assert "pairs       504 " in run(*command, "--budget", "500", "--dry-run").stdout
    assert "|budget:10N|" in run(*command).stderr
    wrong = run(*command, "--budget", "0")
    assert (wrong.returncode, "positive" in wrong.stderr) == (2, True)
    wrong = run(*command[:5], "--budget", "5")
    assert (wrong.returncode, "halving" in wrong.stderr) == (2, True)
