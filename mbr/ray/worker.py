"""What runs on a node of the cluster: one decoder, made from a recipe, that decides windows of lists.

Nothing here imports Ray: `runner` makes an actor of `Worker`. Errors that a user can act on come back as values,
because an exception would be wrapped, and one in a constructor would take the whole actor with it.
"""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from candidates.common.errors import MbrError
from candidates.common.version import __version__
from candidates.formats import Record
from candidates.lists import CandidateList
from mbr.decide import Decision
from mbr.opening import DecoderPlan
from mbr.pipeline import Decoder


@dataclass(frozen=True)
class About:
    """What a worker is: it must agree with the driver before it gets work."""

    node: str
    process: int
    signature: str
    version: str


@dataclass(frozen=True)
class Failure:
    """An error of the run, and the node where it happened."""

    error: MbrError
    node: str


@dataclass(frozen=True)
class Decided:
    """The decisions of a window, without the lists, which the driver has; and what they cost."""

    decisions: tuple[Decision, ...]
    cpu_seconds: float


class Worker:
    """One decoder. `open` first, then `decide` any number of windows."""

    def __init__(self, plan: DecoderPlan) -> None:
        self._plan = plan
        self._decoder: Decoder | None = None

    def open(self) -> About | Failure:
        """Load the models."""
        try:
            self._decoder = self._plan.open()
            return About(_node(), os.getpid(), str(self._decoder.signature()), __version__)
        except MbrError as exc:
            return Failure(exc, _node())

    def decide(self, window: Sequence[Record]) -> Decided | Failure:
        assert self._decoder is not None
        began = time.process_time()
        try:
            decisions = self._decoder.decide(window)
        except MbrError as exc:
            return Failure(exc, _node())
        bare = tuple(replace(decision, candidates=None) for decision in decisions)
        return Decided(bare, time.process_time() - began)


def whole(decided: Decided, window: Sequence[Record]) -> list[Decision]:
    """The decisions with the lists they are about."""
    return [
        replace(decision, candidates=record) if isinstance(record, CandidateList) else decision
        for decision, record in zip(decided.decisions, window, strict=True)
    ]


def _node() -> str:
    return platform.node() or "unknown"
