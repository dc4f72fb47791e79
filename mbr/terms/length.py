"""The length of a candidate: with a positive weight longer ones gain, as the word bonus of statistical systems did."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from candidates.common.errors import MbrError
from candidates.lists import CandidateList
from mbr.decide import ReferenceWeights
from mbr.terms.base import Term, Values, word_count


class Length(Term):
    """Words of the candidate."""

    name = "length"
    summary = "words of the candidate"

    def values(self, lists: Sequence[CandidateList], references: ReferenceWeights) -> list[Values | MbrError]:
        return [np.array([word_count(text) for text in item.texts]) for item in lists]
