"""Which candidates of a list are compared: the ones that guards and a first stage leave, by their places in the list.

Everything after sees only `item`, the shorter list; a decision speaks of the whole one, so places and values are
translated back here and nowhere else.

>>> from candidates import CandidateList
>>> whole = Compared.all(CandidateList.of("A dog.", ["Ein", "Ein Hund.", "Der Hund."]))
>>> shorter = whole.only([1, 2])
>>> shorter.item.texts, shorter.places([1, 0]), shorter.spread(np.array([5.0, 7.0]))
(('Ein Hund.', 'Der Hund.'), (2, 1), array([nan,  5.,  7.]))
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from candidates.lists import CandidateList
from mbr.guards import Guards, Verdict

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Compared:
    """A list as it came, the places of the candidates compared, and the guards' verdict on all of them."""

    listed: CandidateList
    kept: tuple[int, ...]
    item: CandidateList
    verdict: Verdict = field(default_factory=lambda: Verdict(()))

    @classmethod
    def all(cls, listed: CandidateList) -> Compared:
        return cls(listed, tuple(range(len(listed))), listed)

    @classmethod
    def guarded(cls, listed: CandidateList, guards: Guards) -> Compared:
        """The candidates that guards leave."""
        verdict = guards.judge(listed.source, listed.texts)
        return replace(cls.all(listed).only(verdict.places), verdict=verdict)

    def only(self, places: Sequence[int]) -> Compared:
        """Some of the candidates compared, by their places among them."""
        if len(places) == len(self.kept):
            return self
        return replace(self, kept=self.places(places), item=self.item.take(places))

    def places(self, ranking: Sequence[int]) -> tuple[int, ...]:
        """Places in the whole list."""
        return tuple(self.kept[place] for place in ranking)

    def spread(self, values: Floats) -> Floats:
        """Values of those compared over the whole list; NaN for the others."""
        if len(self.kept) == len(self.listed):
            return values
        whole = np.full(len(self.listed), np.nan)
        whole[list(self.kept)] = values
        return whole

    def flags(self, place: int) -> tuple[str, ...]:
        """`guard:NAME` for every rule that the candidate compared at this place breaks."""
        return self.verdict.flags(self.kept[place])
