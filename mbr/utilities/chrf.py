"""chrF: F-score of character n-grams (Popović 2015), and chrF++, which adds words and word pairs (Popović 2017).

sacrebleu's definition and defaults: order 6, beta 2, white space ignored, effective order. All pairs of a list from
one pass over its texts. `aggregate` scores each text against one pseudo-reference that stands for the whole list, its
n-gram counts the weighted mean of all (Vamvas & Sennrich 2024): time linear in the number of texts.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from string import punctuation
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from mbr.utilities.base import MatrixUtility
from mbr.utilities.ngrams import (
    Ints,
    PairMatches,
    Statistics,
    all_pairs,
    character_ids,
    mean_statistics,
    stacked,
    word_ids,
)

ORDER = 6
WORD_ORDER = 2
BETA = 2


class ChrF(MatrixUtility):
    """Sentence chrF, 0 to 100, as sacrebleu's `sentence_chrf`."""

    name = "chrf"
    summary = "character n-gram F-score, as sacrebleu's chrF2"
    traits = ("lexical",)
    family = "lexical"
    word_order: ClassVar[int] = 0

    def matrix(self, source: str, hypotheses: Sequence[str], references: Sequence[str]) -> NDArray[np.float32]:
        sequences = self._sequences(stacked(hypotheses, references))
        kinds = [PairMatches(ids, len(hypotheses), order) for ids, order in sequences]
        return all_pairs(kinds, lambda orders, rows, columns: f_score(orders))

    def aggregate(
        self,
        source: str,
        texts: Sequence[str],
        weights: NDArray[np.float64],
        own_weights: NDArray[np.float64],
    ) -> NDArray[np.float32]:
        """The score [texts] of each text against the weighted mean of all, itself with its own weight."""
        kinds = self._sequences(texts)
        return f_score(chain(*(mean_statistics(ids, weights, own_weights, order) for ids, order in kinds)))

    def _sequences(self, texts: Sequence[str]) -> list[tuple[list[Ints], int]]:
        """Sequences to count n-grams of, with their highest order: characters, and words for chrF++."""
        kinds = [(character_ids(texts), ORDER)]
        if self.word_order:
            kinds.append((word_ids([split_words(text) for text in texts]), self.word_order))
        return kinds


class ChrFpp(ChrF):
    """Sentence chrF++, 0 to 100, as sacrebleu's `sentence_chrf` with word order 2."""

    name = "chrf++"
    summary = "character and word n-gram F-score, as sacrebleu's chrF2++"
    word_order = WORD_ORDER


def split_words(text: str) -> list[str]:
    """Words as chrF++ counts them: one ASCII punctuation mark at the end is a word, or else one at the start."""
    words: list[str] = []
    for word in text.split():
        if len(word) > 1 and word[-1] in punctuation:
            words += (word[:-1], word[-1])
        elif len(word) > 1 and word[0] in punctuation:
            words += (word[0], word[1:])
        else:
            words.append(word)
    return words


def f_score(orders: Iterable[Statistics]) -> NDArray[np.float32]:
    """F-score of the mean precision and the mean recall over the orders of which both texts have n-grams."""
    precision, recall, effective = np.zeros((3, 1))
    for matches, in_hypothesis, in_reference in orders:
        both = (in_hypothesis > 0) & (in_reference > 0)
        effective = effective + both
        precision = precision + np.where(both, matches / np.where(in_hypothesis > 0, in_hypothesis, 1), 0)
        recall = recall + np.where(both, matches / np.where(in_reference > 0, in_reference, 1), 0)
    precision = precision / np.maximum(effective, 1)
    recall = recall / np.maximum(effective, 1)
    weighted = BETA**2 * precision + recall
    score = (1 + BETA**2) * precision * recall / np.where(weighted > 0, weighted, 1)
    return np.asarray(100 * score, np.float32)
