"""One thread owns models and pools; requests of any number of callers are decided together. No web library here.

The loop: take new requests, drop those whose callers have gone, end those past their deadline, begin waiting ones first
come first served while a step has room, compute terms and score a portion of each in turn, answer. A step that raises
is repeated request by request, so that only the request that fails gets the error.

    with Scheduler(max_queue_tokens=400_000) as scheduler:
        scheduler.replace({"default": decoder})
        (ticket,) = scheduler.submit([Request("default", candidates)])
        print(ticket.future.result().decision.text)
"""

from __future__ import annotations

import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress

import numpy as np
from numpy.typing import NDArray

from candidates.common.closing import Closing
from candidates.common.errors import InputError, MbrError, UsageError
from candidates.lists import CandidateList
from mbr.decide import Decision
from mbr.pipeline import Decoder, ListConversation
from mbr.pool import OpenConversation, Pool
from mbr.serve.inbox import Inbox
from mbr.serve.jobs import Answer, Generation, Gone, Job, Request, Ticket, Unavailable
from mbr.serve.portions import PORTION, STEP_TOKENS, Portions, is_long, next_tokens
from mbr.serve.speed import Done
from mbr.serve.starting import Starting
from mbr.serve.tokens import pair_tokens, single_tokens
from mbr.serve.watch import Watch
from mbr.serve.work import as_error, cost, decoder_of, described, fallback_of, late
from mbr.utilities import Utility

MOST_OPEN = 256  # conversations of one pool
ENDED = "the service has ended before there was a decision"


