"""Windows of candidate lists to workers on a Ray cluster, decisions back in order.

The driver reads and cuts, workers decide, and the driver yields windows in the order of the input, so that whatever
writes them (journal, resume) need not know of the cluster. A worker that dies, alone or with its node, loses only what
it was computing: its windows go to the next free one, and another worker is started. The driver holds at most
`HELD_PER_WORKER` windows per worker.

Futures with callbacks into a queue, and no `ray.get` or `ray.wait`, keep signals working in the driver.

    with Session(ClusterOptions(workers=2)) as session:
        run = ClusterRun(session, plan)
        for decisions in run.windows(decoder, lists):
            ...
"""

from __future__ import annotations

import queue
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from candidates.common.errors import EnvironmentProblem, ResourceError
from candidates.common.version import __version__
from candidates.common.words import counted
from candidates.formats import Record
from mbr.decide import Decision
from mbr.opening import DecoderPlan
from mbr.pipeline import Decoder
from mbr.ray.session import Session
from mbr.ray.summary import Summary
from mbr.ray.worker import About, Decided, Failure, Worker, whole

IN_FLIGHT_PER_WORKER = 2  # so that a worker finds its next window waiting
HELD_PER_WORKER = 4  # in flight, or decided and waiting for an earlier one
MOST_DEATHS = 3  # of workers with the same window, before it counts as the cause
TICK = 0.2  # seconds between looks at the clock


@dataclass(eq=False)
class _Crew:
    """A worker, from the request to start it until its end; `about` once it is ready."""

    actor: Any
    about: About | None = None
    windows: deque[int] = field(default_factory=deque)  # in flight, oldest first


@dataclass(frozen=True)
class _Event:
    """A remote call has ended, with a result or an error; without a window it was the call that opens the decoder."""

    worker: _Crew
    window: int | None
    result: Any = None
    error: BaseException | None = None


