"""Which open conversations a step scores for, and how many pairs of each.

Young conversations come first, in the order of their arrival, until the step is full. One that has had several portions
is long: beside young ones only a single long conversation takes part, the one whose turn it is, with no more tokens
than they have. So small requests stay quick beside large ones, and large ones never stop. A conversation that is alone
is scored in the batches that the utility itself would make, and so gets the bits it gets in the library.
"""

from __future__ import annotations

from collections.abc import Sequence

from mbr.pipeline import portion_alone
from mbr.pool import OpenConversation
from mbr.serve.jobs import Job
from mbr.utilities import MatrixUtility, Utility

PORTION = 64  # pairs
STEP_TOKENS = 4096
LONG = 4  # portions after which a conversation is long
LEAST = 16  # pairs of a long conversation beside young ones


class Portions:
    """The plan of one step: `chosen` jobs, and pairs per conversation."""

    def __init__(
        self, utility: Utility, jobs: Sequence[Job], portion: int = PORTION, step_tokens: int = STEP_TOKENS
    ) -> None:
        self._utility = utility
        self._portion = portion
        self._step_tokens = step_tokens
        self._pairs: dict[OpenConversation, int] = {}
        self.chosen: list[Job] = []
        self.tokens = 0
        if len(jobs) == 1:
            self._add_alone(jobs[0])
        else:
            self._fill(jobs)

    def pairs(self, conversation: OpenConversation) -> int:
        """How many pairs of this conversation the step scores."""
        return self._pairs[conversation]

    def conversations(self, waiting: Sequence[OpenConversation]) -> list[OpenConversation]:
        """Those of the pool's conversations that take part, for `Pool.step`."""
        return [conversation for conversation in waiting if conversation in self._pairs]

    def _add_alone(self, job: Job) -> None:
        self._add(job, portion_alone(self._utility, _open(job), self._portion))

    def _fill(self, jobs: Sequence[Job]) -> None:
        young = [job for job in jobs if not is_long(job, self._portion)]
        long = sorted((job for job in jobs if is_long(job, self._portion)), key=lambda job: job.turn)
        for job in young:
            if self.tokens >= self._step_tokens:
                break
            self._add(job, self._portion)
        for job in long[:1] if young else long:
            if young:
                self._add(job, min(max(self.tokens // job.pair_tokens, LEAST), self._portion))
            elif self.tokens < self._step_tokens:
                self._add(job, self._portion)

    def _add(self, job: Job, most: int) -> None:
        conversation = _open(job)
        pairs = min(len(conversation.waiting_pairs), most)
        self._pairs[conversation] = pairs
        self.chosen.append(job)
        self.tokens += next_tokens(self._utility, job, pairs)


def is_long(job: Job, portion: int = PORTION) -> bool:
    """Whether a job has had its share of quick turns."""
    return _open(job).passes >= LONG * portion


def next_tokens(utility: Utility, job: Job, most: int = PORTION) -> int:
    """Tokens of the next portion of a job. A matrix is computed at once, with the first request."""
    conversation = _open(job)
    if isinstance(utility, MatrixUtility):
        return job.request.tokens if conversation.matrix is None else 0
    return min(len(conversation.waiting_pairs), most) * job.pair_tokens


def _open(job: Job) -> OpenConversation:
    assert job.conversation is not None
    return job.conversation
