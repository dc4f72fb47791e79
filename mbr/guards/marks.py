"""The marks of each candidate: the words that placeholders, tags, numbers and addresses are made of, without the rest.

The candidates of a list mostly have the same marks, so guards compare those, and each distinct one once. A mark keeps
words with a digit or one of the signs `{}%<>@`, addresses, number words, and what follows a number (`Uhr`, `million`);
a gap is a line break. Where a tag or a field holds spaces, the mark is the whole text.

>>> marks(ListTexts("", ["Hallo {name}, es ist 5 Uhr.", "Es ist fünf, lieber {name}"]))
['\\n{name},\\n5 Uhr.', '\\nfünf,\\n{name}']
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

from mbr.guards.base import ListTexts
from mbr.guards.number_words import is_number_word, scaled

_SIGNS = re.compile(r"[{}%<>\d]|.@.|://|www\.", re.IGNORECASE)
_CURRENCY = frozenset("$€£¥₹")
_ENCLOSED = re.compile(r"<[^<>]*>|\{[^{}]*\}")
_FIRST_LETTERS = re.compile(r"[^\W\d_]+")
_FOLLOWING = frozenset(
    ["uhr", "h", "am", "pm", "a", "p", "to", "and", "or", "bis", "und", "oder", "à", "ל", "עד", "до"]
)


def marks(listed: ListTexts) -> list[str]:
    """The mark of each candidate."""
    kinds = {word: kind for word in listed.distinct_words if (kind := _kind(word))}
    split = {word for word, kind in kinds.items() if kind == "split"}
    following = {word for word, kind in kinds.items() if kind == "following"}
    kept = kinds.keys() - following
    if not kept:
        return [""] * len(listed.texts)
    return [
        "" if kept.isdisjoint(words) else text if not split.isdisjoint(words) else _mark(words, kept, following)
        for text, words in zip(listed.texts, listed.words, strict=True)
    ]


def by_mark(listed: ListTexts, severity: Callable[[str], float]) -> list[float]:
    """The severity of each candidate, computed once for each distinct mark."""
    own = listed.derived(marks)
    severities = {mark: severity(mark) for mark in set(own)}
    return [severities[mark] for mark in own]


def _mark(words: list[str], kept: set[str], following: set[str]) -> str:
    pieces: list[str] = []
    end = -1
    for place, word in enumerate(words):
        if word in kept or (place == end and word in following):
            pieces += (" " if place == end else "\n", word)
            end = place + 1
    return "".join(pieces)


@lru_cache(maxsize=50_000)
def _kind(word: str) -> str:
    """`kept`, `split` for a part of a tag or field that holds spaces, `following` for what may follow a number."""
    if _SIGNS.search(word):
        rest = word
        while (shorter := _ENCLOSED.sub("", rest)) != rest:
            rest = shorter
        return "split" if any(sign in rest for sign in "<>{}") else "kept"
    if word in _CURRENCY or is_number_word(word):
        return "kept"
    letters = _FIRST_LETTERS.match(word)
    return "following" if letters and (letters[0].casefold() in _FOLLOWING or scaled(letters[0])) else ""
