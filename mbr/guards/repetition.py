"""Loops: the same words, or the same characters, again and again, where the source has no such loop."""

from __future__ import annotations

import re
from collections import Counter

from mbr.guards.base import Guard, ListTexts

LONGEST = 12  # words of a loop
SINGLE = 4  # times that one word is repeated in a loop, at least
SEVERAL = 3  # the same for more words
SPREAD = 4  # words of a phrase that comes back, not at once
TIMES = 4  # that it does, at least
# Letters repeated without a space: eight times for one, four for more. Points and dashes are rules of a table.
_CHARACTERS = re.compile(r"([^\W\d_])\1{7,}|([^\W\d_]{2,12}?[,、，\s]?)\2{3,}")
LONG_WORD = 24  # characters of a word that may hold a loop of its own


class Repetition(Guard):
    """No loop that the source does not have."""

    name = "repetition"
    summary = "no words or characters again and again, unless the source does so"

    def faults(self, listed: ListTexts) -> list[float]:
        severities = listed.kept
        allowed: float | None = None
        for place, words in enumerate(listed.words):
            again = len(words) - len(set(words))
            # A loop repeats two words at least; text without spaces is one long word.
            if again < SINGLE - 1 and (len(listed.texts[place]) < LONG_WORD * (len(words) or 1)):
                continue
            share = looped(listed.texts[place], words)
            if share:
                allowed = looped(listed.source, listed.source_words) if allowed is None else allowed
                severities[place] = max(share - allowed, 0.0) if allowed < share / 2 else 0.0
        return severities


def looped(text: str, words: list[str]) -> float:
    """The share of a text that is in loops."""
    share = 0.0
    if len(text) >= LONG_WORD * (len(words) or 1):
        characters = sum(len(match[0]) for match in _CHARACTERS.finditer(text))
        share = characters / len(text)
    folded = [word.strip(".,;:!?").casefold() for word in words]
    if len(folded) - len(set(folded)) < SEVERAL - 1:
        return share
    return max(share, _in_a_row(folded) / len(folded), _spread(folded) / len(folded))


def _in_a_row(words: list[str]) -> int:
    """The words of the longest loop: n words that come again at once."""
    longest = 0
    for size in range(1, min(LONGEST, len(words) // 2) + 1):
        run = 0
        for place in range(size, len(words)):
            run = run + 1 if words[place] == words[place - size] else 0
            if run >= size * ((SINGLE if size == 1 else SEVERAL) - 1) and any(words[place - size + 1 : place + 1]):
                longest = max(longest, run + size)
    return longest


def _spread(words: list[str]) -> int:
    """The words of phrases that come back often."""
    phrases = Counter(tuple(words[place : place + SPREAD]) for place in range(len(words) - SPREAD + 1))
    most = max(phrases.values(), default=0)
    return SPREAD * most if most >= TIMES and SPREAD * most > len(words) / 3 else 0
