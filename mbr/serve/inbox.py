"""The door of the scheduler, open to any thread: requests are admitted, joined or refused, and wait here.

Admission goes by estimated tokens of everything that is not finished, and by the seconds that these take at the speed
of their recipe, measured when the service warmed up and ever since, so that a queue is as short on a slow machine as on
a quick one. A request equal to one under way waits for the same answer and costs nothing.
"""

from __future__ import annotations

import math
import threading
import time
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Future

from candidates.common.errors import MbrError, UsageError
from candidates.lists import CandidateList
from mbr.serve.jobs import Generation, Job, QueueFull, Request, Ticket, TooLarge, Unavailable
from mbr.serve.speed import Speeds
from mbr.serve.watch import Watch

LONGEST_RETRY = 60  # seconds
# Others do not wait for more of a long request than this many tokens: it takes turns (`mbr.serve.portions`).
LONG_TOKENS = 16_384


class Inbox:
    """Jobs that the scheduler's thread has not taken yet, and the account of all that is under way."""

    def __init__(self, max_queue_tokens: int, max_queue_seconds: float, watch: Watch) -> None:
        self.max_queue_tokens = max_queue_tokens
        self.max_queue_seconds = max_queue_seconds
        self._watch = watch
        self._changed = threading.Condition()
        self._fresh: list[Job] = []
        self._prepared: list[tuple[Job, CandidateList | MbrError]] = []
        self._by_key: dict[Hashable, Job] = {}
        self._generation: Generation | None = None
        self._retired: list[Generation] = []
        self._draining = False
        self._noticed = False
        self._tokens = 0
        self._ahead: Counter[str] = Counter()  # tokens that a new request waits for, by recipe
        self._jobs = 0
        self._speeds = Speeds()

    @property
    def generation(self) -> Generation | None:
        return self._generation

    @property
    def jobs(self) -> int:
        """How many are under way."""
        return self._jobs

    @property
    def tokens(self) -> int:
        """Estimated tokens of what is under way."""
        return self._tokens

    def submit(self, requests: Sequence[Request], prepare: Callable[[Job], None]) -> list[Ticket]:
        """Tickets for these requests, all or none. `prepare` receives the jobs whose lists must be made first.

        Raises:
            Unavailable: nothing is loaded yet, or no new work is taken any more.
            UsageError: a recipe is unknown.
            TooLarge, QueueFull: the work does not fit, ever or now.
        """
        with self._changed:
            generation = self._open_generation()
            for request in requests:
                if request.recipe not in generation.decoders:
                    raise UsageError(
                        f"{request.recipe!r} is not served; expected one of {', '.join(generation.decoders)}"
                    )
            keys = [_key(generation, request) for request in requests]
            self._admit([request for request, key in zip(requests, keys, strict=True) if key not in self._by_key])
            tickets = [
                self._enter(generation, request, key, prepare) for request, key in zip(requests, keys, strict=True)
            ]
            self._report()
            self._changed.notify()
        return tickets

    def prepared(self, job: Job, result: CandidateList | MbrError) -> None:
        """The list of a job that had none, or the reason why there is none."""
        with self._changed:
            self._prepared.append((job, result))
        self.notify()

    def take(self, wait: float | None) -> tuple[list[Job], list[tuple[Job, CandidateList | MbrError]]]:
        """New jobs, and prepared lists; without any, waits for a notice, or `wait` seconds (None: no limit)."""
        with self._changed:
            if not self._fresh and not self._noticed and (wait is None or wait > 0):
                self._changed.wait(wait)
            self._noticed = False
            fresh, self._fresh = self._fresh, []
            prepared, self._prepared = self._prepared, []
        return fresh, prepared

    def notify(self) -> None:
        """Something other than a new job: a cancelled ticket, new decoders, the end."""
        with self._changed:
            self._noticed = True
            self._changed.notify()

    def leave(self, job: Job) -> list[Ticket]:
        """A job has ended: its tokens are free, and requests like it are new work. Returns what waits for it."""
        with self._changed:
            self._forget_key(job)
            self._tokens -= job.request.tokens
            self._ahead[job.request.recipe] -= min(job.request.tokens, LONG_TOKENS)
            self._jobs -= 1
            job.generation.jobs -= 1
            self._report()
            return list(job.tickets)

    def drop(self, job: Job, ticket: Ticket) -> bool:
        """Take one caller's ticket off a job; returns whether that was the last one, so that none can join it now."""
        with self._changed:
            job.tickets.remove(ticket)
            if job.tickets:
                return False
            self._forget_key(job)
            return True

    def measured(self, recipe: str, tokens: int, seconds: float) -> None:
        """Estimated tokens that were done for requests of a recipe, and the seconds of computing that they took."""
        with self._changed:
            self._speeds.add(recipe, tokens, seconds)

    def replace(self, generation: Generation) -> None:
        """From now on requests get these decoders; the old ones are closed when their last job has ended."""
        with self._changed:
            if self._generation is not None:
                self._retired.append(self._generation)
            self._generation = generation
            self._speeds.update(generation.speeds)
        self.notify()

    def unused(self) -> list[Generation]:
        """Replaced decoders that no job needs any more; each is returned once."""
        if not self._retired:
            return []
        with self._changed:
            unused = [old for old in self._retired if not old.jobs]
            self._retired = [old for old in self._retired if old.jobs]
        return unused

    def drain(self) -> None:
        """Take no new work."""
        with self._changed:
            self._draining = True
        self.notify()

    def _open_generation(self) -> Generation:
        if self._draining:
            raise Unavailable("the service is ending; send the request to another instance")
        if self._generation is None:
            raise Unavailable("the models are being loaded; try again when /ready answers 200")
        return self._generation

    def _admit(self, new: Sequence[Request]) -> None:
        """Refuse requests that do not fit, ever or now."""
        tokens = sum(request.tokens for request in new)
        if tokens > self.max_queue_tokens:
            self._watch.dropped("too large")
            raise TooLarge(
                f"the request takes up to {tokens:,} tokens, and this service {self.max_queue_tokens:,} at once; send "
                "fewer or shorter candidates, use a strategy with fewer passes, or raise --max-queue-tokens"
            )
        wait = sum(self._speeds.seconds(recipe, ahead) for recipe, ahead in self._ahead.items())
        wait += sum(self._speeds.seconds(request.recipe, min(request.tokens, LONG_TOKENS)) for request in new)
        if self._jobs and (self._tokens + tokens > self.max_queue_tokens or wait > self.max_queue_seconds):
            self._watch.dropped("queue full")
            raise QueueFull(
                f"{self._tokens:,} tokens are under way, and the request takes up to {tokens:,}; with it the queue "
                f"would be {wait:.1f} s long; try again later",
                math.ceil(min(max(wait - self.max_queue_seconds, 1), LONGEST_RETRY)),
            )

    def _enter(self, generation: Generation, request: Request, key: Hashable, prepare: Callable[[Job], None]) -> Ticket:
        now = time.monotonic()
        deadline = None if request.timeout is None else now + request.timeout
        ticket = Ticket(Future(), deadline, self.notify)
        if key is not None and key in self._by_key:
            self._by_key[key].tickets.append(ticket)
            self._noticed = True  # its deadline may come before those of the others
            self._watch.joined()
            return ticket
        job = Job(request, generation, generation.decoders[request.recipe], now, key, [ticket])
        if key is not None:
            self._by_key[key] = job
        self._tokens += request.tokens
        self._ahead[request.recipe] += min(request.tokens, LONG_TOKENS)
        self._jobs += 1
        generation.jobs += 1
        job.candidates = request.candidates
        self._fresh.append(job)
        if request.prepare is not None:
            prepare(job)
        return ticket

    def _forget_key(self, job: Job) -> None:
        if job.key is not None and self._by_key.get(job.key) is job:
            del self._by_key[job.key]

    def _report(self) -> None:
        self._watch.queue(self._jobs, self._tokens)


def _key(generation: Generation, request: Request) -> Hashable:
    """Equal for requests with the same answer. One that may end early with its best so far has an answer of its own."""
    if request.on_deadline == "best":
        return None
    if request.candidates is None:
        return None if request.key is None else (id(generation), request.recipe, request.keep_matrix, request.key)
    item = request.candidates
    pairs = None if request.pairs is None else request.pairs.tobytes()
    content = (item.source, item.texts, item.counts, item.positions, item.logprobs, item.origin)
    return (id(generation), request.recipe, request.keep_matrix, pairs, content)
