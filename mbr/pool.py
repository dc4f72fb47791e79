"""Many open conversations with strategies, one model: their requests are scored together.

Conversations may join at any time (`add`) and be asked to end early (`stop`). Each `step` collects what the open ones
ask for, has the utility score it in one call, so that batches are full even where a single list asks for little,
gives every conversation its scores and returns the conversations that have ended. Nothing here knows of files or
windows: the batch pipeline, the service and Ray loop over the same pool.

    pool = Pool(utility)
    pool.add("first", conversation)
    while len(pool):
        for key, ended in pool.step():
            ...

One thread calls `step`; any thread may call `add` and `stop` meanwhile, which take effect in the next step.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Iterator, Sequence
from itertools import chain
from typing import Any, Generic, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from candidates.common.errors import MbrError, ModelError, UsageError
from candidates.lists import CandidateList
from mbr.cache.scores import Memory
from mbr.strategies import Ask, AskAll, AskEach, Conversation, Enough, Outcome
from mbr.utilities import MatrixUtility, PairUtility, QualityUtility, Utility

Scores = NDArray[np.float32]
Key = TypeVar("Key", bound=Hashable)


class OpenConversation:
    """One list's conversation with a strategy: what it asks for, the scores so far, how it ended.

    `candidates` are the texts being compared. After the end there is either an `outcome` or an `error`.
    """

    def __init__(self, candidates: CandidateList, conversation: Conversation) -> None:
        self.candidates = candidates
        self.passes = 0
        self.outcome: Outcome | None = None
        self.error: MbrError | None = None
        self.matrix: Scores | None = None  # of a utility that computes all pairs at once
        self._conversation = conversation
        self._scored: list[Scores] = []
        self._answers = 0
        self._order: NDArray[np.intp] | None = None  # in which the pairs of the present request are scored
        self._cuts: NDArray[np.intp] = np.empty(0, np.intp)  # where a batch ends in that order
        self.asked = Ask(np.empty((0, 2), np.intp))
        self._advance(lambda: next(conversation))

    @property
    def finished(self) -> bool:
        return self.outcome is not None or self.error is not None

    @property
    def waiting_pairs(self) -> NDArray[np.intp]:
        """The pairs of the present request that have no score yet, [pairs, 2]."""
        pairs = self.asked.pairs if self._order is None else self.asked.pairs[self._order]
        return pairs[self._received :]

    @property
    def answers(self) -> int:
        """How many requests have been answered; a conversation with none cannot be asked to decide."""
        return self._answers

    @property
    def arranged(self) -> bool:
        """Whether the present request has batches (`arrange`)."""
        return self._order is not None

    def arrange(self, batches: Sequence[NDArray[np.intp]]) -> None:
        """Score the present request in these batches of its pairs' places, one after the other.

        With the batches that the utility itself would make (`PairUtility.batches`), a request scored a batch at a time
        gets the bits it gets at once.

        Raises:
            UsageError: some of its pairs have scores already.
        """
        if self._received:
            raise UsageError("a request that is partly scored keeps the order of its pairs")
        self._order = np.concatenate(batches)
        self._cuts = np.cumsum([len(batch) for batch in batches])

    def whole_batches(self, most: int) -> int:
        """The number of next pairs that end with a batch: up to `most`, but at least one batch."""
        cuts = self._cuts[self._cuts > self._received] - self._received if self.arranged else np.empty(0, np.intp)
        if not len(cuts):
            return most
        return int(cuts[cuts <= most][-1:].sum() or cuts[0])

    @property
    def _received(self) -> int:
        return sum(map(len, self._scored))

    def triples(self, most: int | None = None) -> list[tuple[str, str, str]]:
        """The next pairs to score, as (source, hypothesis, pseudo-reference)."""
        texts, source = self.candidates.texts, self.candidates.source
        return [(source, texts[i], texts[j]) for i, j in self.waiting_pairs[:most].tolist()]

    def take(self, scores: Scores, why: Callable[[tuple[str, str, str]], str] = lambda triple: "") -> None:
        """Scores of the next waiting pairs; a request that is complete goes to the strategy.

        A score that is not a number ends the conversation with an error: it must never enter a decision. `why` gives
        the utility's reason for it, where there is one.
        """
        self.passes += len(scores)
        finite = np.isfinite(scores)
        if not finite.all():
            self.error = self._not_finite(scores, np.flatnonzero(~finite), why)
            return
        self._scored.append(scores)
        if self._received == self.asked.count:
            answer = self._scored[0] if len(self._scored) == 1 else np.concatenate(self._scored)
            if self._order is not None:
                answer = answer[np.argsort(self._order)]
            self._scored, self._order = [], None
            self._answers += 1
            self._advance(lambda: self._conversation.send(answer))

    def stop(self) -> None:
        """Have the strategy decide with the scores it has; an error where it has none or cannot."""
        if self.finished:
            return
        try:
            if not self._answers:
                raise Enough
            self._advance(lambda: self._conversation.throw(Enough()))
        except Enough:
            self._conversation.close()
            self.error = ModelError(
                f"segment {self.candidates.id!r}: ended before enough pairs were scored; give it more time or passes, "
                "or use a strategy that can decide at any time (race, halving, prune)"
            )
        if not self.finished:
            self._conversation.close()
            self.error = self._broken_strategy("went on asking when it should decide with the scores so far")

    def close(self) -> None:
        """End without an outcome or an error."""
        self._conversation.close()

    def fail(self, error: MbrError) -> None:
        """End with an error from outside, such as that of the utility; one that has ended already is left alone."""
        if not self.finished:
            self._conversation.close()
            self.error = error

    def _advance(self, resume: Callable[[], Ask]) -> None:
        """Let the strategy go on to its next request or its end.

        An error of its own ends the conversation, so that it is never resumed, and is raised.
        """
        try:
            self.asked = resume()
        except StopIteration as end:
            if isinstance(end.value, Outcome):
                self.outcome = end.value
            else:
                self.error = self._broken_strategy(f"returned {end.value!r:.60}, expected an Outcome")
        except Enough:
            raise
        except Exception as exc:
            self.error = self._broken_strategy(f"failed: {exc}")
            raise

    def _broken_strategy(self, why: str) -> ModelError:
        return ModelError(f"segment {self.candidates.id!r}: the strategy {why}; correct the strategy or use another")

    def _not_finite(
        self, scores: Scores, invalid: NDArray[np.intp], why: Callable[[tuple[str, str, str]], str]
    ) -> ModelError:
        first = int(invalid[0])
        i, j = (self.candidates.positions[place][0] + 1 for place in self.waiting_pairs[first])
        which = f"candidate {i}" if isinstance(self.asked, AskEach) else f"candidates {i} and {j}"
        reason = why(self.triples(first + 1)[first])
        what = f"no score of {which}: {reason}" if reason else f"the utility returned {scores[first]} for {which}"
        return ModelError(
            f"segment {self.candidates.id!r}: {what} ({len(invalid)} of {len(scores)} scores are not finite); "
            "use --on-error fallback to continue without it"
        )


# Pairs of each request that a step scores at most; None is all of them.
Portion = int | Callable[[OpenConversation], int] | None


class Pool(Generic[Key]):
    """Open conversations by key, and the utility that scores for all of them.

    A `memory` stands between pool and utility: scores that it holds are not computed again (`mbr.cache.scores`).
    """

    def __init__(self, utility: Utility, memory: Memory | None = None) -> None:
        self._utility = utility
        self._memory = memory
        self._open: dict[Key, OpenConversation] = {}
        self._stopping: set[Key] = set()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._open)

    def add(self, key: Key, conversation: OpenConversation) -> None:
        """From the next step on this conversation takes part."""
        with self._lock:
            if key in self._open:
                raise UsageError(f"a conversation with the key {key!r} is open already")
            self._open[key] = conversation

    def stop(self, key: Key) -> None:
        """The next step ends this conversation with the scores it has; one that has ended already is left alone."""
        with self._lock:
            if key in self._open:
                self._stopping.add(key)

    def remove(self, key: Key) -> None:
        """Take a conversation out without an end: its caller has gone. One that has left already is no error."""
        with self._lock:
            conversation = self._open.pop(key, None)
            self._stopping.discard(key)
        if conversation is not None:
            conversation.close()

    def open(self) -> list[tuple[Key, OpenConversation]]:
        """The conversations that take part now, in the order in which they joined."""
        with self._lock:
            return list(self._open.items())

    def step(
        self,
        choose: Callable[[Sequence[OpenConversation]], Sequence[OpenConversation]] | None = None,
        portion: Portion = None,
    ) -> list[tuple[Key, OpenConversation]]:
        """Score one round of requests; returns the conversations that have ended, which leave the pool.

        Args:
            choose: which of the open conversations to score for (default: all); if it returns none, all are stopped.
            portion: at most this many pairs of each request, so that a large one does not hold up the others; or a
                function that returns the number for each conversation.
        """
        self._end_stopped()
        waiting = [conversation for _, conversation in self.open() if not conversation.finished]
        if waiting:
            chosen = waiting if choose is None else choose(waiting)
            for conversation in () if chosen else waiting:
                conversation.stop()
            if chosen:
                self._score(chosen, portion)
        return self.collect()

    def collect(self) -> list[tuple[Key, OpenConversation]]:
        """The conversations that have ended, which leave the pool; `step` returns them too, unless it raises."""
        with self._lock:
            ended = [(key, conversation) for key, conversation in self._open.items() if conversation.finished]
            for key, _ in ended:
                del self._open[key]
                self._stopping.discard(key)
        return ended

    def _end_stopped(self) -> None:
        with self._lock:
            stopped = [self._open[key] for key in self._stopping if key in self._open]
            self._stopping.clear()
        for conversation in stopped:
            conversation.stop()

    def _score(self, conversations: Sequence[OpenConversation], portion: Portion) -> None:
        if isinstance(self._utility, MatrixUtility):
            scores = self._matrix_scores(conversations, self._utility)
        else:
            scores = self._pair_scores(conversations, portion)
        why = self._utility.why_missing if isinstance(self._utility, PairUtility) else lambda triple: ""
        for conversation, answer in zip(conversations, scores, strict=True):
            conversation.take(answer, why)

    def _pair_scores(self, conversations: Sequence[OpenConversation], portion: Portion) -> list[Scores]:
        requests = [
            conversation.triples(portion(conversation) if callable(portion) else portion)
            for conversation in conversations
        ]
        rows: list[Any] = list(chain.from_iterable(requests))
        compute: Any
        if isinstance(self._utility, QualityUtility):
            rows, compute = [(source, text) for source, text, _ in rows], self._utility.score_each
        else:
            compute = cast(PairUtility, self._utility).score_pairs
        scores = compute(rows) if self._memory is None else self._memory.score(rows, compute)
        if np.shape(scores) != (len(rows),):
            raise ModelError(f"utility {self._utility.name!r} returned scores {np.shape(scores)} for {len(rows)} pairs")
        return np.split(np.asarray(scores, np.float32), np.cumsum([len(request) for request in requests])[:-1])

    def _matrix_scores(self, conversations: Sequence[OpenConversation], utility: MatrixUtility) -> list[Scores]:
        fresh = [conversation for conversation in conversations if conversation.matrix is None]

        def compute(places: Sequence[int]) -> list[Scores]:
            opened = [fresh[place] for place in places]
            utility.prepare([(item.candidates.source, item.candidates.texts) for item in opened])
            return [_block(conversation, utility) for conversation in opened]

        blocks: list[Scores] = []
        if fresh:
            keys = [_depends_on(conversation) for conversation in fresh]
            blocks = compute(range(len(fresh))) if self._memory is None else self._memory.blocks(keys, compute)
        aggregates: dict[OpenConversation, Scores] = {}
        for conversation, block in zip(fresh, blocks, strict=True):
            if isinstance(conversation.asked, AskEach):
                aggregates[conversation] = block
            else:
                conversation.matrix = block
        return [aggregates[item] if item in aggregates else _cells(item) for item in conversations]


def _depends_on(conversation: OpenConversation) -> list[str]:
    """Everything that a list's matrix, or its scores against the mean, follow from."""
    key = [conversation.candidates.source, *conversation.candidates.texts]
    if isinstance(asked := conversation.asked, AskEach):
        key += [asked.weights.tobytes().hex(), asked.own_weights.tobytes().hex(), "aggregate"]
    return key


