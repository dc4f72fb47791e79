"""Terms: score(i) = E_j[u(i, j)] + t(i), whatever strategy computes the first part."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.support.replay import segment_of, structured
from mbr.decide import expected_utility, own_weights, rank
from mbr.strategies import AskEach, Outcome, PairScores, Segment, get_strategy
from mbr.strategies.additive import certainty_of
from mbr.weights import SelfRule
from tests.mbr.made import questions

pytestmark = pytest.mark.one_world

EVERYTHING: dict[str, dict[str, Any]] = {
    "full": {},
    "both": {},
    "half": {},
    "balanced": {},
    "race": {"tolerance": 0, "budget": 10**9},
    "halving": {"budget": 10**9},
    "prune": {"tolerance": 0, "budget": 10**9},
}
# Not every pair: estimates rather than sums.
SOME: dict[str, dict[str, Any]] = {"race": {}, "halving": {"budget": 120}, "prune": {"tolerance": 0.05}}
EACH = ["aggregate", "rerank"]
ANY_RELATION = ["full", "halving", "prune"]

seeds = st.integers(0, 10**6)
sizes = st.integers(2, 25)


def random_list(size: int, seed: int, relation: Any, self_rule: SelfRule, *, equal: bool) -> tuple[Any, Segment, Any]:
    """A matrix of float32, a segment with terms, and the number of copies behind each weight."""
    draw = np.random.default_rng((seed, 2))
    if relation == "antisymmetric":
        values = structured(seed, size, rho=1, tau=0).astype(np.float32)
        values = np.triu(values) - np.triu(values).T  # to the bit
    else:
        values = draw.normal(size=(size, size)).astype(np.float32)
    copies = np.ones(size) if equal else draw.integers(1, 4, size).astype(np.float64)
    weights = copies if draw.random() < 0.5 else np.exp(draw.normal(size=size)) * copies
    matters = copies > 1 if self_rule == "exclude" else np.ones(size, np.bool_)
    segment = Segment(
        1 - draw.random(size),
        np.ones(size) if equal else weights,
        own_weights(np.ones(size) if equal else weights, copies, self_rule),
        relation,
        matters & (relation != "antisymmetric"),
        terms=draw.normal(size=size),
    )
    return values, segment, copies


def scores_of(outcome: Outcome, segment: Segment) -> np.ndarray:
    """As a decision has them: of a strategy that leaves `expected` to others, from its values."""
    if outcome.expected is not None:
        return outcome.expected
    return segment.with_terms((segment.shares() * outcome.values).sum(axis=1))


def choice(outcome: Outcome, segment: Segment) -> int:
    return rank(scores_of(outcome, segment))[0] if outcome.ranking is None else outcome.ranking[0]


def play(name: str, options: dict[str, Any], values: np.ndarray, segment: Segment) -> tuple[Outcome, int]:
    if name in EACH:
        conversation = get_strategy(name).converse(segment)
        assert isinstance(next(conversation), AskEach)
        with pytest.raises(StopIteration) as end:
            conversation.send(values[:, 0].astype(np.float32))
        return end.value.value, segment.size
    outcome, pairs, _ = questions(values, get_strategy(name, **options), segment)
    return outcome, sum(map(len, pairs))


CASES = [
    *((name, "antisymmetric") for name in EVERYTHING),
    *((name, "none") for name in ANY_RELATION),
]


@pytest.mark.parametrize(("name", "relation"), CASES)
@given(size=sizes, seed=seeds, self_rule=st.sampled_from(["exclude", "include"]), equal=st.booleans())
@settings(deadline=None, max_examples=25)
def test_with_all_pairs_scored_it_is_the_expected_utility_plus_the_terms(
    name: str, relation: Any, size: int, seed: int, self_rule: SelfRule, equal: bool
) -> None:
    values, segment, copies = random_list(size, seed, relation, self_rule, equal=equal)
    outcome, _ = play(name, EVERYTHING[name], values, segment)
    exact = expected_utility(values, segment.weights, copies, self_rule) + segment.terms
    np.testing.assert_allclose(scores_of(outcome, segment), exact, rtol=0, atol=1e-9)
    assert choice(outcome, segment) == exact.argmax()
    off_diagonal = ~np.eye(size, dtype=np.bool_)
    np.testing.assert_array_equal(outcome.values[off_diagonal], values[off_diagonal])  # pure utilities
    one_order = relation == "antisymmetric" and name not in ("full", "both")  # of too few pairs to know what that loses
    regret = outcome.certainty.estimated_regret
    assert (regret is None and one_order) or regret == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize("relation", ["antisymmetric", "none"])
@given(size=st.integers(12, 25), seed=seeds, self_rule=st.sampled_from(["exclude", "include"]), equal=st.booleans())
@settings(deadline=None, max_examples=25)
def test_complete_rows_of_an_incomplete_matrix_are_exact(
    relation: Any, size: int, seed: int, self_rule: SelfRule, equal: bool
) -> None:
    """Halving with one pass less than all completes the rows of the best."""
    values, segment, copies = random_list(size, seed, relation, self_rule, equal=equal)
    exact = expected_utility(values, segment.weights, copies, self_rule) + segment.terms
    everything = get_strategy("halving", budget=10**9).passes(size, int(segment.diagonal.sum()), relation)
    outcome, _ = play("halving", {"budget": everything - 1}, values, segment)
    assert outcome.expected is not None
    assert outcome.ranking is not None
    best = list(outcome.ranking[:2])
    met = outcome.scored | outcome.scored.T if relation == "antisymmetric" else outcome.scored
    assert (met | np.diag(~segment.diagonal))[best].all()
    np.testing.assert_allclose(outcome.expected[best], exact[best], rtol=0, atol=1e-9)


@pytest.mark.parametrize("relation", ["antisymmetric", "none"])
@given(size=st.integers(2, 8), seed=seeds, self_rule=st.sampled_from(["exclude", "include"]), equal=st.booleans())
@settings(deadline=None, max_examples=25)
def test_prune_is_exact_where_its_first_step_uses_all_references(
    relation: Any, size: int, seed: int, self_rule: SelfRule, equal: bool
) -> None:
    values, segment, copies = random_list(size, seed, relation, self_rule, equal=equal)
    exact = expected_utility(values, segment.weights, copies, self_rule) + segment.terms
    outcome, _ = play("prune", {"tolerance": 0.01}, values, segment)
    assert outcome.expected is not None
    np.testing.assert_allclose(outcome.expected, exact, rtol=0, atol=1e-9)
    assert outcome.ranking == rank(outcome.expected)


@pytest.mark.parametrize("name", EACH)
@given(size=sizes, seed=seeds)
@settings(deadline=None, max_examples=15)
def test_scores_of_each_candidate_get_the_terms(name: str, size: int, seed: int) -> None:
    values, segment, _ = random_list(size, seed, "none", "exclude", equal=True)
    outcome, _ = play(name, {}, values, segment)
    exact = values[:, 0].astype(np.float64) + segment.terms
    np.testing.assert_array_equal(outcome.expected, exact)
    assert outcome.ranking == rank(exact)
    if name == "rerank":
        np.testing.assert_array_equal(outcome.values, np.tile(values[:, :1], size))


def same(before: Outcome, after: Outcome) -> bool:
    """To the byte."""
    expected = [None if one.expected is None else one.expected.tobytes() for one in (before, after)]
    return (
        before.values.tobytes() == after.values.tobytes()
        and before.scored.tobytes() == after.scored.tobytes()
        and expected[0] == expected[1]
        and (before.ranking, before.certainty) == (after.ranking, after.certainty)
    )


ESTIMATES = [
    *((name, {}, "none") for name in EACH),
    *((name, options, "antisymmetric") for name, options in SOME.items()),
    *((name, options, "none") for name, options in SOME.items() if name != "race"),
]


@pytest.mark.parametrize(("name", "options", "relation"), ESTIMATES)
@given(size=sizes, seed=seeds, equal=st.booleans(), hints=st.booleans())
@settings(deadline=None, max_examples=20)
def test_terms_of_zero_are_no_terms_to_the_byte(
    name: str, options: dict[str, Any], relation: Any, size: int, seed: int, equal: bool, hints: bool
) -> None:
    values, segment, _ = random_list(size, seed, relation, "exclude", equal=equal)
    segment = replace(segment, hints=segment.terms if hints else None)
    without, passes = play(name, options, values, replace(segment, terms=None))
    zero, zero_passes = play(name, options, values, replace(segment, terms=np.zeros(size)))
    assert same(without, zero)
    assert passes == zero_passes


@pytest.mark.parametrize(("name", "options", "relation"), ESTIMATES)
@given(size=sizes, seed=seeds, equal=st.booleans(), shift=st.integers(-100, 100))
@settings(deadline=None, max_examples=20)
def test_a_constant_in_all_terms_shifts_the_scores_and_changes_no_choice(
    name: str, options: dict[str, Any], relation: Any, size: int, seed: int, equal: bool, shift: int
) -> None:
    values, segment, _ = random_list(size, seed, relation, "exclude", equal=equal)
    assert segment.terms is not None
    shifted = replace(segment, terms=segment.terms + shift)
    before, passes = play(name, options, values, segment)
    after, shifted_passes = play(name, options, values, shifted)
    assert passes == shifted_passes
    np.testing.assert_allclose(scores_of(after, shifted), scores_of(before, segment) + shift, atol=1e-9)
    assert before.ranking == after.ranking
    old, new = before.certainty, after.certainty
    assert (old.rho, old.tau, old.contenders) == (new.rho, new.tau, new.contenders)
    assert old.estimated_regret == (None if new.estimated_regret is None else pytest.approx(new.estimated_regret))


@pytest.mark.parametrize("name", EVERYTHING)
@given(size=st.integers(2, 40), seed=seeds, scale=st.sampled_from([0.1, 1.0, 10.0]))
@settings(deadline=None, max_examples=20)
def test_a_difference_of_qualities_without_noise_is_decided_exactly(
    name: str, size: int, seed: int, scale: float
) -> None:
    """With all default options: `race`, `halving` and `prune` see a part of the pairs.

    `race` leaves out candidates that the terms nearly rule out (the next test), except in short lists.
    """
    size = min(size, 15) if name == "race" else size
    draw = np.random.default_rng(seed)
    qualities, terms = draw.normal(size=size), scale * draw.normal(size=size)
    values = qualities[:, None] - qualities
    segment = segment_of(values, seed, terms=terms)
    outcome, _ = play(name, {}, values, segment)
    exact = values.sum(axis=1) / (size - 1) + terms
    assert choice(outcome, segment) == exact.argmax()
    if name not in ("halving", "prune"):  # whose estimates are relative to the references used
        np.testing.assert_allclose(scores_of(outcome, segment), exact, atol=1e-5)


def test_where_terms_count_race_compares_few_and_keeps_its_tolerance() -> None:
    """Terms three times as large as the utilities: most candidates need no comparison, and the loss is as promised."""
    losses, passes = [], []
    for seed in range(40):
        values = structured(seed, 60, rho=0.3)
        terms = 3 * np.random.default_rng((seed, 6)).normal(size=60)
        segment = segment_of(values, seed, terms=terms)
        outcome, spent = play("race", {}, values, segment)
        exact = (values - values.T).sum(axis=1) / 2 / 59 + terms
        losses.append((exact.max() - exact[choice(outcome, segment)]) / (exact.max() - exact.mean()))
        passes.append(spent)
        assert outcome.ranking is not None
        assert len(outcome.ranking) == 60
    assert np.mean(losses) <= 0.01
    assert np.mean(passes) <= 0.75 * 60


@given(size=st.integers(12, 80), seed=seeds, rho=st.sampled_from([0.1, 1.0, 4.0]), tau=st.sampled_from([0, 0.5]))
@settings(deadline=None, max_examples=25)
def test_one_huge_term_ends_the_race_after_the_screen(size: int, seed: int, rho: float, tau: float) -> None:
    """Also where the utility is mostly noise, which alone would take more cycles."""
    values = structured(seed, size, rho=rho, tau=tau)
    terms = np.zeros(size)
    terms[seed % size] = 1e4
    outcome, passes = play("race", {}, values, segment_of(values, seed, terms=terms))
    assert outcome.ranking is not None
    assert outcome.ranking[0] == seed % size
    assert passes <= 1.5 * size + 3
    assert (outcome.certainty.contenders, outcome.certainty.estimated_regret) == (1, 0)


def test_a_noisy_utility_without_terms_takes_more_than_the_screen() -> None:
    values = structured(1, 60, rho=4)
    assert play("race", {}, values, segment_of(values, 1))[1] > 200


@pytest.mark.parametrize("name", ["prune", "halving"])
@pytest.mark.parametrize("relation", ["antisymmetric", "none"])
def test_one_huge_term_survives_every_elimination(name: str, relation: Any) -> None:
    for seed in range(5):
        values = structured(seed, 60, rho=2)
        worst = int(values.sum(axis=1).argmin())
        terms = np.where(np.arange(60) == worst, 1e4, 0.0)
        outcome, passes = play(name, {"budget": 1200}, values, segment_of(values, seed, relation, terms=terms))
        assert choice(outcome, segment_of(values, seed, relation, terms=terms)) == worst
        if name == "prune":  # all others are dropped after the first step
            assert passes <= 8 * 60 * 1.02


@pytest.mark.parametrize("name", [*SOME, "rerank"])
@given(size=sizes, seed=seeds, equal=st.booleans())
@settings(deadline=None, max_examples=20)
def test_permuting_the_list_permutes_the_result(name: str, size: int, seed: int, equal: bool) -> None:
    relation = "none" if name == "rerank" else "antisymmetric"
    values, segment, _ = random_list(size, seed, relation, "exclude", equal=equal)
    places = np.random.default_rng(seed).permutation(size)
    options = SOME.get(name, {})
    before, passes = play(name, options, values, segment)
    shuffled = values[np.ix_(places, places)] if name != "rerank" else values[places]
    after, shuffled_passes = play(name, options, shuffled, segment.take(places))
    assert passes == shuffled_passes
    np.testing.assert_allclose(
        scores_of(after, segment.take(places)), scores_of(before, segment)[places], atol=1e-9, equal_nan=True
    )
    assert places[choice(after, segment.take(places))] == choice(before, segment)
    assert before.certainty.contenders == after.certainty.contenders


def test_terms_steer_where_the_passes_go() -> None:
    """A candidate that only its term makes a contender meets many others; one that its term rules out, few."""
    values = structured(3, 80, rho=1.5)
    order = np.argsort(-values.sum(axis=1))
    terms = np.zeros(80)
    terms[order[40:45]], terms[order[:5]] = 3.0, -6.0
    _, plain, _ = questions(values, get_strategy("race"), segment_of(values, 3))
    _, steered, _ = questions(values, get_strategy("race"), segment_of(values, 3, terms=terms))
    before, after = (np.bincount(np.concatenate(pairs).ravel(), minlength=80) for pairs in (plain, steered))
    assert after[order[40:45]].mean() > 2 * before[order[40:45]].mean()
    assert after[order[:5]].mean() < before[order[:5]].mean() / 2


def test_the_estimated_regret_is_that_of_the_scores() -> None:
    """On the average over lists, where terms as large as the utilities change most choices."""
    losses, estimates, changed = [], [], 0
    for seed in range(30):
        values = structured(seed, 60, rho=1.5, tau=0)
        terms = np.random.default_rng((seed, 5)).normal(size=60)
        segment = segment_of(values, seed, terms=terms)
        outcome, _ = play("race", {"tolerance": 0.05}, values, segment)
        exact = values.sum(axis=1) / 59 + terms
        losses.append((exact.max() - exact[choice(outcome, segment)]) / (exact.max() - exact.mean()))
        estimates.append(outcome.certainty.estimated_regret)
        changed += int(values.sum(axis=1).argmax() != exact.argmax())
    assert changed > 10
    assert np.mean(losses) / 2 <= np.mean(estimates) <= 0.05
    assert np.mean(losses) <= 2 * 0.05  # few lists, and losses are rare and large


@pytest.mark.parametrize("relation", ["antisymmetric", "none"])
def test_rho_and_tau_are_those_of_the_utility(relation: Any) -> None:
    """From the same pairs, some or all: terms change contenders and regret, and neither of these."""
    values = structured(5, 40, rho=2, tau=0.3).astype(np.float32)
    plain = segment_of(values, 5, relation)
    with_terms = replace(plain, terms=np.where(np.arange(40) == 7, 100.0, 0.0))
    pairs = np.argwhere(np.random.default_rng(5).random((40, 40)) < 0.3)
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    scores = PairScores(plain)
    scores.write(pairs, values[tuple(pairs.T)])
    before, after = (certainty_of(scores, one, 7, np.random.default_rng(1)) for one in (plain, with_terms))
    assert before.rho is not None
    assert (before.rho, before.tau) == (after.rho, after.tau)
    assert (after.contenders, after.estimated_regret) == (1, 0)
    assert before.contenders is not None
    assert before.contenders > 1
    before, after = (questions(values, get_strategy("full"), one)[0].certainty for one in (plain, with_terms))
    assert before == after


def test_taking_candidates_takes_their_terms() -> None:
    segment = segment_of(np.zeros((4, 4)), 1, terms=np.arange(4.0))
    taken = segment.take(np.array([3, 1]))
    assert taken.terms is not None
    assert taken.terms.tolist() == [3, 1]
    assert taken.with_terms(np.array([0.5, 0.25])).tolist() == [3.5, 1.25]
    assert segment.with_terms(np.array([0.5, 0.25]), np.array([2, 0])).tolist() == [2.5, 0.25]
    assert segment_of(np.zeros((4, 4)), 1).take(np.array([0])).terms is None


@pytest.mark.parametrize("name", ["halving", "prune"])
@pytest.mark.parametrize("relation", ["antisymmetric", "none"])
def test_a_budget_for_few_looks_at_those_with_the_best_terms(name: str, relation: Any) -> None:
    """With 6 passes for 20 candidates, the first reference meets those with the best terms."""
    for seed in range(5):
        values, segment, _ = random_list(20, seed, relation, "exclude", equal=True)
        outcome, _ = play(name, {"budget": 6}, values, segment)
        assert outcome.ranking is not None
        best = np.argsort(-segment.terms)[:4].tolist()
        # Without a relation the reference itself has no estimate.
        assert len(set(best) - set(outcome.ranking)) <= (relation == "none")
        assert len(outcome.ranking) <= 7
