"""A cheap first stage: of each list only the best few go on to the utility proper.

Its scores also serve strategy `race` as hints: how good a candidate is likely to be before it was compared.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from candidates.common.errors import MbrError, UsageError
from candidates.lists import CandidateList

Scores = NDArray[np.float64]


@dataclass(frozen=True)
class Prefilter:
    """Keeps the best `keep` of each list by some score of every candidate, higher is better.

    `score` gives the scores [N] of each of some lists, or the reason why there are none. `settings` go into the
    signature, `notes` are for the user to hear.
    """

    name: str
    keep: int
    score: Callable[[Sequence[CandidateList]], list[Scores | MbrError]]
    settings: Mapping[str, object] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    # What scoring some lists takes, for --dry-run: `tokens` and `memory_bytes`, where there is a model.
    cost: Callable[[Sequence[CandidateList]], dict[str, Any]] = lambda items: {}

    def best(self, scores: Scores) -> list[int]:
        """The places of those kept, in the order of the list; ties to the earlier."""
        return sorted(np.argsort(-scores, kind="stable")[: self.keep].tolist())


def parse_prefilter(text: str) -> tuple[str, int]:
    """`chrf:30` -> the name and how many to keep."""
    name, _, keep = text.rpartition(":")
    if not name or not keep.isdecimal() or int(keep) < 2:
        raise UsageError(f"prefilter {text!r}: expected NAME:K with K from 2 on, such as chrf:30 or logprob:50")
    return name, int(keep)
