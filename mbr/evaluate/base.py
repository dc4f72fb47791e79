"""What a judge is: texts in, statistics per segment out, and scores of summed statistics.

The bootstrap, the randomisation test and the cache need no more than that: BLEU, TER and chrF of a resample come from
summed counts, not from a mean of sentence scores; a neural judge's statistics are a score and a 1.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from candidates.common.closing import Closing

Row = tuple[str, ...]
Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class Judged:
    """Of each row: its statistics [rows, k], and whether it is longer than the judge's input [rows]."""

    statistics: Floats
    truncated: Flags


class Judge(Closing, ABC):
    """A judge that is ready to score. `identity` names everything that may change its scores."""

    identity: str
    columns: int  # how many statistics a row has
    # Networks score rows of similar length together; for others the order of segments is best.
    by_length = False
    # Whether the rows of each system are scored apart, so that its scores do not depend on the other systems.
    by_system = False
    # Rows scored at once where that must not depend on the machine's speed; None: as many as fit between commits.
    portion_rows: int | None = None

    @abstractmethod
    def rows(
        self, sources: Sequence[str] | None, outputs: Sequence[str], references: Sequence[Sequence[str]]
    ) -> list[Row]:
        """For each segment, all texts that its statistics depend on. `references` holds sets of them."""

    @abstractmethod
    def judge(self, rows: Sequence[Row]) -> Judged: ...

    @abstractmethod
    def scores(self, sums: Floats) -> Floats:
        """Scores [draws] of summed statistics [draws, k]."""

    @abstractmethod
    def system_score(self, statistics: Floats) -> float:
        """The score of a system, of the statistics [segments, k] of its segments."""

    @abstractmethod
    def segment_scores(self, statistics: Floats) -> Floats:
        """Scores [segments] of the single segments."""

    def notes(self) -> list[str]:
        """Notes for the user once it is loaded, such as a licence."""
        return []


class Composite(Judge):
    """A judge made of others, its `parts`: each judges its own rows, which the cache keeps under its own identity."""

    parts: tuple[Judge, ...]

    @abstractmethod
    def split(self, rows: Sequence[Row]) -> list[list[Row]]:
        """The rows of each part."""

    @abstractmethod
    def combine(self, rows: Sequence[Row], judged: Sequence[Judged]) -> Judged:
        """The statistics of these rows, from those of the rows of each part."""

    def judge(self, rows: Sequence[Row]) -> Judged:
        return self.combine(rows, [part.judge(some) for part, some in zip(self.parts, self.split(rows), strict=True)])

    def notes(self) -> list[str]:
        return [note for part in self.parts for note in part.notes()]

    def close(self) -> None:
        for part in self.parts:
            part.close()
