"""What a term is: evidence on single candidates, one number t(i) for each, known exactly before any pair is scored.

The score of a candidate is its expected utility plus the weighted terms, so a term never costs a strategy anything.
Subclass `Term`, give it a name, and register it (docs/terms.md).

    class Questions(Term):
        name = "questions"
        def values(self, lists, references):
            return [np.array([float(text.endswith("?")) for text in item.texts]) for item in lists]
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Generator, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from candidates.common.closing import Closing
from candidates.common.errors import MbrError
from candidates.lists import CandidateList
from mbr.decide import ReferenceWeights

if TYPE_CHECKING:
    from mbr.cache.scores import Memory

Values = NDArray[np.float64]


class Term(Closing, ABC):
    """One number per candidate. Options of the constructor are its options in a recipe."""

    name: str
    summary: ClassVar[str] = ""
    needs: ClassVar[str] = "nothing"
    # A judge of the same family flatters what this term chose.
    family: str = "other"
    # Whether to show a progress bar of its own while it scores.
    progress: bool = False
    # Holds scores of earlier runs, for terms whose scores are expensive (`mbr.cache.scores`).
    memory: Memory | None = None

    @abstractmethod
    def values(self, lists: Sequence[CandidateList], references: ReferenceWeights) -> list[Values | MbrError]:
        """t(i) [N] of the unique texts of each list, higher is better; or the reason why a list has none.

        Work is best pooled over the lists. `references` has what candidates count as pseudo-references.
        """

    def in_portions(
        self, item: CandidateList, references: ReferenceWeights, most: int
    ) -> Generator[int, None, Values | MbrError]:
        """`values` of one list in portions of about `most` passes of a model; yields the passes of each.

        A service answers other requests between them. The portions must have the bits of `values`, or nearly. Without
        this method the term of a list is one portion.
        """
        (values,) = self.values([item], references)
        yield self.passes(len(item))
        return values

    def passes(self, size: int) -> int:
        """Passes of a model for a list of this many candidates, by which a service estimates its work."""
        return 0

    def settings(self) -> dict[str, object]:
        """Everything of this term that may change a decision, for the signature."""
        return {}

    def notes(self) -> list[str]:
        """Messages for the user when it is loaded."""
        return []

    @property
    def on_gpu(self) -> bool:
        """Whether another device than the processor computes."""
        return False

    def cost(self, lists: Sequence[CandidateList]) -> dict[str, Any]:
        """What these lists would take, for --dry-run: `tokens`, and `memory_bytes` of the loaded model."""
        return {}


def word_count(text: str) -> float:
    """Words between spaces, but at least a sixth of the characters, which serves languages without spaces."""
    return max(float(len(text.split())), len(text) / 6)


def joined(batches: Iterable[Sequence[int]], most: int) -> Iterator[list[int]]:
    """Consecutive batches together, up to `most` places, but at least one batch."""
    portion: list[int] = []
    for batch in batches:
        if portion and len(portion) + len(batch) > most:
            yield portion
            portion = []
        portion.extend(batch)
    if portion:
        yield portion