class Scheduler(Closing):
    """Decides requests with the decoders of `replace`.

    Args:
        max_queue_tokens: estimated tokens that may be under way.
        max_queue_seconds: how long they may take, at the measured speed.
        portion: pairs of a request per step.
        step_tokens: tokens per step.
        fallback: whether the first candidate that the guards keep stands in where scoring fails.
        watch: receives what happens.
    """

    def __init__(
        self,
        *,
        max_queue_tokens: int,
        max_queue_seconds: float = 5.0,
        portion: int = PORTION,
        step_tokens: int = STEP_TOKENS,
        fallback: bool = False,
        watch: Watch | None = None,
    ) -> None:
        self._watch = watch or Watch()
        self._inbox = Inbox(max_queue_tokens, max_queue_seconds, self._watch)
        self._portion = portion
        self._step_tokens = step_tokens
        self._fallback = fallback
        self._pools: dict[int, tuple[Utility, Pool[Job]]] = {}
        self._jobs: dict[Job, None] = {}  # taken from the inbox and not ended, in the order of arrival
        self._waiting: deque[Job] = deque()  # with a list, not begun
        self._starting = Starting(started=self._start, failed=self._fail, spent=self._spend, portion=portion)
        self._turn = 0
        self._done = Done()
        self._stopping = threading.Event()
        self._to_prepare: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._threads = [
            threading.Thread(target=self._run, name="mbr-serve-models", daemon=True),
            threading.Thread(target=self._prepare, name="mbr-serve-translator", daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    @property
    def recipes(self) -> Mapping[str, Decoder]:
        """The decoders that requests get now, by name; empty until the first ones are loaded."""
        generation = self._inbox.generation
        return {} if generation is None else generation.decoders

    @property
    def jobs(self) -> int:
        """Requests under way."""
        return self._inbox.jobs

    @property
    def queue_tokens(self) -> int:
        """Estimated tokens of the requests under way."""
        return self._inbox.tokens

    def submit(self, requests: Sequence[Request]) -> list[Ticket]:
        """Tickets for these requests, all or none; may be called from any thread. Raises as `Inbox.submit`."""
        return self._inbox.submit(requests, self._to_prepare.put)

    def replace(
        self,
        decoders: Mapping[str, Decoder],
        close: Callable[[], None] = lambda: None,
        speeds: Mapping[str, tuple[float, float]] | None = None,
    ) -> None:
        """Decide new requests with these decoders. The old ones finish theirs, then their `close` is called.

        `speeds` by recipe: estimated tokens, and the seconds that they took (`mbr.serve.served`).
        """
        self._inbox.replace(Generation(dict(decoders), close, speeds or {}))

    def drain(self, seconds: float) -> int:
        """Take no new work and wait until all is answered; returns how many requests are left after `seconds`."""
        self._inbox.drain()
        end = time.monotonic() + seconds
        while self.jobs and time.monotonic() < end:
            time.sleep(0.02)
        return self.jobs

    def close(self) -> None:
        """End now: requests under way get `Unavailable`. Waits a moment for the threads."""
        self._inbox.drain()
        self._stopping.set()
        self._inbox.notify()
        self._to_prepare.put(None)
        for thread in self._threads:
            thread.join(2)
        if self.stuck:  # in a model that does not return: its callers still get an answer
            for ticket in [ticket for job in list(self._jobs) for ticket in tuple(job.tickets)]:
                ticket.fail(Unavailable(ENDED))

    @property
    def stuck(self) -> bool:
        """Whether a thread has not ended though the scheduler is closed: a model that does not return."""
        return self._stopping.is_set() and any(thread.is_alive() for thread in self._threads)

    # Everything below runs in the thread of the models, except for `_prepare`.

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self._round()
            except Exception as exc:  # a bug of ours must not end the service
                self._watch.error(described(exc))
                for job in list(self._jobs):
                    self._fail(job, exc)
        fresh, _ = self._inbox.take(0)
        for job in [*fresh, *self._jobs]:
            self._end(job, error=Unavailable(ENDED), reason="ending")
        if (generation := self._inbox.generation) is not None:
            generation.close()

    def _round(self) -> None:
        fresh, prepared = self._inbox.take(self._patience())
        for job in fresh:
            self._jobs[job] = None
            if job.candidates is not None:
                self._waiting.append(job)
        for job, result in prepared:
            if isinstance(result, CandidateList):
                job.candidates = result
                self._waiting.append(job)
            else:
                self._fail(job, result)
        self._end_cancelled_and_late()
        self._starting.new_round()
        self._begin_waiting()
        for utility, pool in list(self._pools.values()):
            if len(pool):
                self._step(utility, pool)
        for recipe, tokens, seconds in self._done.take():
            self._inbox.measured(recipe, tokens, seconds)
        for generation in self._inbox.unused():
            self._pools = {key: entry for key, entry in self._pools.items() if len(entry[1])}
            generation.close()

    def _patience(self) -> float | None:
        """How long the loop may sleep: not at all with work to do, else until the next deadline."""
        if self._waiting or len(self._starting) or any(len(pool) for _, pool in self._pools.values()):
            return 0
        deadlines = [t.deadline for job in self._jobs for t in tuple(job.tickets) if t.deadline is not None]
        return max(min(deadlines) - time.monotonic(), 0.001) if deadlines else None

    def _end_cancelled_and_late(self) -> None:
        now = time.monotonic()
        for job in list(self._jobs):
            for ticket in tuple(job.tickets):
                if ticket.cancelled:
                    self._watch.dropped("client gone")
                    self._take_off(job, ticket, Gone("the caller has gone"))
                elif ticket.deadline is not None and now >= ticket.deadline:
                    if job.request.on_deadline == "best":
                        self._decide_now(job)
                    else:
                        self._watch.dropped("deadline")
                        self._take_off(job, ticket, late(job))

    def _take_off(self, job: Job, ticket: Ticket, error: MbrError) -> None:
        last = self._inbox.drop(job, ticket)
        ticket.fail(error)
        if last:
            self._end(job)

    def _decide_now(self, job: Job) -> None:
        """At the deadline: the best so far; where there is none, the first candidate or an error."""
        job.stopped = True
        conversation = job.conversation
        if conversation is None or not conversation.answers or not job.decoder.strategy.anytime:
            self._fail(job, late(job))
            return
        with suppress(Exception):  # what the strategy raises is the conversation's error, too
            conversation.stop()
        self._pool(job.decoder)[1].remove(job)
        self._finish(job, conversation)

    def _begin_waiting(self) -> None:
        """Waiting jobs in their order, while the round has time and the next step has room for another young one."""
        while self._waiting and self._starting.has_time:
            job = self._waiting[0]
            if not job.ended:
                utility, pool = self._pool(job.decoder)
                open_jobs = [key for key, _ in pool.open()]
                young = [key for key in open_jobs if not is_long(key, self._portion)]
                tokens = sum(next_tokens(utility, key, self._portion) for key in young)
                tokens += sum(self._portion * key.pair_tokens for key in self._starting.young)
                if tokens >= self._step_tokens or len(open_jobs) + len(self._starting) >= MOST_OPEN:
                    return
                self._begin(job)
            self._waiting.popleft()

    def _begin(self, job: Job) -> None:
        assert job.candidates is not None
        job.began = time.monotonic()
        self._watch.began(job.began - job.submitted)
        source, texts = job.candidates.source, job.candidates.texts
        job.pair_tokens = max(pair_tokens(job.decoder, source, texts), 1)
        job.single_tokens = single_tokens(source, texts)
        self._starting.begin(job)

    def _start(self, job: Job, start: Decision | OpenConversation) -> None:
        """Terms are there: pairs are next, or nothing needs scoring."""
        if isinstance(start, Decision):
            self._end(job, decision=start)
        else:
            job.conversation = start
            self._pool(job.decoder)[1].add(job, start)

    def _spend(self, job: Job, passes: int, seconds: float) -> None:
        """A turn of a job's first stage and terms."""
        self._done.credit(job, passes * job.single_tokens)
        self._done.spend(job, seconds)

    def _step(self, utility: Utility, pool: Pool[Job]) -> None:
        plan = Portions(utility, [job for job, _ in pool.open()], self._portion, self._step_tokens)
        self._turn += 1
        rows = 0
        shares: dict[Job, float] = {}
        for job in plan.chosen:
            assert job.conversation is not None
            job.turn = self._turn
            rows += (pairs := plan.pairs(job.conversation))
            job.tokens += cost(utility, job.conversation, pairs)
            self._done.credit(job, pairs * job.pair_tokens)
            shares[job] = max(next_tokens(utility, job, pairs), 1)
        before, began = utility.work(), time.perf_counter()
        try:
            ended = pool.step(plan.conversations, plan.pairs)
        except Exception:
            ended = self._one_by_one(utility, pool, plan.chosen)
        for job, conversation in ended:
            self._finish(job, conversation)
        seconds, after = time.perf_counter() - began, utility.work()
        self._watch.step(rows, after.tokens - before.tokens, after.padding - before.padding, seconds)
        for job, share in shares.items():
            self._done.spend(job, seconds * share / sum(shares.values()))

    def _one_by_one(self, utility: Utility, pool: Pool[Job], jobs: Iterable[Job]) -> list[tuple[Job, OpenConversation]]:
        """The step again for each request by itself; a request that raises again has failed."""
        for job in jobs:
            conversation = job.conversation
            if conversation is None or conversation.finished:
                continue
            plan = Portions(utility, [job], self._portion, self._step_tokens)
            alone = Pool[Job](utility, job.decoder.memory)
            alone.add(job, conversation)
            try:
                alone.step(None, plan.pairs)
            except Exception as exc:
                if not isinstance(exc, MbrError):
                    self._watch.error(described(exc))
                conversation.fail(as_error(exc))
        return pool.collect()

    def _finish(self, job: Job, conversation: OpenConversation) -> None:
        try:
            if conversation.error is not None:
                raise conversation.error
            if job.request.pairs is not None:
                assert conversation.outcome is not None
                self._end(job, scores=conversation.outcome.values[0])
            else:
                assert isinstance(conversation, ListConversation)
                self._end(job, decision=decoder_of(job).finish(conversation))
        except Exception as exc:
            self._fail(job, late(job) if job.stopped else exc)

    def _fail(self, job: Job, exc: Exception) -> None:
        """No decision: a fallback stands in where that was agreed, or the caller gets the error.

        A request that is wrong by itself gets its error in any case, and so does one whose guards cannot be applied.
        """
        error = as_error(exc)
        agreed = self._fallback and not isinstance(error, (InputError, UsageError)) and job.request.pairs is None
        decision = None
        if agreed and job.candidates is not None:
            try:
                decision = fallback_of(job, error)
            except Exception as again:
                error = as_error(again)
        if decision is None:
            self._end(job, error=error, reason="deadline" if job.stopped else "failed")
        else:
            self._watch.fallback()
            self._end(job, decision=decision)

    def _end(
        self,
        job: Job,
        *,
        decision: Decision | None = None,
        scores: NDArray[np.float32] | None = None,
        error: MbrError | None = None,
        reason: str = "",
    ) -> None:
        """Answer all callers of a job, or none where they have gone, and forget it."""
        if job.ended:
            return
        job.ended = True
        self._jobs.pop(job, None)
        self._starting.remove(job)
        self._pool(job.decoder)[1].remove(job)
        now = time.monotonic()
        began = now if job.began is None else job.began
        answer = Answer(
            decision,
            scores,
            job.generation.signatures[job.request.recipe],
            partial=job.stopped,
            tokens=job.tokens,
            queue_seconds=began - job.submitted,
            inference_seconds=now - began,
        )
        if not job.stopped and (scores is not None or (decision is not None and decision.error is None)):
            self._done.credit(job, job.request.tokens)  # adaptive strategies end early
        if decision is not None:
            self._watch.ended(job.request.recipe, now - began, decision.passes)
            if job.stopped:
                self._watch.partial()
        for ticket in self._inbox.leave(job):
            if error is None:
                ticket.succeed(answer)
            else:
                self._watch.dropped(reason)
                ticket.fail(error)

    def _pool(self, decoder: Decoder) -> tuple[Utility, Pool[Job]]:
        """The pool of a decoder's utility, which all recipes with the same model share."""
        key = id(decoder.utility)
        if key not in self._pools:
            self._pools[key] = (decoder.utility, Pool[Job](decoder.utility, decoder.memory))
        return self._pools[key]

    def _prepare(self) -> None:
        """The other thread: makes the lists of requests that have none, one after the other."""
        while (job := self._to_prepare.get()) is not None:
            if job.ended or all(ticket.cancelled for ticket in tuple(job.tickets)):
                continue
            assert job.request.prepare is not None
            began = time.perf_counter()
            try:
                self._inbox.prepared(job, job.request.prepare())
            except Exception as exc:
                if not isinstance(exc, MbrError):
                    self._watch.error(described(exc))
                self._inbox.prepared(job, as_error(exc))
            self._inbox.measured(job.request.recipe, 0, time.perf_counter() - began)
