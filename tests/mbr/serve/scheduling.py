"""A scheduler with a utility that can be made to fail, and a watch that keeps what it reports."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import Any

import pytest

from candidates.lists import CandidateList
from mbr.serve.jobs import Answer, Request
from mbr.serve.scheduler import Scheduler
from mbr.serve.watch import Watch
from tests.mbr.serve.made import Faulty, decoder_for


class Seen(Watch):
    """Keeps what the scheduler reports."""

    def __init__(self) -> None:
        self.reasons: list[str] = []
        self.fallbacks = self.partials = self.joins = self.hits = 0
        self.errors: list[str] = []
        self.queues: list[tuple[int, int]] = []

    def dropped(self, reason: str) -> None:
        self.reasons.append(reason)

    def fallback(self) -> None:
        self.fallbacks += 1

    def partial(self) -> None:
        self.partials += 1

    def joined(self) -> None:
        self.joins += 1

    def error(self, what: str) -> None:
        self.errors.append(what)

    def cache(self, hits: int, misses: int) -> None:
        self.hits += hits

    def queue(self, jobs: int, tokens: int) -> None:
        self.queues.append((jobs, tokens))


@pytest.fixture
def utility() -> Faulty:
    return Faulty()


@pytest.fixture
def seen() -> Seen:
    return Seen()


Make = Callable[..., Scheduler]


@pytest.fixture
def make(utility: Faulty, seen: Seen) -> Iterator[Make]:
    """A scheduler with the faulty utility as `race`, `half` and `full`; closed at the end."""
    made: list[Scheduler] = []

    def call(**options: Any) -> Scheduler:
        scheduler = Scheduler(**{"max_queue_tokens": 10**7, "watch": seen, **options})
        made.append(scheduler)
        scheduler.replace({name: decoder_for(utility, name) for name in ("race", "half", "full")})
        return scheduler

    yield call
    utility.go.set()
    for scheduler in made:
        scheduler.close()


def ask(scheduler: Scheduler, item: CandidateList, recipe: str = "race", **options: Any) -> Future[Answer]:
    (ticket,) = scheduler.submit([Request(recipe, item, **options)])
    return ticket.future
