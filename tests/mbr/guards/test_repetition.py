"""Loops: all texts read at once have the loops that each has by the definition."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from mbr.guards.repetition import LONGEST, SEVERAL, SINGLE, SPREAD, TIMES, shares_in_loops

WORDS = st.lists(st.sampled_from(["a", "A,", "b", "c", ".", "..."]), max_size=30)


def has_loop(words: list[str]) -> bool:
    """By the definition: words several times in a row, not punctuation alone; or a phrase that comes back often."""
    folded = [word.casefold().strip(".,;:!?") for word in words]
    for size in range(1, LONGEST + 1):
        length = size * (SINGLE if size == 1 else SEVERAL)
        for start in range(len(folded) - length + 1):
            part = folded[start : start + length]
            if part[size:] == part[:-size] and any(part):
                return True
    phrases = [tuple(folded[start : start + SPREAD]) for start in range(len(folded) - SPREAD + 1)]
    pairs = list(pairwise(folded))
    most = max(map(phrases.count, phrases), default=0)
    again = len(pairs) - len(set(pairs)) >= (SPREAD - 1) * (TIMES - 1)
    return again and most >= TIMES and SPREAD * most > len(words) / 3


@settings(deadline=None)
@given(st.lists(WORDS, max_size=4))
def test_texts_read_at_once_have_the_loops_of_each(texts: list[list[str]]) -> None:
    shares = shares_in_loops(texts)
    assert [share > 0 for share in shares] == [has_loop(words) for words in texts]
    assert all(0 <= share <= 1 for share in shares)
    assert shares == [share for words in texts for share in shares_in_loops([words])]
