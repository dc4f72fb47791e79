"""Languages by function words: close languages are told apart, and nothing is said without evidence."""

from __future__ import annotations

import unicodedata

import pytest

from candidates.common.languages import Evidence
from tests.support.close_languages import ENGLISH, GERMAN, SENTENCES


def evidence(texts: list[str]) -> Evidence:
    seen = Evidence()
    for text in texts:
        seen.add([text])
    return seen


def test_english_and_german_are_recognised() -> None:
    assert (evidence(ENGLISH).speaks("en"), evidence(ENGLISH).speaks("de")) == (True, False)
    assert (evidence(GERMAN).speaks("de"), evidence(GERMAN).speaks("en")) == (True, False)


@pytest.mark.parametrize("language", SENTENCES)
def test_no_close_language_passes_as_german(language: str) -> None:
    assert evidence(SENTENCES[language]).speaks("de") is False
    assert not any(evidence([sentence]).speaks("de") for sentence in SENTENCES[language])


@pytest.mark.parametrize("text", ["", "OK.", "42", "Tom!", "Berlin", "die", "der er den"])
def test_without_evidence_there_is_no_answer(text: str) -> None:
    assert evidence([text]).speaks("de") is None
    assert evidence([text] * 100).speaks("de") is not True


def test_another_script_is_another_language() -> None:
    for text in (
        "Я работаю над тем, чтобы помочь.",
        "我希望大家能花点时间考虑",
        "犬は家にいます。",
        "הכלב בבית הגדול.",
    ):
        assert evidence([text]).speaks("de") is False


def test_a_mixture_of_languages_is_none_of_them() -> None:
    assert evidence([*GERMAN, *SENTENCES["fr"]]).speaks("de") is None


def test_candidates_of_one_source_count_as_one_text() -> None:
    one, many = Evidence(), Evidence()
    one.add(GERMAN[:1])
    many.add([GERMAN[0]] * 15)
    assert one.ahead("de") == pytest.approx(many.ahead("de"))
    assert not many.certain("de")


def test_one_copied_source_among_the_candidates_changes_nothing() -> None:
    seen = Evidence()
    for german, english in zip(GERMAN, ENGLISH, strict=True):
        seen.add([german, german + "!", german + "?", english])
    assert seen.speaks("de") is True


def test_letters_may_be_written_with_combining_marks() -> None:
    composed, decomposed = evidence(["für über würde"]), evidence([unicodedata.normalize("NFD", "für über würde")])
    assert composed.ahead("de") == decomposed.ahead("de") > 0
