"""Loops: the same words, or the same characters, again and again, where the source has no such loop."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from mbr.guards.base import Guard, ListTexts

IntArray = npt.NDArray[np.int64]
LONGEST = 12  # words of a loop
SINGLE = 4  # times that one word is repeated in a loop, at least
SEVERAL = 3  # the same for more words
SPREAD = 4  # words of a phrase that comes back, not at once
TIMES = 4  # that it does, at least
# Letters repeated without a space: eight times for one, four for more. Points and dashes are rules of a table.
_CHARACTERS = re.compile(r"([^\W\d_])\1{7,}|([^\W\d_]{2,12}?[,、，\s]?)\2{3,}")
PUNCTUATION = "\0"  # the code of a word of punctuation alone
BETWEEN = "\1"  # the code between two texts
LONG_WORD = 24  # characters of a word that may hold a loop of its own


class Repetition(Guard):
    """No loop that the source does not have."""

    name = "repetition"
    summary = "no words or characters again and again, unless the source does so"

    def faults(self, listed: ListTexts) -> list[float]:
        severities = listed.kept
        # A loop repeats three words at least, or is inside a long one.
        repeating = [place for place, words in enumerate(listed.words) if len(words) - len(set(words)) >= SINGLE - 1]
        shares = dict(zip(repeating, shares_in_loops([listed.words[place] for place in repeating]), strict=True))
        looping = {word for word in listed.distinct_words if len(word) >= LONG_WORD and _looping_letters(word)}
        for place, words in enumerate(listed.words if looping else ()):
            if not looping.isdisjoint(words):
                shares[place] = max(shares.get(place, 0.0), _letters_in_loops(words))
        if any(shares.values()):
            allowed = max(*shares_in_loops([listed.source_words]), _letters_in_loops(listed.source_words))
            for place, share in shares.items():
                severities[place] = share if allowed < share / 2 else 0.0
        return severities


def shares_in_loops(texts: Sequence[list[str]]) -> list[float]:
    """The share of the words of each text that are in loops.

    All texts are read at once as one array, since a translator that loops does so in most candidates of a list.
    """
    if not texts:
        return []
    codes: dict[str, str] = {"": PUNCTUATION}
    code_of = {
        word: codes.setdefault(_folded(word), chr(len(codes) + 1)) for word in set().union(*texts)
    }  # one character per word
    coded = ["".join(map(code_of.__getitem__, words)) for words in texts]
    lengths = np.array([len(text) for text in coded])
    repeated = _in_a_row(coded, lengths)
    for place in np.flatnonzero(repeated == 0):
        repeated[place] = _spread(coded[place])
    return [float(share) for share in np.minimum(repeated / np.maximum(lengths, 1), 1.0)]


def _in_a_row(coded: list[str], lengths: IntArray) -> IntArray:
    """For each text the words of its loops: n words that come again at once. Linear in the words of all texts."""
    words = np.frombuffer(
        BETWEEN.join(coded).encode("utf-32-le", "surrogatepass"), dtype=np.uint32
    )  # [words of all texts]
    text_of = np.repeat(np.arange(len(coded)), lengths + 1)[:-1]  # [words of all texts]
    written = np.concatenate(([0], np.cumsum(words != ord(PUNCTUATION))))
    longest = np.zeros(len(coded), dtype=np.int64)
    for size in range(1, LONGEST + 1):
        again = size * ((SINGLE if size == 1 else SEVERAL) - 1)  # words that repeat those before them
        same = (words[size:] == words[:-size]) & (text_of[size:] == text_of[:-size])
        if len(same) < again:
            break
        count = np.concatenate(([0], np.cumsum(same)))
        loops = np.flatnonzero(count[again:] - count[:-again] == again)  # where a loop begins or goes on
        # Punctuation again and again is a rule of a table.
        loops = loops[written[loops + again] > written[loops]]
        if len(loops):
            starts = np.bincount(text_of[loops], minlength=len(coded))
            longest = np.maximum(longest, np.where(starts > 0, starts - 1 + again + size, 0))
    return longest


def _spread(coded: str) -> int:
    """The words of a phrase that comes back often."""
    if len(coded) - 1 - len(set(pairwise(coded))) < (SPREAD - 1) * (TIMES - 1):
        return 0
    most = max(Counter([coded[place : place + SPREAD] for place in range(len(coded) - SPREAD + 1)]).values())
    return SPREAD * most if most >= TIMES and SPREAD * most > len(coded) / 3 else 0


def _letters_in_loops(words: list[str]) -> float:
    """The share of letters that are in loops inside long words."""
    letters = sum([_looping_letters(word) for word in words if len(word) >= LONG_WORD])
    return letters / sum(map(len, words)) if letters else 0.0


@lru_cache(maxsize=50_000)
def _folded(word: str) -> str:
    return word.casefold().strip(".,;:!?")


@lru_cache(maxsize=10_000)
def _looping_letters(word: str) -> int:
    return sum(len(match[0]) for match in _CHARACTERS.finditer(word))
