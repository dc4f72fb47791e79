"""Marks: guards that compare them find what they find in whole texts."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from mbr.guards import ListTexts, get_guard
from mbr.guards.marks import marks
from mbr.guards.number_words import spelled
from mbr.guards.numbers import changed_numbers
from mbr.guards.placeholders import placeholders
from mbr.guards.tags import tags
from mbr.guards.urls import addresses

PIECES = st.sampled_from(
    ["{name}", "{{ x }}", "{n, plural,", "other {# Dateien}}", "%d", "100", "%sig", "<b>", "</b>", '<a href="x">', "<",
     "https://example.org/a,", "a@b.de", "5", "5.", "million", "Mio.", "Uhr", "pm", "drei", "hundred", "and", "fifty",
     "1.000", "000,5", "-5", "$", "to", "II", "der", "Hund,", "läuft", "(", "half", "12/05/2020", "COVID-19", "90s"]
)  # fmt: skip
TEXTS = st.lists(PIECES, max_size=8).map(" ".join)


@settings(deadline=None)
@given(TEXTS)
def test_a_mark_holds_what_its_text_holds(text: str) -> None:
    (mark,) = marks(ListTexts("", [text]))
    assert placeholders(mark) == placeholders(text)
    assert tags(mark) == tags(text)
    assert addresses(mark) == addresses(text)
    assert {word: count for word, count in spelled(mark).items() if word != "1"}.keys() <= spelled(text).keys()


@settings(deadline=None)
@given(TEXTS, st.lists(TEXTS, min_size=1, max_size=5))
def test_numbers_of_marks_are_those_of_texts(source: str, texts: list[str]) -> None:
    severities = get_guard("numbers").faults(ListTexts(source, texts))
    assert [severity > 0 for severity in severities] == [changed_numbers(source, text) != ([], []) for text in texts]
