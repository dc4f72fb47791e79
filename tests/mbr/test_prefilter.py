"""The cheap first stage: whom it keeps, and that everything else refers to the whole list."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from benchmarks.support.replay import structured, truth
from candidates import Candidate, CandidateList
from candidates.common.errors import EnvironmentProblem, InputError, MbrError, UsageError
from mbr import Recipe, decode, open_decoder, rerank
from mbr.opening import by_decoder
from mbr.prefilter import Prefilter
from mbr.recipe import PrefilterSpec
from tests.mbr.made import Better, Similar, Tables

pytestmark = pytest.mark.one_world

WORDS = ("der Hund", "ein Hund", "die Katze", "das Haus", "rennt", "läuft", "schnell", "sehr", "heute", "nicht")
TEXTS = [" ".join(np.random.default_rng(k).choice(WORDS, 6)) for k in range(50)]


def by_table(scores: np.ndarray, keep: int) -> Prefilter:
    return Prefilter("table", keep, lambda items: [scores[[int(text) for text in item.texts]] for item in items])


def by_utility(utility: Any, keep: int) -> Prefilter:
    recipe = Recipe(utility.name, strategy=utility.default_strategy)
    return by_decoder(f"{utility.name}:{keep}", keep, open_decoder(recipe, utility=utility, on_error="skip"))


def test_the_best_by_chrf_are_kept_and_one_of_them_is_chosen() -> None:
    first = rerank("s", TEXTS, "chrf")
    decision = rerank("s", TEXTS, Better(), strategy="balanced", prefilter="chrf:30", keep_matrix=True)
    kept = sorted(first.ranking[:30])
    assert sorted(decision.ranking) == kept
    assert np.flatnonzero(np.isfinite(decision.expected)).tolist() == kept
    assert decision.passes == 30 * 29 // 2 + 8  # and 2 % in the other order
    assert decision.candidates is not None
    assert decision.candidates.texts == first.candidates.texts  # type: ignore[union-attr]
    among = rerank("s", [decision.candidates.texts[place] for place in kept], Better(), strategy="balanced")
    assert decision.text == among.text
    assert decision.margin == among.margin
    assert decision.matrix is not None
    assert decision.matrix.texts == tuple(decision.candidates.texts[place] for place in kept)
    assert "unseen" not in decision.flags


def test_counts_and_positions_are_those_of_the_whole_list() -> None:
    texts = [*TEXTS[:20], *TEXTS[:20], TEXTS[3]]
    decision = rerank("s", texts, Better(), strategy="full", prefilter="chrf:5")
    assert len(decision.ranking) == 5
    assert decision.candidates is not None
    for place in decision.ranking:
        positions = decision.candidates.positions[place]
        assert len(positions) == decision.candidates.counts[place] >= 2
        assert {texts[position] for position in positions} == {decision.candidates.texts[place]}


def test_a_list_that_is_short_enough_stays_whole() -> None:
    for texts in (TEXTS[:1], TEXTS[:2], TEXTS[:30]):
        plain, filtered = (rerank("s", texts, Better(), strategy="halving", prefilter=one) for one in (None, "chrf:30"))
        assert plain.ranking == filtered.ranking
        assert plain.passes == filtered.passes
        np.testing.assert_array_equal(plain.expected, filtered.expected)


def test_log_probability_per_word_is_a_first_stage_too() -> None:
    candidates = [Candidate(f"word {k} " + "more " * (k % 3), -float(k * 7 % 11)) for k in range(11)]
    decision = rerank("s", candidates, Better(), strategy="full", prefilter="logprob:4")
    lengths = [max(len(one.text.split()), len(one.text) / 6) + 2 for one in candidates]
    scores = np.array([-(k * 7 % 11) for k in range(11)]) / lengths
    assert sorted(decision.ranking) == sorted(np.argsort(-scores, kind="stable")[:4].tolist())
    with pytest.raises(InputError, match="segment 0: logprob needs the log-probability of every candidate"):
        rerank("s", ["a", "b", "c"], Better(), strategy="full", prefilter="logprob:2")


@pytest.mark.parametrize("on_error", ["skip", "fallback"])
def test_a_list_it_cannot_judge_fails_alone(on_error: Any) -> None:
    good = CandidateList.of("s", [Candidate(text, -1.0) for text in TEXTS[:5]], id="good")
    bad = CandidateList.of("s", TEXTS[:5], id="bad")
    one, two, three = decode([good, bad, good], Better(), strategy="race", prefilter="logprob:3", on_error=on_error)
    assert "log-probability" in (two.error or "")
    assert two.text == (TEXTS[0] if on_error == "fallback" else "")
    assert one.ranking == three.ranking
    assert len(one.ranking) == 3
    assert one.error is three.error is None


def test_a_first_stage_that_returns_nan_fails_alone() -> None:
    values = structured(0, 10)
    first = Tables({"a": values, "b": np.full((10, 10), np.nan), "c": values})
    second = Tables(dict.fromkeys("abc", values))
    prefilter = by_utility(first, 4)
    one, two, three = decode(second.lists(), second, prefilter=prefilter, on_error="fallback")
    assert (two.flags, two.text) == (("fallback",), "0")
    assert "segment 'b'" in (two.error or "")
    assert one.ranking == three.ranking
    with pytest.raises(MbrError, match="segment 'b'"):
        list(decode(second.lists(), second, prefilter=prefilter))


@pytest.mark.parametrize("text", ["chrf", "chrf:1", ":30", "chrf:", "chrf:x", "chrf:-3", "chrf:3.5", "", ":", "chrf:0"])
def test_what_is_no_prefilter_is_said(text: str) -> None:
    with pytest.raises(UsageError, match="expected NAME:K with K from 2 on"):
        PrefilterSpec.parse(text)
    with pytest.raises(UsageError, match="expected NAME:K"):
        rerank("s", ["a", "b", "c"], "chrf", prefilter=text)


def test_an_unknown_utility_is_said() -> None:
    with pytest.raises((UsageError, EnvironmentProblem), match="nosuch"):
        rerank("s", ["a", "b", "c"], "chrf", prefilter="nosuch:30")


def test_any_utility_may_come_first() -> None:
    """One without antisymmetry and with a strategy of its own; and a plain function."""
    similar = by_utility(Similar(), 7)
    exact = rerank("s", TEXTS, Similar())
    decision = rerank("s", TEXTS, Better(), strategy="balanced", prefilter=similar)
    assert sorted(decision.ranking) == sorted(exact.ranking[:7])
    utility = Tables({"s": structured(2, 20)})
    scores = np.random.default_rng(0).normal(size=20)
    (decision,) = decode(utility.lists(), utility, prefilter=by_table(scores, 6))
    assert set(decision.ranking) == set(np.argsort(-scores)[:6].tolist())


def test_ties_go_to_the_earlier() -> None:
    assert by_table(np.zeros(0), 3).best(np.array([1.0, 2.0, 1.0, 2.0, 1.0])) == [0, 1, 3]


def test_hints_never_break_exactness() -> None:
    """Whatever the first stage says, with all scores the decision is that of all scores."""
    for seed in range(3):
        values = structured(seed, 25, rho=1, tau=0)
        utility = Tables({"s": values})
        for scores in (truth(values), -truth(values), np.zeros(25), 1e9 * np.arange(25.0), 1e-12 * np.arange(25.0)):
            options: dict[str, Any] = {"tolerance": 0, "budget": 10**6, "prefilter": by_table(scores, 25)}
            (decision,) = decode(utility.lists(), utility, **options)
            assert decision.ranking[0] == truth(values).argmax()
            np.testing.assert_allclose(decision.expected, truth(values), atol=1e-5)


def test_it_is_counted_before_and_stands_in_the_signature() -> None:
    recipe = Recipe("pear", strategy="balanced", prefilter=PrefilterSpec("chrf", 30))
    decoder = open_decoder(recipe, utility=Better())
    item = CandidateList.of("s", TEXTS)
    assert decoder.passes(item) == 435 + 8
    assert decoder.passes(CandidateList.of("s", TEXTS[:9])) == 36
    assert "|prefilter:chrf:30|" in str(decoder.signature())
    with_settings = open_decoder(replace(recipe, prefilter=PrefilterSpec("bleu", 9)), utility=Better())
    assert "|prefilter:bleu:9|prefilter.tokenize:13a|" in str(with_settings.signature())


def test_it_goes_with_a_budget_for_all() -> None:
    matrices = {str(k): structured(k, 40, rho=2) for k in range(5)}
    utility = Tables(matrices)
    prefilter = by_table(np.arange(40.0), 20)
    decisions = list(decode(utility.lists(), utility, prefilter=prefilter, budget_total=5 * 45))
    assert sum(decision.passes for decision in decisions) <= 225
    assert all(min(decision.ranking) >= 20 for decision in decisions)