class ClusterRun:
    """One run over the input: windows waiting, in flight and decided, and the workers that decide them."""

    def __init__(
        self, session: Session, plan: DecoderPlan, report: Callable[[str], None] = lambda message: None
    ) -> None:
        self._session = session
        self._plan = plan
        self._report = report
        self.summary = Summary()
        self._workers: list[_Crew] = []
        self._events: queue.SimpleQueue[_Event] = queue.SimpleQueue()
        self._windows: dict[int, list[Record]] = {}  # read and not yet yielded
        self._waiting: deque[int] = deque()  # given back by workers that died
        self._decided: dict[int, Decided | Failure] = {}
        self._deaths: dict[int, int] = {}
        self._read = self._yielded = 0
        self._ended = False
        self._reading_failed: Exception | None = None
        self._none_since = time.monotonic()  # when a worker was last ready

    def windows(self, decoder: Decoder, records: Iterable[Record]) -> Iterator[list[Decision]]:
        """Decisions in input order, a window at a time, as `decoder.windows` would yield them.

        Raises:
            EnvironmentProblem: no worker could be had within the patience, or one differs from the driver.
            ResourceError: a window whose workers died again and again.
        """
        cut = decoder.cut(records)
        self._signature = str(decoder.signature())
        self._none_since = time.monotonic()
        try:
            for _ in range(self._session.workers):
                self._start_worker()
            while not self._ended or self._windows:
                self._give_work(cut)
                if self._yielded in self._decided:
                    yield self._next()
                elif self._windows or not self._ended:
                    self._wait()
        finally:
            for worker in self._workers:
                self._session.kill(worker.actor)
            self._workers.clear()
        if self._reading_failed is not None:
            raise self._reading_failed

    def processes(self) -> list[int]:
        """The process ids of the workers that are ready, on their nodes."""
        return [worker.about.process for worker in self._workers if worker.about is not None]

    def _next(self) -> list[Decision]:
        result = self._decided.pop(self._yielded)
        window = self._windows.pop(self._yielded)
        self._yielded += 1
        if isinstance(result, Failure):
            raise result.error
        return whole(result, window)

    def _start_worker(self) -> None:
        worker = _Crew(self._session.actor(Worker, self._plan))
        self._workers.append(worker)
        self._follow(worker, None, worker.actor.open.remote())

    def _follow(self, worker: _Crew, window: int | None, reference: Any) -> None:
        """Have the outcome of a remote call put into the queue of events."""

        def done(future: Any) -> None:
            error = future.exception()
            self._events.put(_Event(worker, window, None if error else future.result(), error))

        reference.future().add_done_callback(done)

    def _give_work(self, cut: Iterator[list[Record]]) -> None:
        """Give every ready worker its windows, as far as few enough are held.

        A window that a worker died with is decided alone, because the result of a window before it may have been lost
        with that worker: only a death with one window shows which.
        """
        ready = [worker for worker in self._workers if worker.about is not None]
        for share in range(1, IN_FLIGHT_PER_WORKER + 1):  # first one for each, then a second
            for worker in ready:
                if len(worker.windows) >= share or any(number in self._deaths for number in worker.windows):
                    continue
                if (number := self._take(cut, len(ready), alone=not worker.windows)) is not None:
                    worker.windows.append(number)
                    self._follow(worker, number, worker.actor.decide.remote(self._windows[number]))

    def _take(self, cut: Iterator[list[Record]], workers: int, *, alone: bool) -> int | None:
        """The number of the next window to decide; None where there is none, or enough are held."""
        if self._waiting and alone:
            return self._waiting.popleft()
        if self._ended or len(self._windows) >= HELD_PER_WORKER * workers:
            return None
        window = None
        try:
            window = next(cut, None)
        except Exception as exc:  # raised when all that was read before it is decided, as in one process
            self._reading_failed = exc
        if window is None:
            self._ended = True
            return None
        self._windows[self._read] = window
        self._read += 1
        return self._read - 1

    def _wait(self) -> None:
        """Take in the next event; raise where no worker has been ready for too long."""
        try:
            event = self._events.get(timeout=TICK)
        except queue.Empty:
            event = None
        if event is not None and event.worker in self._workers:
            self._handle(event)
        if any(worker.about is not None for worker in self._workers):
            self._none_since = time.monotonic()
        elif time.monotonic() - self._none_since > self._session.options.patience:
            raise EnvironmentProblem(self._session.why_no_worker())

    def _handle(self, event: _Event) -> None:
        worker = event.worker
        if event.error is not None:
            if not self._session.is_death(event.error):
                raise event.error
            self._replace(worker)
        elif event.window is None:
            self._admit(worker, event.result)
        elif worker.about is not None:
            worker.windows.remove(event.window)
            self._decided[event.window] = event.result
            self.summary.decided(worker.about.node, event.result)

    def _admit(self, worker: _Crew, about: About | Failure) -> None:
        """A worker is ready: from now on it gets work, if it is what the driver is."""
        if isinstance(about, Failure):
            raise type(about.error)(f"node {about.node}: {about.error}")
        ours = About(about.node, about.process, self._signature, __version__)
        if about != ours:
            raise EnvironmentProblem(
                f"node {about.node} has version {about.version} and {about.signature}, the driver version "
                f"{ours.version} and {ours.signature}; install the same package and models everywhere, or ship them "
                "(--ray-runtime-env)"
            )
        worker.about = about
        self.summary.joined(about.node)

    def _replace(self, worker: _Crew) -> None:
        """A worker has died: its windows go back to the front, and another one is started."""
        self._workers.remove(worker)
        self._session.kill(worker.actor)
        node = "a node" if worker.about is None else worker.about.node
        self.summary.lost(node, len(worker.windows))
        for number in worker.windows:
            self._deaths[number] = self._deaths.get(number, 0) + 1
            if self._deaths[number] >= MOST_DEATHS and len(worker.windows) == 1:
                raise ResourceError(_fatal(self._windows[number]))
        self._waiting.extendleft(reversed(worker.windows))
        self._report(f"a worker on {node} died; its work ({counted(len(worker.windows), 'window')}) goes to others")
        self._start_worker()


def _fatal(window: Sequence[Record]) -> str:
    return (
        f"{MOST_DEATHS} workers died while they decided the {len(window)} segments from {window[0].id!r} to "
        f"{window[-1].id!r}, probably for lack of memory; use smaller batches (--batch-tokens) or larger workers, or "
        "take these segments out"
    )
