"""Matching n-grams of all pairs of texts at once.

The clipped match count of two texts, sum over n-grams of min(count_a, count_b), is an inner product: write each
n-gram's k-th occurrence as a feature of its own, 1 if the text has it; then min(a, b) counts the features both have.
So all pairs are one matrix product per n-gram order, exact in float32 up to 2**24 matches.
Complexity: O(T log T) for T tokens in all texts, then N * M * F multiplications for F distinct features.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import chain

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float32]

# Features are handled in blocks so that a block of the indicator matrix stays near 16 MB.
BLOCK_CELLS = 4_000_000
LARGEST_KEY = 2**62


def character_ids(texts: Sequence[str]) -> list[Ints]:
    """Code points of each text, white space left out, as chrF counts them."""
    joined = ["".join(text.split()) for text in texts]
    return [np.frombuffer(text.encode("utf-32-le"), np.uint32).astype(np.int64) for text in joined]


def word_ids(texts: Sequence[Sequence[str]]) -> list[Ints]:
    """A number for each distinct word of tokenised texts."""
    numbers: dict[str, int] = {}
    return [np.array([numbers.setdefault(word, len(numbers)) for word in text], np.int64) for text in texts]


def match_statistics(sequences: Sequence[Ints], hypotheses: int, orders: int) -> Iterator[tuple[Floats, Ints]]:
    """For each order 1..orders: matches [hypotheses, references] and n-gram counts [texts].

    `sequences` holds the hypotheses first, then the references; with as many sequences as hypotheses, the
    hypotheses are their own references.
    """
    lengths = np.array([len(sequence) for sequence in sequences], np.int64)
    text = np.repeat(np.arange(len(sequences)), lengths)
    keys, starts, limits = _ngram_keys(sequences, lengths, orders)
    features = _Features(np.concatenate([text[start] for start in starts]), np.concatenate(keys), len(sequences))
    lower = 0
    for order, limit in enumerate(limits, 1):
        upper = features.below(limit)
        yield features.matches(lower, upper, hypotheses), np.maximum(lengths - order + 1, 0)
        lower = upper


def _ngram_keys(sequences: Sequence[Ints], lengths: Ints, orders: int) -> tuple[list[Ints], list[Ints], list[int]]:
    """For each order: a number per n-gram, where it starts, and a limit above all numbers so far.

    Numbers of a higher order are larger than all of a lower one. With digits 1..V for the V distinct tokens, an
    n-gram is an n-digit number in base V + 1; where such numbers would grow too large, they are renumbered.
    """
    tokens = np.concatenate([np.empty(0, np.int64), *sequences])
    remaining = np.concatenate([np.empty(0, np.int64), *(np.arange(n, 0, -1) for n in lengths)])
    distinct, digits = np.unique(tokens, return_inverse=True)
    digits += 1
    base = len(distinct) + 1
    key, start = digits, np.arange(len(tokens))
    offset, largest = 0, base
    keys, starts, limits = [key], [start], [base]
    for order in range(2, orders + 1):
        longer = remaining[start] >= order
        start, prefix = start[longer], key[longer] - offset
        if largest * base >= LARGEST_KEY:
            distinct, prefix = np.unique(prefix, return_inverse=True)
            offset, largest = limits[-1], len(distinct) + 1
        key = prefix * base + digits[start + order - 1] + offset
        largest *= base
        keys.append(key)
        starts.append(start)
        limits.append(offset + largest)
    return keys, starts, limits


class _Features:
    """Occurrences (text, n-gram) as features: the k-th occurrence of an n-gram in a text is one of its own."""

    def __init__(self, text: Ints, gram: Ints, texts: int) -> None:
        self._texts = texts
        order = np.lexsort((text, gram))
        text, gram = text[order], gram[order]
        place = np.arange(len(gram))
        new_gram = np.ones(len(gram), np.bool_)
        new_gram[1:] = gram[1:] != gram[:-1]
        new = new_gram.copy()
        new[1:] |= text[1:] != text[:-1]
        repeat = place - np.maximum.accumulate(np.where(new, place, 0))
        number = np.cumsum(new_gram) - 1  # grams as 0, 1, 2, ...
        if repeat.any():
            key = number * (int(repeat.max()) + 1) + repeat
            order = np.argsort(key, kind="stable")
            text, gram, key = text[order], gram[order], key[order]
            new_gram[1:] = key[1:] != key[:-1]
            number = np.cumsum(new_gram) - 1
        self._text, self._gram, self._number = text, gram, number

    def below(self, limit: int) -> int:
        """How many occurrences have an n-gram number under the limit."""
        return int(np.searchsorted(self._gram, limit))

    def matches(self, lower: int, upper: int, hypotheses: int) -> Floats:
        """Features shared by each hypothesis and reference, among the occurrences from lower to upper."""
        first = hypotheses if self._texts > hypotheses else 0
        result = np.zeros((hypotheses, self._texts - first), np.float32)
        if lower == upper:
            return result
        text = self._text[lower:upper]
        number = self._number[lower:upper] - self._number[lower]
        total = int(number[-1]) + 1
        width = max(BLOCK_CELLS // self._texts, 1)
        for left in range(0, total, width):
            inside = slice(*np.searchsorted(number, [left, left + width]))
            block = np.zeros((self._texts, min(width, total - left)), np.float32)
            block[text[inside], number[inside] - left] = 1
            result += block[:hypotheses] @ block[first:].T
        return result


def tokenised(texts: Sequence[str], tokenizer: Callable[[str], str]) -> list[list[str]]:
    """Words of each text as a sacrebleu tokenizer splits it."""
    return [tokenizer(text.rstrip()).split() for text in texts]


def stacked(hypotheses: Sequence[str], references: Sequence[str]) -> list[str]:
    """Hypotheses, then references unless they are the same list."""
    return list(hypotheses) if references is hypotheses else list(chain(hypotheses, references))
