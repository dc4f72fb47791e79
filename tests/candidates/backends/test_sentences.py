"""Splitting sources into sentences and joining candidates."""

from __future__ import annotations

import itertools
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from candidates.backends.sentences import best_combinations, join_candidates, split_sentences
from candidates.lists import Candidate
from candidates.settings import Settings

BEAM = Settings(nbest=4)
SAMPLES = Settings(nbest=3, method="sample")


# Sentences are separated by `|`; the text has a space there, or nothing where the script has none.
@pytest.mark.parametrize(
    "text",
    [
        "One sentence",
        "Come in!|Sit down.|He sat.",
        '"Go."|He went.',
        '"Go!" he said.|"Never."',
        "(Really?)|Yes.",
        "He paid 3.5 euros.|Then he left.",
        "See www.example.com for more, e.g. This one.|Good.",
        "Dr. Smith met Mrs. Jones and J. R. R. Tolkien.|They talked.",
        "The U.S. President came at 3 p.m. on Monday.|He left.",
        "Smith et al. Found nothing vs. Jones.",
        "It is on p. 5, see Fig. 3 and No. 7.|No.|Not that.",
        "He is 12.|She is 10.|So am I.|We are old.",
        "1. Introduction",
        "Wait...|What?|Well... yes.",
        "Wait…|What?!|Nothing.",
        "Hi!|😀 How are you? 😀",
        "Am 3. Oktober kam der 2. Brief.|Er war kurz.|Sie ist 12.|Na und?",
        "Prof. Dr. Müller sagte z. B. Nein.|„Komm!“|Er ging.",
        "M. Dupont est là.|« Où ? »|Ici.",
        "El Sr. Pérez vino.|¿Qué tal?|¡Hola!",
        "Он живёт на ул. Ленина.|Привет!|Как дела? - спросил он.",
        "Ναι.|Εδώ.",
        "यह है।|वह था।",
        "ما هذا؟|هذا كتاب.",
        "他来了。|她走了！|真的？",
        "「はい。行きます。」と言った。|そして出た。",
        "",
        "   ",
        "...",
        "?!",
        "a. b. c.",
    ],
)
def test_sentences(text: str) -> None:
    sentences = text.split("|")
    gap = "" if any(letter in text for letter in "。") else " "
    assert split_sentences(gap.join(sentences)) == sentences


def test_a_single_sentence_keeps_its_white_space() -> None:
    assert split_sentences("  One sentence. ") == ["  One sentence. "]


@given(st.text(alphabet='aB1. !?…"”)。」「\u200b\t😀'))
def test_splitting_loses_nothing_but_white_space(text: str) -> None:
    assert "".join("".join(split_sentences(text)).split()) == "".join(text.split())
    assert len(split_sentences(text)) == 1 or all(any(map(str.isalnum, part)) for part in split_sentences(text))


@pytest.mark.parametrize("text", [".", ". ", "A. ", "Ab. ", "5. ", '."', "。", "「a。", "- .", "a b "])
def test_splitting_takes_time_linear_in_the_length(text: str) -> None:
    began = time.process_time()
    split_sentences(text * 50_000)
    assert time.process_time() - began < 3  # quadratic: minutes


def test_samples_are_joined_place_by_place() -> None:
    first = [Candidate("a", -1.0), Candidate("b", -2.0), Candidate("c", -3.0)]
    second = [Candidate("x", -0.5), Candidate("y", -0.75)]
    joined = [Candidate("a x", -1.5), Candidate("b y", -2.75), Candidate("c y", -3.75)]
    assert join_candidates([first, second], SAMPLES) == joined


def test_beams_are_joined_to_the_most_likely_combinations() -> None:
    first = [Candidate("a", -1.0), Candidate("b", -3.0)]
    second = [Candidate("x", -0.5), Candidate("y", -0.75), Candidate("z", -4.0)]
    joined = [("a x", -1.5), ("a y", -1.75), ("b x", -3.5), ("b y", -3.75)]
    assert join_candidates([first, second], BEAM) == [Candidate(*entry) for entry in joined]


lists_of_logprobs = st.lists(st.lists(st.integers(-20, 0).map(float), min_size=1, max_size=4), min_size=1, max_size=4)


@given(lists_of_logprobs, st.integers(1, 30))
def test_combinations_are_those_of_trying_all(logprobs: list[list[float]], count: int) -> None:
    ordered = [sorted(values, reverse=True) for values in logprobs]
    totals = sorted(map(sum, itertools.product(*ordered)), reverse=True)[:count]
    places = best_combinations(ordered, count)
    assert [sum(values[place] for values, place in zip(ordered, row, strict=True)) for row in places] == totals
    assert len(set(map(tuple, places))) == len(places)


@given(lists_of_logprobs)
def test_the_first_of_every_list_come_first_even_if_a_later_one_is_more_likely(logprobs: list[list[float]]) -> None:
    assert best_combinations(logprobs, 5)[0] == [0] * len(logprobs)


def test_a_line_of_very_many_sentences_is_joined_in_time() -> None:
    began = time.process_time()
    beam = [Candidate(f"Text {place}.", -float(place)) for place in range(100)]
    assert len(join_candidates([beam] * 1000, Settings(nbest=100))) == 100
    assert time.process_time() - began < 10


def test_an_unknown_log_probability_makes_the_sum_unknown() -> None:
    assert join_candidates([[Candidate("a", -1.0)], [Candidate("b")]], SAMPLES) == [Candidate("a b", None)]


def test_scripts_without_spaces_are_joined_without_them() -> None:
    assert join_candidates([[Candidate("他来了。")], [Candidate("她走了！")]], SAMPLES) == [
        Candidate("他来了。她走了！")
    ]
    assert join_candidates([[Candidate("")], [Candidate("Ja.")], [Candidate("")]], SAMPLES) == [Candidate("Ja.")]
