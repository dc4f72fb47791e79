"""Sentence BLEU (Papineni et al. 2002) with sacrebleu's definition: 13a tokens, exp smoothing, effective order.

`aggregate` scores each text against one pseudo-reference that stands for the whole list: its n-gram counts and its
length are the weighted means of all (DeNero et al. 2009), in time linear in the number of texts.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from candidates.common.errors import EnvironmentProblem, UsageError
from mbr.utilities.base import MatrixUtility
from mbr.utilities.means import LeftOutMean
from mbr.utilities.ngrams import (
    Ints,
    PairMatches,
    Statistics,
    all_pairs,
    mean_statistics,
    stacked,
    tokenised,
    word_ids,
)

ORDER = 4


class Bleu(MatrixUtility):
    """Sentence BLEU, 0 to 100, as sacrebleu's `sentence_bleu`. `tokenize` is one of sacrebleu's tokenizers."""

    name = "bleu"
    summary = "sentence BLEU, as sacrebleu's"
    traits = ("lexical",)
    family = "lexical"

    def __init__(self, *, tokenize: str = "13a") -> None:
        from sacrebleu.metrics.bleu import BLEU

        if tokenize not in BLEU.TOKENIZERS:
            raise UsageError(f"tokenizer {tokenize!r} is unknown; sacrebleu has {', '.join(BLEU.TOKENIZERS)}")
        self._tokenize = tokenize
        try:
            self._tokenizer = BLEU(tokenize=tokenize).tokenizer
        except Exception as exc:  # libraries and downloads that some of sacrebleu's tokenizers need
            cause = " ".join(str(exc).split())  # some messages have several lines
            raise EnvironmentProblem(f"sacrebleu's tokenizer {tokenize!r} cannot be used here: {cause}") from exc

    def settings(self) -> dict[str, object]:
        return {"tokenize": self._tokenize}

    def matrix(self, source: str, hypotheses: Sequence[str], references: Sequence[str]) -> NDArray[np.float32]:
        sequences = self._sequences(stacked(hypotheses, references))
        lengths = _lengths(sequences)
        ours, theirs = lengths[: len(hypotheses), None], lengths[None, -len(references) :]
        matches = PairMatches(sequences, len(hypotheses), ORDER)
        return all_pairs([matches], lambda orders, rows, columns: bleu_score(orders, ours[rows], theirs[:, columns]))

    def aggregate(
        self,
        source: str,
        texts: Sequence[str],
        weights: NDArray[np.float64],
        own_weights: NDArray[np.float64],
    ) -> NDArray[np.float32]:
        """The score [texts] of each text against the weighted mean of all, itself with its own weight."""
        sequences = self._sequences(texts)
        lengths = _lengths(sequences)
        mean_lengths = LeftOutMean(weights, own_weights)(lengths)
        return bleu_score(mean_statistics(sequences, weights, own_weights, ORDER), lengths, mean_lengths)

    def _sequences(self, texts: Sequence[str]) -> list[Ints]:
        return word_ids(tokenised(texts, self._tokenizer))


def _lengths(sequences: Sequence[Ints]) -> NDArray[np.float64]:
    return np.array([len(sequence) for sequence in sequences], np.float64)


def bleu_score(
    orders: Iterable[Statistics], hypothesis_lengths: NDArray[np.float64], reference_lengths: NDArray[np.float64]
) -> NDArray[np.float32]:
    """BLEU from the matching n-grams of each order and the lengths of hypotheses and pseudo-references.

    The k-th order without a match counts as 2**-k matches. Matches with mean counts are fractions: less than that
    counts as none, so that a rare match is never worse than no match.
    """
    logs, halvings = np.zeros((2, 1))
    any_match = np.zeros(1, np.bool_)
    for matches, total, _ in orders:
        any_match = any_match | (matches > 0)
        missed = (matches < 0.5 ** (halvings + 1)) & (total > 0)
        halvings = halvings + missed
        numerator = np.where(missed, 0.5**halvings, matches)
        # An order longer than the hypothesis has no n-grams and does not count.
        logs = logs + np.where(total > 0, np.log(np.where(total > 0, numerator, 1) / np.maximum(total, 1)), 0)
    ratios = reference_lengths / np.maximum(hypothesis_lengths, 1)
    brevity = np.where(hypothesis_lengths < reference_lengths, 1 - ratios, 0)
    score = np.where(any_match, 100 * np.exp(brevity + logs / np.clip(hypothesis_lengths, 1, ORDER)), 0)
    return score.astype(np.float32)
