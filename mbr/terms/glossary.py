"""Terms of a glossary: minus the number that the source demands and the candidate lacks (`mbr.glossary`)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from candidates.common.errors import MbrError
from candidates.lists import CandidateList
from mbr.decide import ReferenceWeights
from mbr.glossary import read_glossary
from mbr.terms.base import Term, Values


class Glossary(Term):
    """Minus the number of demanded terms that the candidate lacks."""

    name = "glossary"
    summary = "minus the glossary terms that the candidate lacks"
    needs = "a glossary (--glossary FILE.tsv)"

    def __init__(self, *, file: str) -> None:
        self._glossary = read_glossary(file)

    def settings(self) -> dict[str, object]:
        return {"digest": self._glossary.digest}

    def values(self, lists: Sequence[CandidateList], references: ReferenceWeights) -> list[Values | MbrError]:
        return [-np.array(self._glossary.missing(item.source, item.texts)[0], np.float64) for item in lists]
