"""Loops: the same words, or the same characters, again and again, where the source has no such loop."""

from __future__ import annotations

import re
from collections import Counter
from functools import lru_cache
from itertools import pairwise
from operator import eq

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
            # A loop repeats three words at least, or is inside a long one.
            if len(words) - len(set(words)) < SINGLE - 1 and len(max(words, key=len, default="")) < LONG_WORD:
                continue
            if share := looped(words):
                allowed = looped(listed.source_words) if allowed is None else allowed
                severities[place] = share if allowed < share / 2 else 0.0
        return severities


def looped(words: list[str]) -> float:
    """The share of a text that is in loops."""
    letters = sum([_letters_in_loops(word) for word in words if len(word) >= LONG_WORD])
    share = letters / sum(map(len, words)) if letters else 0.0
    again = len(words) - 1 - len(set(pairwise(words)))
    if again < SINGLE - 2:
        return share
    folded = [_folded(word) for word in words]
    spread = _spread(folded) if again >= (SPREAD - 1) * (TIMES - 1) else 0
    return max(share, _in_a_row(folded) / len(folded), spread / len(folded))


@lru_cache(maxsize=50_000)
def _folded(word: str) -> str:
    return word.casefold().strip(".,;:!?")


@lru_cache(maxsize=10_000)
def _letters_in_loops(word: str) -> int:
    return sum(len(match[0]) for match in _CHARACTERS.finditer(word))


def _in_a_row(words: list[str]) -> int:
    """The words of the longest loop: n words that come again at once."""
    longest = 0
    last: dict[tuple[str, str], int] = {}
    sizes = set()  # of loops that there may be: how far the same two words are apart
    for place, pair in enumerate(pairwise(words)):
        if 0 < (size := place - last.get(pair, place)) <= LONGEST:
            sizes.add(size)
        last[pair] = place
    for size in sizes:
        needed = max(size * ((SINGLE if size == 1 else SEVERAL) - 1), longest - size + 1)
        same = bytes(map(eq, words[size:], words))  # 1 where a word comes again
        run = len(max(same.split(b"\0")))  # of ones: the largest is the longest
        while run >= needed:
            place = same.index(b"\1" * run)
            if any(words[place : place + size]):
                longest = run + size
                break
            same = same.replace(b"\1" * run, b"\0" * run, 1)  # punctuation again and again is a rule of a table
            run = len(max(same.split(b"\0")))
    return longest


def _spread(words: list[str]) -> int:
    """The words of phrases that come back often."""
    phrases = Counter(zip(*(words[offset:] for offset in range(SPREAD)), strict=False))
    most = max(phrases.values(), default=0)
    return SPREAD * most if most >= TIMES and SPREAD * most > len(words) / 3 else 0
