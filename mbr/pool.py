"""Many conversations with a strategy at once, their requests pooled.

Each candidate list of a window talks with the strategy on its own; what all of them ask in one round is scored in
one call, so that batches are full even where a single list asks for little.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from candidates.common.errors import MbrError, ModelError, UsageError
from candidates.lists import CandidateList
from mbr.cache.scores import Memory
from mbr.strategies import Ask, AskEach, Conversation, Enough, Outcome
from mbr.utilities import MatrixUtility, PairUtility, QualityUtility, Utility
from mbr.utilities.means import LeftOutMean

PLENTY = 2  # times the fair share
PORTIONS = 32  # in so many a budget for all lists is spent, or in larger ones if these would be tiny
LEAST_PORTION = 64


def hold(
    talks: Mapping[int, Talk], utility: Utility, total: int | None = None, memory: Memory | None = None
) -> Iterator[tuple[int, Talk]]:
    """Pool what conversations ask, score it, answer each, until all have ended; yield each as it ends.

    With `total`, at most so many passes are made: first everybody's first request is met, then in turn those with the
    largest regret to expect are (whoever had twice the fair share waits for the others), until what is left is not
    enough for any; then all decide with what they have. With a `memory`, what it knows is not computed again.
    """
    going = dict(talks)
    plenty, portion = 0.0, 0
    if total is not None:
        _check_total(total, list(going.values()))
        plenty = PLENTY * total / max(len(going), 1)
        portion = max(total // PORTIONS, LEAST_PORTION)
    while going:
        waiting = list(going.values()) if total is None else _most_needy(going.values(), total, plenty, portion)
        for talk in [] if waiting else going.values():
            talk.stop()
        scores = _score(waiting, utility, memory) if waiting else []
        for talk, answer in zip(waiting, scores, strict=True):
            total = None if total is None else total - len(answer)
            talk.answer(answer)
        for place in [place for place, talk in going.items() if talk.finished]:
            yield place, going.pop(place)


def _check_total(total: int, talks: Sequence[Talk]) -> None:
    least = sum(len(talk.asked.pairs) for talk in talks)
    if total < least:
        raise UsageError(
            f"a budget of {total} passes in all is too small: a first look at these {len(talks)} lists takes {least}"
        )


def _most_needy(talks: Iterable[Talk], passes: int, plenty: float, portion: int) -> list[Talk]:
    """Those to go on, as far as their requests fit, together about one portion of passes.

    First looks come first, then the largest regrets; lists that had plenty are the last, because what is hard after
    so many passes is likely to stay so, and would eat up what helps the others.
    """
    chosen: list[Talk] = []
    room = passes
    for talk in sorted(talks, key=lambda talk: (talk.passes > 0, talk.passes >= plenty, -talk.asked.regret)):
        if len(talk.asked.pairs) <= room:
            room -= len(talk.asked.pairs)
            chosen.append(talk)
        if passes - room >= portion:
            break
    return chosen


def _score(talks: Sequence[Talk], utility: Utility, memory: Memory | None) -> list[NDArray[np.float32]]:
    if isinstance(utility, MatrixUtility):
        return _matrix_scores(talks, utility, memory)
    triples = chain.from_iterable(talk.triples() for talk in talks)
    rows: list[Any]
    compute: Any
    if isinstance(utility, QualityUtility):
        rows, compute = [(source, text) for source, text, _ in triples], utility.score_each
    else:
        rows, compute = list(triples), cast(PairUtility, utility).score_pairs
    scores = compute(rows) if memory is None else memory.score(rows, compute)
    ends = np.cumsum([len(talk.asked.pairs) for talk in talks])
    if np.shape(scores) != (ends[-1],):
        raise ModelError(f"utility {utility.name!r} returned scores {np.shape(scores)} for {ends[-1]} pairs")
    return np.split(np.asarray(scores, np.float32), ends[:-1])


def _matrix_scores(talks: Sequence[Talk], utility: MatrixUtility, memory: Memory | None) -> list[NDArray[np.float32]]:
    fresh = [talk for talk in talks if talk.matrix is None]

    def compute(places: Sequence[int]) -> list[NDArray[np.float32]]:
        some = [fresh[place] for place in places]
        utility.prepare([(talk.item.source, talk.item.texts) for talk in some])
        return [_block(talk, utility) for talk in some]

    blocks: list[NDArray[np.float32]] = []
    if fresh:
        keys = [_depends_on(talk) for talk in fresh]
        blocks = compute(range(len(fresh))) if memory is None else memory.blocks(keys, compute)
    aggregates = {}
    for talk, block in zip(fresh, blocks, strict=True):
        if isinstance(talk.asked, AskEach):
            aggregates[talk] = block
        else:
            talk.matrix = block
    return [aggregates[talk] if talk in aggregates else _cells(talk) for talk in talks]


def _depends_on(talk: Talk) -> list[str]:
    """All that a list's matrix, or its scores against the mean, follow from."""
    key = [talk.item.source, *talk.item.texts]
    if isinstance(talk.asked, AskEach):
        key += [talk.asked.weights.tobytes().hex(), talk.asked.own_weights.tobytes().hex(), "aggregate"]
    return key


