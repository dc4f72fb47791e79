"""A cheap first stage: of each list only the best few go on to the utility proper.

Its scores also serve strategy `race` as hints: how good a candidate is likely to be before it was compared.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from candidates.common.errors import MbrError
from candidates.lists import CandidateList
from mbr.decide import ReferenceWeights
from mbr.terms import Term

Scores = NDArray[np.float64]


@dataclass(frozen=True)
class Prefilter:
    """Keeps the best `keep` of each list by some score of every candidate, higher is better.

    `score` gives the scores [N] of each of some lists, or the reason why there are none. `settings` go into the
    signature, `notes` to the user.
    """

    name: str
    keep: int
    score: Callable[[Sequence[CandidateList]], list[Scores | MbrError]]
    settings: Mapping[str, object] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    # What scoring some lists takes, for --dry-run: `tokens` and `memory_bytes`, where there is a model.
    cost: Callable[[Sequence[CandidateList]], dict[str, Any]] = lambda lists: {}

    def best(self, scores: Scores) -> list[int]:
        """The places of the candidates kept, in the order of the list; ties to the earlier."""
        return sorted(np.argsort(-scores, kind="stable")[: self.keep].tolist())


def by_term(name: str, keep: int, term: Term, references: ReferenceWeights) -> Prefilter:
    """Keep the best by a term."""

    def score(lists: Sequence[CandidateList]) -> list[Scores | MbrError]:
        return term.values(lists, references)

    return Prefilter(name, keep, score, term.settings(), tuple(term.notes()), term.cost)
