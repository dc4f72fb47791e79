from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mbr
from candidates import BadRecord, Candidate, CandidateList
from candidates.common.errors import InputError, ModelError, UsageError
from mbr import (
    MatrixUtility,
    PairUtility,
    Recipe,
    TermSpec,
    decode,
    get_utility,
    open_decoder,
    pipeline,
    rerank,
    utility_matrix,
)
from mbr.strategies import get_strategy


def quality(text: str) -> float:
    return (sum(map(ord, text)) * 7919 % 1000) / 500 - 1


class Exact(PairUtility):
    """An exactly antisymmetric utility, cheap and with interaction between candidates."""

    name = "exact"
    relation = "antisymmetric"
    default_strategy = "balanced"
    bias = 0.0

    def __init__(self) -> None:
        self.calls: list[int] = []

    def score_pairs(self, triples: Sequence[tuple[str, str, str]]) -> Any:
        self.calls.append(len(triples))
        return np.array([quality(a) - quality(b) + self.bias + interaction(a, b) for _, a, b in triples], np.float32)


def interaction(a: str, b: str) -> float:
    return quality(a + b) - quality(b + a)


class Biased(Exact):
    """The same with an order bias."""

    bias = 0.3


class Nan(Exact):
    def score_pairs(self, triples: Sequence[tuple[str, str, str]]) -> Any:
        scores = super().score_pairs(triples)
        scores[[triple[0] == "bad" for triple in triples]] = np.nan
        return scores


LISTS = [(f"source {k}", [f"cand {k} {i * i % 7}" for i in range(k + 2)]) for k in range(30)]

words = st.lists(st.text("abc", max_size=3), min_size=2, max_size=9)


@given(words, st.randoms(use_true_random=False))
@settings(deadline=None)
@pytest.mark.parametrize("strategy", ["full", "both", "balanced"])
def test_permuting_candidates_permutes_the_result(strategy: str, texts: list[str], draw: Any) -> None:
    """Also for a biased model: the orders are chosen by the texts, not by their places."""
    order = list(range(len(texts)))
    draw.shuffle(order)
    before = rerank("s", texts, Biased(), strategy=strategy)
    after = rerank("s", [texts[i] for i in order], Biased(), strategy=strategy)
    assert before.candidates is not None
    assert after.candidates is not None
    expected = dict(zip(before.candidates.texts, before.expected, strict=False))
    again = dict(zip(after.candidates.texts, after.expected, strict=False))
    assert expected == pytest.approx(again, abs=1e-9, nan_ok=True)
    if "tie" not in before.flags:
        assert before.text == after.text


@given(words)
@settings(deadline=None)
@pytest.mark.parametrize("name", ["exact", "chrf"])
def test_duplicates_count_as_if_written_out(name: str, texts: list[str]) -> None:
    """The plain definition on the expanded list, every position on its own, gives the same expected utilities."""
    utility = Exact() if name == "exact" else get_utility("chrf")
    decision = rerank("s", texts, utility)
    if "single" in decision.flags:
        return
    n = len(texts)
    if isinstance(utility, MatrixUtility):
        matrix = utility.matrix("s", texts, texts).astype(float)
    else:
        antisymmetric = [[quality(a) - quality(b) + interaction(a, b) if a != b else 0.0 for b in texts] for a in texts]
        matrix = np.array(antisymmetric)
    written_out = (matrix.sum(axis=1) - matrix.diagonal()) / (n - 1)
    assert decision.candidates is not None
    for index, places in enumerate(decision.candidates.positions):
        for place in places:
            assert decision.expected[index] == pytest.approx(written_out[place], abs=1e-4)


def test_uniform_weights_forget_duplicates() -> None:
    once = rerank("s", ["abc", "abd", "xyz"], "chrf", weights="uniform")
    often = rerank("s", ["abc", "abd", "xyz", "xyz", "xyz", "xyz"], "chrf", weights="uniform")
    assert once.expected.tolist() == often.expected.tolist()
    assert rerank("s", ["abc", "abd", "xyz", "xyz", "xyz"], "chrf").text == "xyz"


