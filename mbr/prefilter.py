"""A cheap first stage: of each list only the best few go on to the utility proper.

Its scores also serve strategy `race` as hints: how good a candidate is likely to be before it was compared.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from candidates.common.errors import MbrError
from candidates.lists import CandidateList
from mbr.decide import ReferenceWeights
from mbr.terms import Term

Scores = NDArray[np.float64]
# Yields the passes of every portion, and returns the scores, or the reason why there are none.
ScorePortions = Generator[int, None, Scores | MbrError]


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
    # For a service: the passes of a model for a number of candidates, and the scores of a list in portions of about a
    # number of passes; where there are no portions, a list is scored at once.
    passes: Callable[[int], int] = lambda size: 0
    portions: Callable[[CandidateList, int], ScorePortions] | None = None

    def in_portions(self, item: CandidateList, most: int) -> ScorePortions:
        """The scores of one list; yields the passes of every portion."""
        if self.portions is not None:
            return (yield from self.portions(item, most))
        (scores,) = self.score([item])
        yield self.passes(len(item))
        return scores

    def best(self, scores: Scores) -> list[int]:
        """The places of the candidates kept, in the order of the list; ties to the earlier."""
        return sorted(np.argsort(-scores, kind="stable")[: self.keep].tolist())


def by_term(name: str, keep: int, term: Term, references: ReferenceWeights) -> Prefilter:
    """Keep the best by a term."""

    def score(lists: Sequence[CandidateList]) -> list[Scores | MbrError]:
        return term.values(lists, references)

    def portions(item: CandidateList, most: int) -> ScorePortions:
        return term.in_portions(item, references, most)

    return Prefilter(name, keep, score, term.settings(), tuple(term.notes()), term.cost, term.passes, portions)
