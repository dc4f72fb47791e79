"""Many conversations with a strategy at once, their requests pooled.

Each candidate list of a window talks with the strategy on its own; what all of them ask in one round is scored in
one call, so that batches are full even where a single list asks for little.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import cast

import numpy as np
from numpy.typing import NDArray

from candidates.errors import MbrError, ModelError
from candidates.lists import CandidateList
from mbr.strategies import Conversation, Outcome
from mbr.utilities import MatrixUtility, PairUtility, Utility


def hold(talks: Mapping[int, Talk], utility: Utility) -> Iterator[tuple[int, Talk]]:
    """Pool what all conversations ask, score it, answer each, until all have ended; yield each as it ends."""
    going = dict(talks)
    while going:
        waiting = list(going.values())
        for talk, scores in zip(waiting, _score(waiting, utility), strict=True):
            talk.answer(scores)
        for place in [place for place, talk in going.items() if talk.finished]:
            yield place, going.pop(place)


def _score(talks: Sequence[Talk], utility: Utility) -> list[NDArray[np.float32]]:
    if isinstance(utility, MatrixUtility):
        return [_matrix(talk, utility)[tuple(talk.asked.T)] for talk in talks]
    scores = cast(PairUtility, utility).score_pairs(list(chain.from_iterable(talk.triples() for talk in talks)))
    ends = np.cumsum([len(talk.asked) for talk in talks])
    if np.shape(scores) != (ends[-1],):
        raise ModelError(f"utility {utility.name!r} returned scores {np.shape(scores)} for {ends[-1]} pairs")
    return np.split(np.asarray(scores, np.float32), ends[:-1])


def _matrix(talk: Talk, utility: MatrixUtility) -> NDArray[np.float32]:
    """All utilities of a list, computed when it first asks for some."""
    texts = talk.item.texts
    if talk.matrix is None:
        talk.matrix = np.asarray(utility.matrix(talk.item.source, texts, texts), np.float32)
    if talk.matrix.shape != (len(texts), len(texts)):
        raise ModelError(f"utility {utility.name!r} returned a matrix {talk.matrix.shape} for {len(texts)} candidates")
    return talk.matrix


class Talk:
    """One list's conversation with the strategy: what it asks, what it was told, how it ended."""

    def __init__(
        self,
        item: CandidateList,
        weights: NDArray[np.float64],
        conversation: Conversation,
        prior: NDArray[np.float64] | None = None,
    ) -> None:
        self.item = item
        self.weights = weights
        self._prior = prior
        self.passes = 0
        self.outcome: Outcome | None = None
        self.error: MbrError | None = None
        self.matrix: NDArray[np.float32] | None = None
        self._conversation = conversation
        self.asked = next(conversation)

    @property
    def finished(self) -> bool:
        return self.outcome is not None or self.error is not None

    def triples(self) -> Iterator[tuple[str, str, str]]:
        texts, source = self.item.texts, self.item.source
        return ((source, texts[i], texts[j]) for i, j in self.asked.tolist())

    def answer(self, scores: NDArray[np.float32]) -> None:
        """A score that is not a number ends the conversation: it must never enter a decision."""
        self.passes += len(self.asked)
        bad = np.flatnonzero(~np.isfinite(scores))
        if len(bad):
            i, j = self.asked[bad[0]]
            self.error = ModelError(
                f"segment {self.item.id!r}: the utility returned {scores[bad[0]]} for candidates {i + 1} and {j + 1} "
                f"({len(bad)} of {len(scores)} scores are not finite); use --on-error fallback to go on without it"
            )
            return
        if self._prior is not None:
            first, second = self.asked.T
            scores = scores + (self._prior[first] - self._prior[second]).astype(np.float32)
        try:
            self.asked = self._conversation.send(scores)
        except StopIteration as end:
            self.outcome = end.value