def _block(conversation: OpenConversation, utility: MatrixUtility) -> Scores:
    """All utilities of a list, or its scores against the mean of all pseudo-references."""
    candidates, asked = conversation.candidates, conversation.asked
    texts = candidates.texts
    if isinstance(asked, AskEach):
        scores = np.asarray(utility.aggregate(candidates.source, texts, asked.weights, asked.own_weights), np.float32)
        if scores.shape != (len(texts),):
            raise ModelError(f"utility {utility.name!r} returned scores {scores.shape} for {len(texts)} candidates")
        return scores
    matrix = np.asarray(utility.matrix(candidates.source, texts, texts), np.float32)
    if matrix.shape != (len(texts), len(texts)):
        raise ModelError(f"utility {utility.name!r} returned a matrix {matrix.shape} for {len(texts)} candidates")
    return matrix


def _cells(conversation: OpenConversation) -> Scores:
    assert conversation.matrix is not None
    if isinstance(conversation.asked, AskAll):
        return np.asarray(conversation.matrix[conversation.asked.wanted])
    return np.asarray(conversation.matrix[tuple(conversation.waiting_pairs.T)])


def until_all_end(pool: Pool[Key], total: int | None = None) -> Iterator[tuple[Key, OpenConversation]]:
    """Step until every conversation has ended; yields each as it ends. `total`: passes for all together."""
    budget = None if total is None else TotalBudget(total, [conversation for _, conversation in pool.open()])
    while len(pool):
        yield from pool.step(budget.choose if budget else None)


