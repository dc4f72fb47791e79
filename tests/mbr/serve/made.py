"""Utilities with faults, lists, and decoders for tests of the service."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any

import numpy as np

from candidates.lists import CandidateList
from mbr.opening import open_decoder
from mbr.pipeline import Decoder
from mbr.recipe import Recipe
from mbr.serve.jobs import Answer, Request
from mbr.serve.scheduler import Scheduler
from mbr.serve.watch import Watch
from tests.mbr.made import Better

SENTENCES = {
    "Where is the station?": ["Wo ist der Bahnhof?", "Wo ist die Station?", "Wo ist Bahnhof?", "Wo liegt der Bahnhof?"],
    "I have no money.": ["Ich habe kein Geld.", "Ich hab kein Geld.", "Kein Geld.", "Ich habe Geld."],
    "Tom is sick.": ["Tom ist krank.", "Tom ist übel.", "Der Tom ist krank.", "Tom war krank."],
    "It is cold today.": ["Es ist heute kalt.", "Heute ist es kalt.", "Es ist kalt.", "Kalt ist es heute."],
}


class Faulty(Better):
    """Fails on texts that say so, each time or once, and can be held up; counts its calls."""

    name = "faulty"
    default_strategy = "race"

    def __init__(self) -> None:
        self.calls: list[int] = []
        self.once: set[str] = set()
        self.go = threading.Event()
        self.go.set()
        self.scoring = threading.Event()
        self.seconds_per_call = 0.0

    def score_pairs(self, triples: Sequence[tuple[str, str, str]]) -> Any:
        self.calls.append(len(triples))
        self.scoring.set()
        assert self.go.wait(30)
        if self.seconds_per_call:
            threading.Event().wait(self.seconds_per_call)
        words = " ".join({source for source, _, _ in triples})
        if "memory" in words and "memory" not in self.once:
            self.once.add("memory")
            raise MemoryError
        if "bug" in words:
            raise KeyError("a bug in one request")
        scores = super().score_pairs(triples)
        return np.where(["nan" in source for source, _, _ in triples], np.nan, scores)


def listed(source: str, size: int = 6, tag: str = "t") -> CandidateList:
    return CandidateList.of(source, [f"{tag} {number}" for number in range(size)], id="request")


def decoder_for(utility: Any, strategy: str = "race", **options: Any) -> Decoder:
    return open_decoder(Recipe(strategy=strategy, strategy_options=options).complete(), utility=utility)


class Slow(Better):
    """Takes a while for every call; a source that says `stuck` never ends."""

    name = "slow"
    default_strategy = "half"
    loading_seconds = 0.0

    def __init__(self) -> None:
        time.sleep(self.loading_seconds)

    def score_pairs(self, triples: Sequence[tuple[str, str, str]]) -> Any:
        time.sleep(0.05)
        if any("stuck" in source for source, _, _ in triples):
            time.sleep(600)
        return super().score_pairs(triples)


def serve_with_slow(loading_seconds: float = 0.0) -> None:
    """mbr-serve with the utility `slow`, for tests of the process: `python -c "...; serve_with_slow()" OPTIONS`."""
    from candidates.command.launch import mbr_serve
    from mbr.utilities import UTILITIES

    Slow.loading_seconds = loading_seconds
    UTILITIES.built_in["slow"] = "tests.mbr.serve.made:Slow"
    mbr_serve()


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


def ask(scheduler: Scheduler, item: CandidateList, recipe: str = "race", **options: Any) -> Future[Answer]:
    (ticket,) = scheduler.submit([Request(recipe, item, **options)])
    return ticket.future
