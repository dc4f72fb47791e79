"""Terms: one number per candidate, added to the expected utility exactly."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from candidates.common.errors import InputError, MbrError, UsageError
from candidates.lists import Candidate, CandidateList
from mbr import PairUtility, QualityUtility, Term, decode, get_utility, rerank
from mbr.decide import ReferenceWeights
from mbr.evidence import WeightedTerm
from mbr.opening import open_decoder
from mbr.recipe import Recipe, TermSpec
from mbr.terms import get_term, term_family, term_names, term_options
from mbr.terms.of_utility import OfUtility

pytestmark = pytest.mark.one_world

TEXTS = ["Ein Hund läuft.", "Der Hund läuft schnell.", "Ein Hund rennt.", "Hunde laufen.", "Ein Hund läuft."]
LISTED = CandidateList.of("A dog runs.", [Candidate(text, -1.5 * k - 1) for k, text in enumerate(TEXTS)], id=7)
OTHER = CandidateList.of("A cat.", [Candidate("Eine Katze.", -0.5), Candidate("Katze", -2.0)], id=8)
RULES = ReferenceWeights()


def test_log_probability_is_per_word_and_the_end_counts_two() -> None:
    (values,) = get_term("logprob").values([LISTED], RULES)
    assert values.tolist() == pytest.approx([-1 / 5, -2.5 / 6, -4 / 5, -5.5 / (13 / 6 + 2)])  # type: ignore[union-attr]
    (chinese,) = get_term("logprob").values(
        [CandidateList.of("A", [Candidate("一二三四五六七八九十一二", -4.0)])], RULES
    )
    assert chinese.tolist() == [-4.0 / (12 / 6 + 2)]  # type: ignore[union-attr]


def test_a_list_without_log_probabilities_is_an_error_of_that_list_only() -> None:
    bare = CandidateList.of("A dog.", ["Ein Hund.", "Hund"], id=3)
    first, second = get_term("logprob").values([bare, OTHER], RULES)
    assert isinstance(first, InputError)
    assert "segment 3" in str(first)
    assert not isinstance(second, MbrError)
    decisions = list(decode([bare, OTHER], "chrf", add={"logprob": 1.0}, on_error="skip"))
    assert [decision.error is None for decision in decisions] == [False, True]


def test_length_counts_words() -> None:
    (values,) = get_term("length").values([OTHER], RULES)
    assert values.tolist() == [2.0, 1.0]  # type: ignore[union-attr]


@pytest.mark.parametrize("rules", [ReferenceWeights(), ReferenceWeights("uniform", "include")])
def test_a_comparing_utility_as_a_term_is_its_expected_utility(rules: ReferenceWeights) -> None:
    (values,) = get_term("chrf").values([LISTED], rules)
    alone = rerank(LISTED.source, list(LISTED.listed()), "chrf", weights=rules.kind, self_rule=rules.self_rule)
    np.testing.assert_allclose(values, alone.expected, atol=1e-5)  # type: ignore[arg-type]


class Longer(PairUtility):
    """By how many characters the hypothesis is longer; not antisymmetric on purpose."""

    name = "longer"

    def score_pairs(self, triples: Sequence[tuple[str, str, str]]) -> Any:
        return np.array([len(h) - len(r) + 0.5 for _, h, r in triples], np.float32)


class Marks(QualityUtility):
    name = "marks"

    def score_each(self, rows: Sequence[tuple[str, str]]) -> Any:
        return np.array([float(text.endswith(".")) for _, text in rows], np.float32)


def test_pair_utilities_and_qualities_are_pooled_over_lists() -> None:
    first, second = OfUtility(Longer()).values([LISTED, OTHER], RULES)
    lengths = np.array([len(text) for text in LISTED.texts], float)
    counts = np.array(LISTED.counts, float)
    plain = [
        (counts * (lengths[i] - lengths + 0.5)).sum() - (lengths[i] - lengths[i] + 0.5) for i in range(len(lengths))
    ]
    np.testing.assert_allclose(first, np.array(plain) / (counts.sum() - 1), atol=1e-6)  # type: ignore[arg-type]
    assert second.shape == (2,)  # type: ignore[union-attr]
    marked, _ = OfUtility(Marks()).values([OTHER, LISTED], RULES)
    assert marked.tolist() == [1.0, 0.0]  # type: ignore[union-attr]


def test_a_term_that_is_no_number_never_enters_a_decision() -> None:
    class Broken(QualityUtility):
        name = "broken"

        def score_each(self, rows: Sequence[tuple[str, str]]) -> Any:
            return np.array([np.nan if source == "A cat." else 1.0 for source, _ in rows], np.float32)

    with open_decoder(Recipe("chrf", terms=(TermSpec("length"),)), on_error="skip") as decoder:
        broken = replace(decoder, terms=(WeightedTerm(OfUtility(Broken()), 1.0),))
        ((first, second),) = broken.windows([LISTED, OTHER])
    assert first.error is None
    assert second.error == "segment 8: the term length is not a finite number for every candidate"


@pytest.mark.parametrize("strategy", ["full", "halving", "prune"])
@pytest.mark.parametrize("weight", [1.0, 4.0])
def test_the_score_is_the_weighted_expected_utility_plus_the_weighted_terms(strategy: str, weight: float) -> None:
    recipe = Recipe(
        "chrf", weight=weight, strategy=strategy, terms=(TermSpec("logprob", 30.0), TermSpec("length", -2.0))
    )
    with open_decoder(recipe) as decoder:
        ((decision,),) = decoder.windows([LISTED])
    plain = rerank(LISTED.source, list(LISTED.listed()), "chrf")
    logprob, length = (get_term(name).values([LISTED], RULES)[0] for name in ("logprob", "length"))
    expected = weight * plain.expected + 30 * logprob - 2 * length  # type: ignore[operator]
    np.testing.assert_allclose(decision.scores, expected, atol=1e-4)
    np.testing.assert_allclose(decision.expected, plain.expected, atol=1e-4)
    assert decision.ranking[0] == int(np.argmax(expected))
    record = decision.record()
    assert record["terms"] == {"logprob": round(logprob[decision.ranking[0]], 6), "length": length[decision.ranking[0]]}  # type: ignore[index]
    assert record["score"] == pytest.approx(expected[decision.ranking[0]], abs=1e-4)


def test_terms_alone_decide_without_a_utility() -> None:
    decision = rerank(LISTED.source, list(LISTED.listed()), "none", add={"length": 1.0})
    assert (decision.text, decision.scores.max()) == ("Der Hund läuft schnell.", 4.0)


def test_a_term_of_weight_zero_is_not_there() -> None:
    assert rerank("A", ["a", "b"], "chrf", add={"logprob": 0}).terms == {}


def test_a_prefilter_leaves_the_terms_of_what_it_dropped_unknown() -> None:
    decision = rerank(LISTED.source, list(LISTED.listed()), "chrf", add={"length": 1.0}, prefilter="logprob:2")
    assert np.isfinite(decision.terms["length"]).sum() == 2
    assert len(decision.ranking) == 2


def test_names_options_and_families() -> None:
    assert term_names()[:3] == ["logprob", "reverse", "length"]
    assert "none" not in term_names()
    assert "model" in term_options("reverse")
    assert (term_family("chrf"), term_family("reverse")) == (get_utility("chrf").family, "reverse")
    for name in ("nothing", "none"):
        with pytest.raises(UsageError, match=f"term '{name}' is unknown"):
            term_options(name)
    with pytest.raises(UsageError, match="needs a translation model of the other direction"):
        get_term("reverse")


def test_a_plug_in_term_may_be_a_class_of_three_lines() -> None:
    class Questions(Term):
        name = "questions"

        def values(self, lists: Sequence[CandidateList], references: ReferenceWeights) -> list[Any]:
            return [np.array([float(text.endswith("?")) for text in item.texts]) for item in lists]

    (values,) = Questions().values([CandidateList.of("Why?", ["Warum?", "Darum."])], RULES)
    assert values.tolist() == [1.0, 0.0]