def test_log_probabilities_weigh_the_references() -> None:
    candidates = [
        Candidate("aaaa", -0.1),
        Candidate("aaab", -9.0),
        Candidate("zzzz", -5.0),
        Candidate("zzzy", -5.0),
    ]
    assert rerank("s", candidates, "chrf", weights="logprob").text == "aaab"


@pytest.mark.parametrize("strategy", ["half", "balanced", "both"])
def test_half_the_work_equals_full_for_an_exactly_antisymmetric_utility(strategy: str) -> None:
    full = list(decode(LISTS, Exact(), strategy="full"))
    other = list(decode(LISTS, Exact(), strategy=strategy))
    for a, b in zip(full, other, strict=True):
        assert a.ranking == b.ranking
        np.testing.assert_allclose(a.expected, b.expected, atol=1e-5)


def test_requests_of_many_lists_are_pooled() -> None:
    utility = Exact()
    decisions = list(decode(LISTS, utility, strategy="half"))
    assert len(utility.calls) == 1
    assert sum(utility.calls) == sum(decision.passes for decision in decisions)


def test_windows_change_nothing_but_the_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = [decision.expected.tolist() for decision in decode(LISTS, Exact())]
    monkeypatch.setattr(pipeline, "WINDOW_LISTS", 4)
    utility = Exact()
    assert [decision.expected.tolist() for decision in decode(LISTS, utility)] == whole
    assert len(utility.calls) == 8


def test_decoding_streams() -> None:
    def endless() -> Any:
        k = 0
        while True:
            yield (f"s{k}", ["a", "b", f"c{k}"])
            k += 1

    decisions = decode(endless(), "chrf")
    assert [next(decisions).id for _ in range(3)] == [0, 1, 2]


def test_one_distinct_candidate_is_chosen_unscored_and_flagged() -> None:
    utility = Exact()
    for texts in (["a"], ["a", "a", "a"]):
        decision = rerank("s", texts, utility)
        assert (decision.text, decision.flags, decision.passes, decision.margin) == (
            "a",
            ("single",),
            0,
            None,
        )
    assert utility.calls == []


def test_exact_ties_are_flagged_and_go_to_the_earlier() -> None:
    decision = rerank("s", ["ab", "ba", "zz"], "chrf")
    assert decision.flags == ("tie",)
    assert decision.text == "ab"


def test_a_score_that_is_not_a_number_stops_by_default() -> None:
    with pytest.raises(ModelError, match=r"segment 1: the utility returned nan for candidates \d and \d"):
        list(decode([("ok", ["a", "b"]), ("bad", ["a", "b"])], Nan()))


@pytest.mark.parametrize(("on_error", "text", "flags"), [("skip", "", ()), ("fallback", "a", ("fallback",))])
def test_a_score_that_is_not_a_number_never_enters_a_decision(on_error: Any, text: str, flags: tuple[str, ...]) -> None:
    lists = [("ok", ["a", "b"]), ("bad", ["a", "b"]), ("fine", ["a", "b"])]
    ok, bad, fine = decode(lists, Nan(), on_error=on_error)
    assert (bad.text, bad.flags) == (text, flags)
    assert bad.error is not None
    assert ok.error is fine.error is None


def test_bad_records_keep_their_place() -> None:
    records = [CandidateList.of("s", ["a", "b"]), BadRecord(7, InputError("broken"), "src")]
    with open_decoder(Recipe("chrf"), on_error="skip") as decoder:
        ((good, bad),) = decoder.windows(records)
    assert (bad.id, bad.error, bad.text) == (7, "broken", "")
    assert good.error is None
    with pytest.raises(InputError, match="broken"):
        list(open_decoder(Recipe("chrf")).windows(records))


