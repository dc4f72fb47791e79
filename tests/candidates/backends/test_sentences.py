"""Splitting sources into sentences and joining candidates."""

from __future__ import annotations

import pytest

from candidates.backends.sentences import join_candidates, split_sentences
from candidates.lists import Candidate


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("One sentence", ["One sentence"]),
        ("Come in! Sit down. He sat.", ["Come in!", "Sit down.", "He sat."]),
        ('"Go." He went.', ['"Go."', "He went."]),
        ("He paid 3.5 euros. Then left.", ["He paid 3.5 euros.", "Then left."]),
        ("e.g. this one", ["e.g. this one"]),
        ("(Really?) Yes.", ["(Really?)", "Yes."]),
        ("他来了。她走了！", ["他来了。", "她走了！"]),
        ("Wait… What?", ["Wait…", "What?"]),
        ("", [""]),
        ("   ", ["   "]),
    ],
)
def test_sentences(text: str, sentences: list[str]) -> None:
    assert split_sentences(text) == sentences


def test_splitting_loses_nothing_but_white_space() -> None:
    text = 'A. B! "C?" D… (E.) f. G'
    assert "".join("".join(split_sentences(text)).split()) == "".join(text.split())


def test_candidates_are_joined_place_by_place() -> None:
    first = [Candidate("a", -1.0), Candidate("b", -2.0), Candidate("c", -3.0)]
    second = [Candidate("x", -0.5), Candidate("y", -0.7)]
    joined = [Candidate("a x", -1.5), Candidate("b y", -2.7), Candidate("c y", -3.7)]
    assert join_candidates([first, second]) == [Candidate(entry.text, pytest.approx(entry.logprob)) for entry in joined]


def test_an_unknown_log_probability_makes_the_sum_unknown() -> None:
    assert join_candidates([[Candidate("a", -1.0)], [Candidate("b")]]) == [Candidate("a b", None)]
