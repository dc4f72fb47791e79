"""Lists and models for the tests of the term reverse."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from candidates.lists import CandidateList
from mbr.decide import ReferenceWeights
from mbr.terms import get_term
from mbr.terms.reverse import Reverse

FAMILIES = ("marian", "m2m100", "nllb")
# Candidates are German, sources English: the reverse model translates from German into English.
LANGUAGES: dict[str, dict[str, str]] = {
    "marian": {},
    "m2m100": {"src_lang": "de", "tgt_lang": "en"},
    "nllb": {"src_lang": "deu_Latn", "tgt_lang": "eng_Latn"},
}
# What the bundled model translates, and a list of the other direction.
GERMAN_TO_ENGLISH = [
    ("Tom ist heute sehr krank.", ["Tom is very sick today.", "Tom is sick.", "The table is green and quite old."]),
    ("Wo ist der Bahnhof?", ["The sky is blue in summer.", "Where is the station?", "Where is the train?"]),
    ("Ich habe kein Geld mehr.", ["I have no money left.", "I have no more time to lose.", "You are right."]),
]
ENGLISH_TO_GERMAN = [
    ("Tom is very sick today.", ["Tom ist heute sehr krank.", "Tom ist heute krank.", "Tom ist krank."]),
    ("Where is the station?", ["Wo ist der Bahnhof?", "Wo befindet sich der Bahnhof?", "Wo ist hier der Bahnhof?"]),
    ("I have no money left.", ["Ich habe kein Geld mehr.", "Ich habe kein Geld übrig.", "Ich hab kein Geld mehr."]),
]
# Names, numbers and single words say nothing about the direction.
SAYS_NOTHING = [
    ("Tom", ["Tom.", "Tom!", "Der Tom"]),
    ("Tom Smith, New York", ["Tom Smith, New York.", "Tom Smith in New York", "Tom Smith, New Yorker"]),
    ("12:30", ["12.30 Uhr", "12:30 Uhr", "halb eins"]),
    ("Hello!", ["Hallo!", "Hi!", "Guten Tag!"]),
]
RULES = ReferenceWeights()
Folders = Callable[[str], tuple[Path, Path]]


def lists_of(rows: Sequence[tuple[str, list[str]]]) -> list[CandidateList]:
    return [CandidateList.of(source, texts, id=id) for id, (source, texts) in enumerate(rows)]


def reverse(model: Path | str, family: str = "marian", **options: Any) -> Reverse:
    term = get_term("reverse", **{"model": str(model), "device": "cpu", "threads": 1, **LANGUAGES[family]} | options)
    assert isinstance(term, Reverse)
    return term


def values_of(term: Reverse, lists: Sequence[CandidateList]) -> list[list[float]]:
    return [np.asarray(values, float).tolist() for values in term.values(lists, RULES)]
