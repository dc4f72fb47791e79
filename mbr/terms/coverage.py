"""Does the candidate say all of the source, and nothing else? A word-translation table knows enough to ask.

`coverage` is low where words of the source have no counterpart in the candidate, `coverage-back` where words of the
candidate have none in the source. The table is IBM model 1 (Brown et al. 1993), trained from parallel text in seconds
with `mbr-tune --parallel`; a list of 100 candidates takes a few milliseconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from candidates.common.errors import MbrError, ModelError
from candidates.lists import CandidateList
from mbr.decide import ReferenceWeights
from mbr.terms.base import Term, Values

# The languages are checked with the first lists: a table for them knows most of the words.
PROBED_WORDS = 50  # of the sources, before a verdict
PROBED_CANDIDATES = 4  # of each list
LEAST_KNOWN = 0.4  # share of the words of either side


class Coverage(Term):
    """Mean over the source's words of log p(word | words of the candidate, or none).

    `model`: a file that `mbr-tune --parallel` wrote, or the name of a bundled table.
    """

    name = "coverage"
    summary = "how well the candidate's words account for the source's"
    needs = "a word-translation table; en-de is bundled"
    family = "coverage"

    def __init__(self, *, model: str = "en-de") -> None:
        from mbr.alignment.table import load_table

        self._table = load_table(model)
        self._model = f"{Path(str(model).partition('@')[0]).name}@{self._table.revision}"
        self._probed: list[tuple[int, int, int, int]] | None = []  # None once the languages fit

    def settings(self) -> dict[str, object]:
        return {"model": self._model}

    def values(self, lists: Sequence[CandidateList], references: ReferenceWeights) -> list[Values | MbrError]:
        if self._probed is not None:
            self._check_languages(lists, self._probed)
        return [self._of(item) for item in lists]

    def _of(self, item: CandidateList) -> Values:
        return self._table.coverage(item.source, item.texts)

    def _check_languages(self, lists: Sequence[CandidateList], probed: list[tuple[int, int, int, int]]) -> None:
        """Raise ModelError where the table is for other languages, or for the other direction."""
        for item in lists:
            probed.append(self._table.known(item.source, item.texts[:PROBED_CANDIDATES]))
            known_of_source, of_source, known_of_candidates, of_candidates = np.sum(probed, axis=0).tolist()
            if of_source < PROBED_WORDS:
                continue
            if known_of_source < LEAST_KNOWN * of_source or known_of_candidates < LEAST_KNOWN * of_candidates:
                raise ModelError(
                    f"the word-translation table {self._model} does not fit the lists: it knows {known_of_source} of "
                    f"the first {of_source} words of the sources and {known_of_candidates} of {of_candidates} of the "
                    "candidates; give a table of their languages (--add-model "
                    f"{self.name}=FILE), which `mbr-tune --parallel pairs.tsv` trains"
                )
            self._probed = None
            return


class CoverageBack(Coverage):
    """Mean over the candidate's words of log p(word | words of the source, or none)."""

    name = "coverage-back"
    summary = "how well the source's words account for the candidate's"

    def _of(self, item: CandidateList) -> Values:
        return self._table.coverage_back(item.source, item.texts)