class TotalBudget:
    """Passes for all conversations together, spent where the regret to expect is largest.

    First every conversation's first request is met, then in turn those with the largest expected regret are, about a
    portion of passes at a time, until the rest is not enough for any; then all decide with what they have.
    Conversations that had twice the fair share come last: what is hard after that many passes is likely to stay so.
    """

    GENEROUS = 2  # times the fair share
    PORTIONS = 32  # the budget is spent in this many, or in larger ones if these would be tiny
    LEAST_PORTION = 64

    def __init__(self, total: int, conversations: Sequence[OpenConversation]) -> None:
        least = sum(conversation.asked.count for conversation in conversations)
        if total < least:
            raise UsageError(
                f"a budget of {total} passes in all is too small: the first requests of these {len(conversations)} "
                f"lists take {least}"
            )
        self._left = total
        self._generous = self.GENEROUS * total / max(len(conversations), 1)
        self._portion = max(total // self.PORTIONS, self.LEAST_PORTION)

    def choose(self, conversations: Sequence[OpenConversation]) -> list[OpenConversation]:
        """Those to score next, as far as their requests fit; their passes are spent with this."""
        chosen: list[OpenConversation] = []
        room = self._left
        for conversation in sorted(conversations, key=self._priority):
            if conversation.asked.count <= room:
                room -= conversation.asked.count
                chosen.append(conversation)
            if self._left - room >= self._portion:
                break
        self._left = room
        return chosen

    def _priority(self, conversation: OpenConversation) -> tuple[bool, bool, float]:
        passes = conversation.passes
        return passes > 0, passes >= self._generous, -conversation.asked.regret
