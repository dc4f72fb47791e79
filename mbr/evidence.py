"""Evidence on single candidates, before any pair is compared: the first stage, which keeps the best, and the terms.

`of` computes it for many lists together, so that batches of models are full; `in_portions` computes it for one list and
pauses after every few passes, so that a service can answer others, and end at a deadline. Both give the same numbers.

    evidence = Evidence(terms={"length": get_term("length")})
    evidence.of({0: Compared.all(CandidateList.of("A dog.", ["Ein Hund.", "Hund."]))})[0].terms["length"]
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from typing import cast

import numpy as np
from numpy.typing import NDArray

from candidates.common.errors import MbrError, ModelError
from candidates.lists import CandidateList
from mbr.compared import Compared
from mbr.decide import ReferenceWeights
from mbr.prefilter import Prefilter
from mbr.terms import Term

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class WeightedTerm:
    """A loaded term and its weight in the score."""

    term: Term
    weight: float


@dataclass(frozen=True)
class Gathered:
    """The evidence on one list: the candidates that are compared, terms by name, scores of the first stage."""

    compared: Compared
    terms: Mapping[str, Floats]
    first_stage: Floats | None = None


@dataclass(frozen=True)
class Failed:
    """A list without evidence, and the reason."""

    compared: Compared
    error: MbrError


@dataclass(frozen=True)
class Evidence:
    """The loaded terms of a recipe by name, and its first stage."""

    terms: Mapping[str, Term] = field(default_factory=dict)
    prefilter: Prefilter | None = None
    references: ReferenceWeights = field(default_factory=ReferenceWeights)

    def of(self, lists: Mapping[int, Compared]) -> dict[int, Gathered | Failed]:
        """The evidence on each list, by its key."""
        results: dict[int, Gathered | Failed] = {}
        gathered = {place: Gathered(compared, {}) for place, compared in lists.items()}
        if self.prefilter is not None and gathered:
            scored = self.prefilter.score([entry.compared.item for entry in gathered.values()])
            kept = [self._kept(entry, scores) for entry, scores in zip(gathered.values(), scored, strict=True)]
            gathered = _apart(dict(zip(gathered, kept, strict=True)), results)
        for name, term in self.terms.items():
            computed = term.values([entry.compared.item for entry in gathered.values()], self.references)
            added = [_added(entry, name, values) for entry, values in zip(gathered.values(), computed, strict=True)]
            gathered = _apart(dict(zip(gathered, added, strict=True)), results)
        return results | gathered

    def in_portions(self, compared: Compared, most: int) -> Generator[int, None, Gathered | Failed]:
        """The evidence on one list; yields the passes of every portion, of about `most` of them."""
        gathered: Gathered | Failed = Gathered(compared, {})
        if self.prefilter is not None:
            scores = yield from self.prefilter.in_portions(compared.item, most)
            gathered = self._kept(cast(Gathered, gathered), scores)
        for name, term in self.terms.items():
            if isinstance(gathered, Failed):
                break
            values = yield from term.in_portions(gathered.compared.item, self.references, most)
            gathered = _added(gathered, name, values)
        return gathered

    def _kept(self, entry: Gathered, scores: Floats | MbrError) -> Gathered | Failed:
        """What the first stage keeps, with its scores."""
        assert self.prefilter is not None
        item = entry.compared.item
        if isinstance(scores, MbrError):
            return Failed(entry.compared, scores)
        if scores.shape != (len(item),) or not np.isfinite(scores).all():
            reason = f"prefilter {self.prefilter.name} gave no finite score for every candidate"
            return Failed(entry.compared, ModelError(f"segment {item.id!r}: {reason}"))
        best = self.prefilter.best(scores)
        return Gathered(entry.compared.only(best), {}, scores[best])


def _added(entry: Gathered, name: str, values: Floats | MbrError) -> Gathered | Failed:
    """With a term. One that is no finite number for every candidate must never enter a decision."""
    item: CandidateList = entry.compared.item
    if isinstance(values, MbrError):
        return Failed(entry.compared, values)
    if np.shape(values) != (len(item),) or not np.isfinite(values).all():
        reason = f"the term {name} is not a finite number for every candidate"
        return Failed(entry.compared, ModelError(f"segment {item.id!r}: {reason}"))
    return Gathered(entry.compared, {**entry.terms, name: values}, entry.first_stage)


def _apart(entries: Mapping[int, Gathered | Failed], results: dict[int, Gathered | Failed]) -> dict[int, Gathered]:
    """The entries that have not failed; the others go into the results."""
    results.update({place: entry for place, entry in entries.items() if isinstance(entry, Failed)})
    return {place: entry for place, entry in entries.items() if isinstance(entry, Gathered)}
