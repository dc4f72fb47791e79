"""The generator's own log-probability of a candidate, per word."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from candidates.common.errors import InputError, MbrError
from candidates.lists import CandidateList
from mbr.decide import ReferenceWeights
from mbr.terms.base import Term, Values, word_count

LOWEST = -1e6


class LogProbability(Term):
    """log p(candidate | source) divided by its words; two more count for the end of the sentence."""

    name = "logprob"
    summary = "the generator's log-probability per word"
    needs = "lists with log-probabilities"

    def values(self, lists: Sequence[CandidateList], references: ReferenceWeights) -> list[Values | MbrError]:
        return [self._of(item) for item in lists]

    def _of(self, item: CandidateList) -> Values | MbrError:
        if item.logprobs is None or None in item.logprobs:
            return InputError(
                f"segment {item.id!r}: logprob needs the log-probability of every candidate; give lists that have "
                "them, or do without it (--add logprob=0)"
            )
        words = np.array([word_count(text) + 2 for text in item.texts])
        return np.asarray(np.maximum(np.array(item.logprobs, np.float64), LOWEST) / words)