def test_a_utility_that_returns_too_few_scores_is_a_model_error() -> None:
    class Short(Exact):
        def score_pairs(self, triples: Sequence[tuple[str, str, str]]) -> Any:
            return np.zeros(1, np.float32)

    with pytest.raises(ModelError, match="scores"):
        rerank("s", ["a", "b", "c"], Short())


@pytest.mark.parametrize(
    "settings",
    [
        {"strategy": "half"},
        {"weights": "x"},
        {"self_rule": "x"},
        {"on_error": "x"},
        {"strategy": "x"},
        {"model": "x"},
    ],
)
def test_requests_that_make_no_sense(settings: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        rerank("s", ["a", "b"], "chrf", **settings)
    with pytest.raises(UsageError):
        rerank("s", ["a", "b"], get_utility("chrf"), **settings)


def test_the_matrix_of_one_list() -> None:
    matrix = utility_matrix("s", ["ab", "ac", "ab"], "chrf")
    assert matrix.texts == ("ab", "ac")
    assert matrix.values.diagonal().tolist() == [100.0, 100.0]
    assert matrix.scored.all()
    assert utility_matrix("s", ["a"], "chrf").values.shape == (1, 1)


def test_pear_decodes_like_pear_mt_on_lists_without_duplicates(ours: Path) -> None:
    import pear

    metric = pear.load_metric(ours)
    texts = ["Ein Hund.", "Der Hund.", "Eine Katze.", "Hund", "Kein Hund."]
    for mode in ("half", "full"):
        theirs = pear.pear_utility_matrix(metric, "A dog.", texts, mode=mode, gpus=0, progress_bar=False)  # type: ignore[arg-type]
        decision = rerank("A dog.", texts, "pear", model=ours, device="cpu", strategy=mode, keep_matrix=True)
        assert decision.matrix is not None
        np.testing.assert_allclose(decision.matrix.values, theirs, atol=1e-5)
        index, expected = pear.select_mbr_hypothesis(theirs)
        assert decision.text == texts[index]
        assert decision.expected[index] == pytest.approx(expected, abs=1e-5)


def test_texts_too_long_for_the_model_are_flagged(ours: Path) -> None:
    long = "Katze " * 600
    utility = get_utility("pear", model=ours, device="cpu")
    flagged, plain = decode([("s", ["a", long]), ("s", ["a", "b"])], utility)
    assert flagged.flags == ("truncated",)
    assert plain.flags == ()


def test_the_signature_holds_what_may_change_a_decision(ours: Path) -> None:
    recipe = Recipe("pear", {"model": str(ours)}, strategy="balanced", seed=5)
    with open_decoder(recipe, runtime={"device": "cpu"}) as decoder:
        text = str(decoder.signature(nbest=100))
    assert text.startswith("MBR|utility:pear|model:pear@")
    assert "|dtype:float32|trunc:512|strategy:balanced|self:exclude|nbest:100|weights:count|seed:5|version:" in text
    with open_decoder(Recipe("chrf", terms=(TermSpec("length", 0.5),))) as decoder:
        assert "seed" not in decoder.signature()
        assert "|add.length:0.5|" in str(decoder.signature())


def test_the_package_is_its_public_names() -> None:
    assert callable(mbr.decode)
    assert set(mbr.__all__) <= {*dir(mbr), *mbr._HOMES}
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = mbr.nothing


def test_a_matrix_of_the_wrong_shape_is_a_model_error() -> None:
    class Wrong(MatrixUtility):
        name = "wrong"

        def matrix(self, source: str, hypotheses: Sequence[str], references: Sequence[str]) -> Any:
            return [[1.0]]

    with pytest.raises(ModelError, match="returned a matrix"):
        rerank("s", ["a", "b"], Wrong())


def test_one_text_is_not_a_sequence_of_candidates() -> None:
    with pytest.raises(InputError, match="found one text"):
        rerank("s", "abc", "chrf")


def test_the_expected_number_of_passes_is_the_real_one() -> None:
    item = CandidateList.of("s", ["a", "b", "c", "a"])
    for utility in (Exact(), get_utility("chrf")):
        strategy = utility.default_strategy
        decoder = open_decoder(Recipe(utility.name, strategy=strategy), utility=utility)
        ((decision,),) = decoder.windows([item])
        assert decision.passes == decoder.passes(item)


WITH_LOGPROBS = CandidateList.of(
    "s", [Candidate(text, -float(k)) for k, text in enumerate(("ab cd", "b", "c d e", "f"))]
)


@pytest.mark.parametrize("strategy", ["full", "both", "half", "balanced", "halving", "race", "prune"])
def test_terms_are_added_to_the_expected_utility_whatever_the_strategy(strategy: str) -> None:
    plain, informed = (
        rerank("s", list(WITH_LOGPROBS.listed()), Exact(), strategy=strategy, add={"logprob": weight})
        for weight in (0.0, 3.0)
    )
    words = np.array([2, 1, 3, 1]) + 2
    own = np.array([0, -1, -2, -3]) / words
    np.testing.assert_allclose(informed.terms["logprob"], own, atol=1e-9)
    np.testing.assert_allclose(informed.scores, plain.expected + 3.0 * own, atol=1e-5)
    np.testing.assert_allclose(informed.expected, plain.expected, atol=1e-5)


def test_a_large_weight_gives_the_order_of_the_term() -> None:
    decision = rerank("s", list(WITH_LOGPROBS.listed()), Exact(), add={"logprob": 1e4})
    assert decision.ranking == (0, 1, 2, 3)


def test_a_recipe_a_strategy_object_and_names_are_taken_alike() -> None:
    texts = ["ab", "ac", "abc", "b"]
    named = rerank("s", texts, "chrf", strategy="halving", budget=5, weights="uniform")
    recipe = Recipe("chrf", strategy="halving", strategy_options={"budget": 5}, weights="uniform")
    made = rerank("s", texts, "chrf", strategy=get_strategy("halving", budget=5), weights="uniform")
    for other in (
        rerank("s", texts, recipe),
        made,
        rerank("s", texts, get_utility("chrf"), strategy="halving", budget=5),
    ):
        assert other.ranking == named.ranking
        assert other.passes == named.passes == 5
    changed = rerank("s", texts, recipe, strategy="full", add={"length": 100.0})
    assert changed.passes > named.passes
    assert set(changed.terms) == {"length"}
    with pytest.raises(UsageError, match="budget goes with a strategy's name"):
        rerank("s", texts, "chrf", strategy=get_strategy("full"), budget=5)


@pytest.mark.parametrize("on_error", ["skip", "fallback"])
def test_an_empty_list_is_one_failed_decision_in_python_too(on_error: Any) -> None:
    good, bad, fine = decode([("s", ["a", "b"]), ("t", []), ("u", ["c"])], "chrf", on_error=on_error)
    assert (good.text, fine.text) == ("a", "c")
    assert (bad.id, bad.text, bad.source) == (1, "", "t")
    assert bad.error == "segment 1 has no candidates; expected at least one"
    assert rerank("s", [], "chrf", on_error=on_error).error == "segment 0 has no candidates; expected at least one"
    with pytest.raises(InputError, match="segment 1 has no candidates"):
        list(decode([("s", ["a", "b"]), ("t", [])], "chrf"))


@pytest.mark.parametrize(
    ("lists", "message"),
    [
        ("lists.jsonl", r"found 'lists.jsonl'; a file is read with candidates.read_lists: decode\(read_lists\(path\)"),
        (Path("lists.jsonl"), "a file is read with candidates.read_lists"),
        (CandidateList.of("s", ["a"]), "found one CandidateList"),
        (7, "found one int"),
        (["a", "b"], "list 0: expected a CandidateList or .source, candidates., found 'a'"),
        ([("s", ["a", "b"]), ("s", "a", "b")], "list 1: expected a CandidateList or"),
    ],
)
def test_what_is_no_list_is_refused_with_the_way_to_make_one(lists: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        list(decode(lists, "chrf"))
