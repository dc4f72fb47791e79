"""Every limit of the service: one field each, an option of `mbr-serve`, an environment variable, a line of /info.

>>> Settings.from_environment({"MBR_SERVE_MAX_CANDIDATES": "100"}).max_candidates
100
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from candidates.common.errors import UsageError

PREFIX = "MBR_SERVE_"


def _limit(default: Any, words: str, *, least: float = 1) -> Any:
    return field(default=default, metadata={"help": words, "least": least})


@dataclass(frozen=True)
class Settings:
    """Limits, with their defaults."""

    max_queue_tokens: int = _limit(2_000_000, "estimated tokens under way; beyond it requests get 429")
    max_queue_seconds: float = _limit(5.0, "length of the queue at the measured speed; beyond it, 429", least=0.001)
    max_candidates: int = _limit(256, "candidates per request; more get 413")
    max_texts: int = _limit(64, "texts per request of translations; more get 413")
    nbest: int = _limit(20, "candidates that are made for a translation, unless the request has a number")
    timeout: float = _limit(60.0, "seconds until a request without timeout_ms gets 504", least=0.001)
    max_body_bytes: int = _limit(2_000_000, "size of a request, unpacked; more gets 413")
    body_seconds: float = _limit(10.0, "time for the body of a request; slower ones get 408", least=0.001)
    header_seconds: float = _limit(10.0, "time for the head of a request; slower connections are closed", least=0.001)
    keep_alive_seconds: float = _limit(30.0, "time that a connection may stay open between requests", least=0.001)
    max_connections: int = _limit(500, "open connections; beyond it the one that has been silent longest is closed")
    drain_seconds: float = _limit(30.0, "time that work under way has after SIGTERM", least=0)
    cache_scores: int = _limit(100_000, "scores of pairs kept in memory; 0 keeps none", least=0)
    portion: int = _limit(64, "pairs of a request that are scored before others have their turn")
    step_tokens: int = _limit(4096, "tokens that are scored together")
    workers_per_device: int = _limit(1, "batches that a device computes at the same time")

    def __post_init__(self) -> None:
        for limit in fields(self):
            value, least = getattr(self, limit.name), limit.metadata["least"]
            if not (value >= least and math.isfinite(value)):
                raise UsageError(
                    f"{flag(limit.name)} {value} is out of range; expected a finite number of at least {least}"
                )
        if self.nbest > self.max_candidates:
            raise UsageError(f"--nbest {self.nbest} is more than --max-candidates {self.max_candidates}; lower it")

    @classmethod
    def from_environment(cls, environment: Mapping[str, str], **values: Any) -> Settings:
        """The settings of the environment; `values` that are not None are stronger.

        Raises:
            UsageError: a value is no number, or out of range.
        """
        for limit in fields(cls):
            name = PREFIX + limit.name.upper()
            if values.get(limit.name) is None and name in environment:
                kind = int if isinstance(limit.default, int) else float
                try:
                    values[limit.name] = kind(environment[name])
                except ValueError as exc:
                    expected = "whole number" if kind is int else "number"
                    raise UsageError(f"{name} is {environment[name]!r:.40}; expected a {expected}") from exc
        return cls(**{name: value for name, value in values.items() if value is not None})

    def described(self) -> dict[str, Any]:
        return asdict(self)


def flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"
