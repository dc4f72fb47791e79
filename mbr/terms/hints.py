"""Cheap evidence on single candidates for the search: which of them are likely to be good, before any is compared.

A strategy that uses hints (`race`) learns in each list what they are worth, from the pairs it has scored. They guide
which pairs are compared and never enter the score.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from candidates.lists import CandidateList
from mbr.decide import ReferenceWeights
from mbr.terms.base import Values, word_count
from mbr.terms.logprob import LogProbability
from mbr.utilities.chrf import ChrF

LEAST = 16  # candidates: of fewer all are compared anyway


def hints_of(item: CandidateList, evidence: Iterable[Values], references: ReferenceWeights) -> Values | None:
    """Hints [N, kinds]: evidence that is there anyway, log-probabilities, words, and agreement with the list by chrF.

    Agreement is that with the mean of the list, in linear time.
    """
    if len(item) < LEAST:
        return None
    columns = list(evidence)
    (logprobs,) = LogProbability().values([item], references)
    if isinstance(logprobs, np.ndarray):
        columns.append(logprobs)
    columns.append(np.array([word_count(text) for text in item.texts]))
    columns.append(
        np.asarray(ChrF().aggregate(item.source, item.texts, references.of(item), references.own(item)), np.float64)
    )
    return np.column_stack(columns)
