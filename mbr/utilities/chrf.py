"""chrF: F-score of character n-grams (Popović 2015), with sacrebleu's definition and defaults.

Order 6, beta 2, white space ignored, effective order. All pairs of a list from one pass over its texts.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from mbr.utilities.base import MatrixUtility
from mbr.utilities.ngrams import character_ids, match_statistics, stacked

ORDER = 6
BETA = 2


class ChrF(MatrixUtility):
    """Sentence chrF, 0 to 100, as sacrebleu's `sentence_chrf`."""

    name = "chrf"
    summary = "character n-gram F-score, as sacrebleu's chrF2"
    traits = ("lexical",)

    def matrix(self, source: str, hypotheses: Sequence[str], references: Sequence[str]) -> NDArray[np.float32]:
        sequences = character_ids(stacked(hypotheses, references))
        shape = (len(hypotheses), len(references))
        precision, recall, effective = np.zeros(shape), np.zeros(shape), np.zeros(shape)
        for matches, counts in match_statistics(sequences, len(hypotheses), ORDER):
            found, expected = counts[: len(hypotheses), None], counts[None, -len(references) :]
            both = (found > 0) & (expected > 0)
            effective += both
            precision += np.where(both, matches / np.maximum(found, 1), 0)
            recall += np.where(both, matches / np.maximum(expected, 1), 0)
        precision /= np.maximum(effective, 1)
        recall /= np.maximum(effective, 1)
        weighted = BETA**2 * precision + recall
        score = (1 + BETA**2) * precision * recall / np.where(weighted > 0, weighted, 1)
        return (100 * score).astype(np.float32)
