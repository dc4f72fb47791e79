"""Jobs whose first stage and terms are being computed, a turn at a time, before their pairs are compared.

A turn ends after a portion of passes, or after some milliseconds. Young jobs have their turns first, in the order of
arrival, within the time of a round; one that has had several portions is long, and a single long job has a turn per
round, the one whose last turn was first. So small requests stay quick beside large ones, whatever their terms take, and
between two turns deadlines and clients that have gone are noticed.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from mbr.decide import Decision
from mbr.pool import OpenConversation
from mbr.serve.jobs import Job
from mbr.serve.portions import LONG, PORTION
from mbr.serve.work import started_in_portions

TURN_SECONDS = 0.05
ROUND_SECONDS = 0.1


class Starting:
    """Jobs that have begun and have no conversation yet, in the order of arrival.

    Args:
        started: receives a job with its conversation, or its decision where nothing needs scoring.
        failed: receives a job with what its terms raised.
        spent: receives a job, its passes and its seconds, after every turn.
        portion: passes of a turn, about.
    """

    def __init__(
        self,
        *,
        started: Callable[[Job, Decision | OpenConversation], None],
        failed: Callable[[Job, Exception], None],
        spent: Callable[[Job, int, float], None],
        portion: int = PORTION,
    ) -> None:
        self._started = started
        self._failed = failed
        self._spent = spent
        self._portion = portion
        self._jobs: dict[Job, int] = {}  # with the number of its last turn
        self._turns = 0
        self._round_ends = 0.0

    def __len__(self) -> int:
        return len(self._jobs)

    @property
    def young(self) -> list[Job]:
        """Jobs that have had few portions."""
        return [job for job in self._jobs if not self._is_long(job)]

    @property
    def has_time(self) -> bool:
        """Whether another job may have a turn in this round."""
        return time.perf_counter() < self._round_ends

    def begin(self, job: Job) -> None:
        """A job, with its first turn."""
        job.starting = started_in_portions(job, self._portion)
        self._jobs[job] = 0
        self._turn(job)

    def remove(self, job: Job) -> None:
        """A job that has ended; one that has left already is no error."""
        self._jobs.pop(job, None)
        if job.starting is not None:
            job.starting.close()
            job.starting = None

    def new_round(self) -> None:
        """A turn for the young jobs, as far as there is time, and for one of the long ones."""
        self._round_ends = time.perf_counter() + ROUND_SECONDS
        long = [job for job in self._jobs if self._is_long(job)]
        for place, job in enumerate(self.young):
            if place and not self.has_time:
                break
            self._turn(job)
        if long:
            self._turn(min(long, key=self._jobs.__getitem__))

    def _is_long(self, job: Job) -> bool:
        return job.starting_passes >= LONG * self._portion

    def _turn(self, job: Job) -> None:
        assert job.starting is not None
        self._turns += 1
        self._jobs[job] = self._turns
        passes, began = 0, time.perf_counter()
        result: Decision | OpenConversation | Exception | None = None
        try:
            while passes < self._portion and time.perf_counter() - began < TURN_SECONDS:
                passes += next(job.starting)
        except StopIteration as end:
            result = end.value
        except Exception as exc:
            result = exc
        job.starting_passes += passes
        self._spent(job, passes, time.perf_counter() - began)
        if result is None:
            return
        self.remove(job)
        if isinstance(result, Exception):
            self._failed(job, result)
        else:
            self._started(job, result)
