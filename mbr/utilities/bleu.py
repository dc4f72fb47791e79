"""Sentence BLEU (Papineni et al. 2002) with sacrebleu's definition: 13a tokens, exp smoothing, effective order."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from candidates.errors import EnvironmentProblem, UsageError
from mbr.utilities.base import MatrixUtility
from mbr.utilities.ngrams import match_statistics, stacked, tokenised, word_ids

ORDER = 4


class Bleu(MatrixUtility):
    """Sentence BLEU, 0 to 100, as sacrebleu's `sentence_bleu`. `tokenize` is one of sacrebleu's tokenizers."""

    name = "bleu"
    summary = "sentence BLEU, as sacrebleu's"
    traits = ("lexical",)

    def __init__(self, *, tokenize: str = "13a") -> None:
        from sacrebleu.metrics.bleu import BLEU

        if tokenize not in BLEU.TOKENIZERS:
            raise UsageError(f"tokenizer {tokenize!r} is unknown; sacrebleu has {', '.join(BLEU.TOKENIZERS)}")
        self._tokenize = tokenize
        try:
            self._tokenizer = BLEU(tokenize=tokenize).tokenizer
        except Exception as exc:  # libraries and downloads that some of sacrebleu's tokenizers want
            raise EnvironmentProblem(f"sacrebleu's tokenizer {tokenize!r} cannot be used here: {exc}") from exc

    def settings(self) -> dict[str, object]:
        return {"tok": self._tokenize}

    def matrix(self, source: str, hypotheses: Sequence[str], references: Sequence[str]) -> NDArray[np.float32]:
        sequences = word_ids(tokenised(stacked(hypotheses, references), self._tokenizer))
        lengths = np.array([len(sequence) for sequence in sequences], np.float64)
        found, expected = lengths[: len(hypotheses), None], lengths[None, -len(references) :]
        shape = (len(hypotheses), len(references))
        logs, halvings = np.zeros(shape), np.zeros(shape)
        any_match = np.zeros(shape, np.bool_)
        for matches, counts in match_statistics(sequences, len(hypotheses), ORDER):
            total = counts[: len(hypotheses), None]
            any_match |= matches > 0
            missed = (matches == 0) & (total > 0)
            halvings += missed
            numerator = np.where(missed, 0.5**halvings, matches)
            # An order longer than the hypothesis has no n-grams and does not count.
            logs += np.where(total > 0, np.log(np.maximum(numerator, 1e-300) / np.maximum(total, 1)), 0)
        effective = np.clip(found, 1, ORDER)
        brevity = np.where(found < expected, 1 - expected / np.maximum(found, 1), 0)
        score = np.where(any_match, 100 * np.exp(brevity + logs / effective), 0)
        return score.astype(np.float32)