def _block(talk: Talk, utility: MatrixUtility) -> NDArray[np.float32]:
    """All utilities of a list, or its scores against the mean of all pseudo-references."""
    texts, asked = talk.item.texts, talk.asked
    if isinstance(asked, AskEach):
        found = utility.aggregate(talk.item.source, texts, asked.weights, asked.own_weights)
        scores = np.asarray(found, np.float32)
        if scores.shape != (len(texts),):
            raise ModelError(f"utility {utility.name!r} returned scores {scores.shape} for {len(texts)} candidates")
        return scores
    matrix = np.asarray(utility.matrix(talk.item.source, texts, texts), np.float32)
    if matrix.shape != (len(texts), len(texts)):
        raise ModelError(f"utility {utility.name!r} returned a matrix {matrix.shape} for {len(texts)} candidates")
    return matrix


def _cells(talk: Talk) -> NDArray[np.float32]:
    assert talk.matrix is not None
    return np.asarray(talk.matrix[tuple(talk.asked.pairs.T)])


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
        return ((source, texts[i], texts[j]) for i, j in self.asked.pairs.tolist())

    def stop(self) -> None:
        """Have it decide with what it knows."""
        try:
            self._conversation.throw(Enough())
        except StopIteration as end:
            self.outcome = end.value
        else:
            raise RuntimeError("a strategy that was told to end went on asking")

    def answer(self, scores: NDArray[np.float32]) -> None:
        """A score that is not a number ends the conversation: it must never enter a decision."""
        pairs = self.asked.pairs
        self.passes += len(pairs)
        bad = np.flatnonzero(~np.isfinite(scores))
        if len(bad):
            i, j = (self.item.positions[place][0] + 1 for place in pairs[bad[0]])
            whom = f"candidate {i}" if isinstance(self.asked, AskEach) else f"candidates {i} and {j}"
            self.error = ModelError(
                f"segment {self.item.id!r}: the utility returned {scores[bad[0]]} for {whom} "
                f"({len(bad)} of {len(scores)} scores are not finite); use --on-error fallback to go on without it"
            )
            return
        if self._prior is not None:
            scores = scores + self._prior_of(self.asked).astype(np.float32)
        try:
            self.asked = self._conversation.send(scores)
        except StopIteration as end:
            self.outcome = end.value

    def _prior_of(self, asked: Ask) -> NDArray[np.float64]:
        """What the generator's opinion adds to each score: of the hypothesis minus of the other, or of their mean."""
        assert self._prior is not None
        first, second = asked.pairs.T
        if isinstance(asked, AskEach):
            return self._prior - LeftOutMean(asked.weights, asked.own_weights)(self._prior)
        return np.asarray(self._prior[first] - self._prior[second])
