from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from candidates import Candidate, CandidateList
from candidates.common.errors import InputError


def test_equal_texts_are_one_candidate_with_a_count_and_all_positions() -> None:
    item = CandidateList.of("A dog.", ["Ein Hund.", "Der Hund.", "Ein Hund."], id="x", references=["R"])
    assert item.texts == ("Ein Hund.", "Der Hund.")
    assert item.counts == (2, 1)
    assert item.positions == ((0, 2), (1,))
    assert item.references == ("R",)
    assert len(item) == 2


def test_counts_add_up_and_the_largest_logprob_is_kept() -> None:
    item = CandidateList.of("s", [Candidate("a", -2.0, 3), Candidate("b"), Candidate("a", -1.0, 2)])
    assert item.counts == (5, 1)
    assert item.logprobs == (-1.0, None)


def test_without_any_logprob_there_are_none() -> None:
    assert CandidateList.of("s", ["a"]).logprobs is None


def test_the_empty_string_is_a_candidate() -> None:
    assert CandidateList.of("s", ["", "a", ""]).counts == (2, 1)


def test_a_list_without_candidates_is_refused_by_name() -> None:
    with pytest.raises(InputError, match="segment 'seg7' has no candidates"):
        CandidateList.of("s", [], id="seg7")


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        (Candidate("a", float("nan")), "not a finite number"),
        (Candidate("a", float("-inf")), "not a finite number"),
        (Candidate("a", None, 0), "positive whole number"),
        (Candidate("a\ud800"), r"lone surrogate \\ud800"),
        (Candidate("a", None, True), "positive whole number"),
        (Candidate(3), "expected a text, found int"),  # type: ignore[arg-type]
    ],
)
def test_unusable_candidates_are_refused(entry: Candidate, words: str) -> None:
    with pytest.raises(InputError, match=words):
        CandidateList.of("s", [entry])


@given(st.lists(st.sampled_from(["a", "b", "c", ""]), min_size=1))
def test_listing_gives_the_original_order_back(texts: list[str]) -> None:
    assert [candidate.text for candidate in CandidateList.of("s", texts).listed()] == texts


def test_a_counted_entry_keeps_its_count_when_listed() -> None:
    listed = list(CandidateList.of("s", [Candidate("a", -1.0, 3), Candidate("b", -2.0)]).listed())
    assert listed == [Candidate("a", -1.0, 3), Candidate("b", -2.0)]
