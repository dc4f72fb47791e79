"""Matching n-grams of all pairs of texts at once, or of each text and the mean of all.

The clipped match count of two texts, sum over n-grams of min(count_a, count_b), is an inner product: write each
n-gram's k-th occurrence as a feature of its own, 1 if the text has it; then min(a, b) counts the features both have.
So all pairs are one matrix product per n-gram order, exact in float32 up to 2**24 matches. It is computed in square
tiles: all that is held of a large list is its n-grams and the result.
Complexity: O(T log T) for T tokens in all texts, then N * M * F multiplications for F distinct features.

Against the mean counts of all texts, only the n-grams a text has itself can match: O(T log T) for all texts together,
in memory of the size of one order's n-grams (Vamvas & Sennrich 2024).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mbr import matrix
from mbr.matrix import row_blocks
from mbr.utilities.means import LeftOutMean

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

# Features are handled in blocks so that a block of the indicator matrix stays near 16 MB.
BLOCK_CELLS = 4_000_000
LARGEST_KEY = 2**62


def character_ids(texts: Sequence[str]) -> list[Ints]:
    """Code points of each text, white space left out, as chrF counts them."""
    joined = ["".join(text.split()) for text in texts]
    return [np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32).astype(np.int64) for text in joined]


def word_ids(texts: Sequence[Sequence[str]]) -> list[Ints]:
    """A number for each distinct word of tokenised texts."""
    numbers: dict[str, int] = {}
    return [np.array([numbers.setdefault(word, len(numbers)) for word in text], np.int64) for text in texts]


def tokenised(texts: Sequence[str], tokenizer: Callable[[str], str]) -> list[list[str]]:
    """Words of each text as a sacrebleu tokenizer splits it."""
    return [tokenizer(text.rstrip()).split() for text in texts]


def stacked(hypotheses: Sequence[str], references: Sequence[str]) -> list[str]:
    """Hypotheses, then references unless they are the same list."""
    return list(hypotheses) if references is hypotheses else list(chain(hypotheses, references))


class Statistics(NamedTuple):
    """Counts of one order of n-grams: arrays that broadcast to the shape of the scores."""

    matches: NDArray[np.floating[Any]]
    in_hypothesis: Floats
    in_reference: Floats

    def swapped(self) -> Statistics:
        """With hypotheses as references, and the other way round."""
        return Statistics(self.matches.T, self.in_reference.T, self.in_hypothesis.T)


class PairMatches:
    """The n-grams of each order 1..orders, ready to be matched between hypotheses and references.

    `sequences` holds the hypotheses first, then the references; with as many sequences as hypotheses, the
    hypotheses are their own references.
    """

    def __init__(self, sequences: Sequence[Ints], hypotheses: int, orders: int) -> None:
        self.first = hypotheses if len(sequences) > hypotheses else 0  # reference
        self.shape = hypotheses, len(sequences) - self.first
        self._lengths = _lengths(sequences)
        self._features = [_features(entries) for entries in _orders(sequences, orders)]

    def statistics(self, rows: slice, columns: slice) -> Iterator[Statistics]:
        """For each order, the statistics of some hypotheses and some references [rows, columns]."""
        references = slice(self.first + columns.start, self.first + columns.stop)
        for order, features in enumerate(self._features, 1):
            counts = np.maximum(self._lengths - order + 1, 0)
            matches = _matches(features, len(self._lengths), rows, references)
            yield Statistics(matches, counts[rows, None], counts[None, references])


Score = Callable[[Iterable[Statistics], slice, slice], NDArray[np.float32]]


def all_pairs(kinds: Sequence[PairMatches], score: Score) -> NDArray[np.float32]:
    """Scores [hypotheses, references], tile by tile.

    `score` computes those of a tile from its statistics of all orders, its rows and its columns. Where hypotheses are
    their own references, a tile's matches serve for the tile across the diagonal too.
    """
    hypotheses, references = kinds[0].shape
    same = kinds[0].first == 0
    result = np.empty(kinds[0].shape, np.float32)
    for rows in _tiles(hypotheses):
        for columns in _tiles(references):
            if same and columns.start < rows.start:
                continue
            orders: Iterable[Statistics] = chain(*(kind.statistics(rows, columns) for kind in kinds))
            if same and columns != rows:
                orders = list(orders)
                result[columns, rows] = score([counts.swapped() for counts in orders], columns, rows)
            result[rows, columns] = score(orders, rows, columns)
    return result


def _tiles(count: int) -> list[slice]:
    return list(row_blocks(count, math.isqrt(matrix.BLOCK_CELLS)))


def mean_statistics(
    sequences: Sequence[Ints], weights: Floats, own_weights: Floats, orders: int
) -> Iterator[Statistics]:
    """For each order 1..orders, the statistics of each text [texts] against the weighted mean of all counts.

    Text i counts with its own weight in its own mean, the others with theirs.
    """
    lengths = _lengths(sequences)
    mean = LeftOutMean(weights, own_weights)
    for order, (text, gram, times) in enumerate(_orders(sequences, orders), 1):
        matched = np.minimum(times, mean.of_entries(text, gram, times.astype(np.float64)))
        counts = np.maximum(lengths - order + 1, 0)
        matches = np.bincount(text, matched, len(sequences)).astype(np.float64)
        yield Statistics(matches, counts, mean(counts))


def clipped_matches(
    sequences: Sequence[Ints], groups: Ints, slots: Ints, orders: int, *, merged: bool = False
) -> NDArray[np.float64]:
    """Matches [outputs, references, orders] of outputs with the references of their segment, of many segments at once.

    Of each text, `groups` has the segment, and `slots` which of its references it is, -1 for outputs. With `merged`
    the references of a segment are one [outputs, 1, orders], which has each n-gram as often as that of them with the
    most. O(T log T) for T tokens in all texts.
    """
    is_output = slots < 0
    row = np.cumsum(is_output) - 1
    count, references = int(is_output.sum()), int(slots.max(initial=-1)) + 1
    matches = np.zeros((count, 1 if merged else references, orders))
    for order, (text, gram, times) in enumerate(_orders(sequences, orders, groups)):
        own = is_output[text]
        expected = np.zeros((references, int(gram.max(initial=-1)) + 1), np.int64)
        expected[slots[text[~own]], gram[~own]] = times[~own]
        if merged:
            expected = expected.max(axis=0, keepdims=True)
        for slot, clipped in enumerate(np.minimum(times[own], expected[:, gram[own]])):
            matches[:, slot, order] = np.bincount(row[text[own]], clipped, count)
    return matches


class _Entries(NamedTuple):
    """Each (n-gram, text) once, by n-gram and then by text: arrays [entries]."""

    text: Ints
    gram: Ints  # n-grams as 0, 1, 2, ...
    times: Ints


def _lengths(sequences: Sequence[Ints]) -> Floats:
    return np.array([len(sequence) for sequence in sequences], np.float64)


def _orders(sequences: Sequence[Ints], orders: int, groups: Ints | None = None) -> Iterator[_Entries]:
    """The n-grams of each order 1..orders; in texts of different `groups` [texts] they are different ones.

    With digits 0..V-1 for the V distinct tokens, an n-gram is an n-digit number in base V; where such numbers would
    grow too large, they are renumbered. One sort of the numbers, each with its text in the low bits, counts them all.
    """
    lengths = np.array([len(sequence) for sequence in sequences], np.int64)
    tokens = np.concatenate([np.empty(0, np.int64), *sequences])
    text = np.repeat(np.arange(len(sequences)), lengths)
    remaining = np.repeat(np.cumsum(lengths), lengths) - np.arange(len(tokens))
    present = np.zeros(tokens.max(initial=-1) + 1, np.bool_)
    present[tokens] = True
    digits = (np.cumsum(present) - 1)[tokens]
    base = max(int(present.sum()), 1)
    text_bits = len(sequences).bit_length()
    key, start, largest = np.zeros(len(tokens), np.int64), np.arange(len(tokens)), 1
    if groups is not None:
        key, largest = groups[text], int(groups.max(initial=0)) + 1
    for order in range(1, orders + 1):
        longer = remaining[start] >= order
        start, key = start[longer], key[longer]
        if (largest * base) << text_bits >= LARGEST_KEY:
            distinct, key = np.unique(key, return_inverse=True)
            largest = len(distinct)
        key = key * base + digits[start + order - 1]
        largest *= base
        yield _counted((key << text_bits) | text[start], text_bits)


def _counted(occurrences: Ints, text_bits: int) -> _Entries:
    """Count equal numbers, which are an n-gram and, in the low bits, a text."""
    occurrences = np.sort(occurrences)
    new = np.ones(len(occurrences), np.bool_)
    new[1:] = occurrences[1:] != occurrences[:-1]
    start = np.flatnonzero(new)
    entry = occurrences[start]
    key = entry >> text_bits
    new_gram = np.zeros(len(key), np.int64)
    new_gram[1:] = key[1:] != key[:-1]
    return _Entries(
        text=entry & ((1 << text_bits) - 1),
        gram=np.cumsum(new_gram),
        times=np.diff(start, append=len(occurrences)),
    )


class _Features(NamedTuple):
    """Text and number of each feature a text has, by number: the k-th occurrence of an n-gram is one of its own."""

    text: Ints
    number: Ints


def _matches(features: _Features, texts: int, rows: slice, columns: slice) -> NDArray[np.float32]:
    """Features shared by some of the texts and others of them [rows, columns]."""
    result = np.zeros((rows.stop - rows.start, columns.stop - columns.start), np.float32)
    total = int(features.number[-1]) + 1 if len(features.number) else 0
    width = max(BLOCK_CELLS // max(texts, 1), 1)
    for left in range(0, total, width):
        inside = slice(*np.searchsorted(features.number, (left, left + width)))
        block = np.zeros((texts, min(width, total - left)), np.float32)
        block[features.text[inside], features.number[inside] - left] = 1
        result += block[rows] @ block[columns].T
    return result


def _features(entries: _Entries) -> _Features:
    text, gram, times = entries
    if len(times) == 0 or times.max() == 1:
        return _Features(text, gram)
    first = np.flatnonzero(np.diff(gram, prepend=-1))
    room = np.maximum.reduceat(times, first)  # features of each n-gram
    feature = np.repeat((np.cumsum(room) - room)[gram], times)
    repeat = np.arange(len(feature)) - np.repeat(np.cumsum(times) - times, times)
    number = feature + repeat
    order = np.argsort(number, kind="stable")
    return _Features(np.repeat(text, times)[order], number[order])
