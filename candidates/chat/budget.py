"""What questions to a chat server may cost, and what they cost: calls and tokens, counted over all threads.

Every request that is sent is a call, a retry too, since servers charge for answers that are lost on the way. Tokens
are what the server reports; where it reports none they are estimated from the length of the texts.
"""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass
from typing import Any

from candidates.chat.answers import used_tokens
from candidates.common.errors import ResourceError, UsageError
from candidates.common.words import counted

BYTES_PER_TOKEN = 4  # of a rough estimate


class BudgetSpent(ResourceError):
    """No further request may be sent. Where there is a cache, it holds the answers so far."""


@dataclass
class Usage:
    """Counts of a run so far. `answers` came from the server, `cached` from disk; `invalid` could not be read."""

    calls: int = 0
    tokens: int = 0
    answers: int = 0
    cached: int = 0
    invalid: int = 0
    failed: int = 0
    estimated: bool = False  # whether some of the tokens are

    def record(self) -> dict[str, int]:
        """The counts by name, for logs and reports."""
        names = ("calls", "tokens", "answers", "cached", "invalid", "failed")
        return {name: getattr(self, name) for name in names}

    def __str__(self) -> str:
        about = "about " if self.estimated else ""
        words = [
            f"{counted(self.calls, 'call')}, {about}{counted(self.tokens, 'token')}",
            f"{counted(self.cached, 'answer')} from the cache",
        ]
        if self.invalid:
            words.append(f"{counted(self.invalid, 'answer')} could not be read")
        if self.failed:
            words.append(f"{counted(self.failed, 'question')} without an answer")
        return "; ".join(words)


class Budget:
    """Limits of a run. `spend` before each request, `settle` after its answer, `give_up` where there is none.

    `kept`: a cache keeps the answers, which the message of a spent budget mentions.
    """

    def __init__(self, calls: int | None = None, tokens: int | None = None, *, kept: bool = True) -> None:
        for name, limit in (("calls", calls), ("tokens", tokens)):
            if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int) or limit < 0):
                raise UsageError(f"a budget of {limit!r} {name} is out of range; expected a number from 0 on")
        self.usage = Usage()
        self._calls = calls
        self._tokens = tokens
        self._kept = kept
        self._open = 0.0  # tokens that open requests are expected to take
        self._lock = threading.Lock()

    def spend(self, expected: float) -> float:
        """Take one call and, until its answer is there, the expected tokens; returns those.

        Raises:
            BudgetSpent: one of the limits would be passed. With tokens that is an expectation: answers in flight may
                turn out longer than those before.
        """
        with self._lock:
            usage = self.usage
            expected = max(expected, usage.tokens / usage.answers if usage.answers else 0.0)
            if self._calls is not None and usage.calls >= self._calls:
                raise self._spent(counted(self._calls, "call"))
            if self._tokens is not None and usage.tokens + self._open + expected > self._tokens:
                raise self._spent(counted(self._tokens, "token"))
            usage.calls += 1
            self._open += expected
            return expected

    def give_up(self, expected: float) -> None:
        """The request has no answer; it stays a call."""
        with self._lock:
            self._open -= expected

    def settle(self, expected: float, tokens: int, *, estimated: bool) -> None:
        with self._lock:
            self._open -= expected
            self.usage.tokens += tokens
            self.usage.answers += 1
            self.usage.estimated |= estimated

    def count(self, name: str) -> None:
        """One more of a count of `Usage`."""
        with self._lock:
            setattr(self.usage, name, getattr(self.usage, name) + 1)

    def _spent(self, limit: str) -> BudgetSpent:
        answers = "answers so far are in the cache" if self._kept else "without a cache, answers so far are lost"
        return BudgetSpent(
            f"the budget of {limit} does not suffice ({self.usage} in this run); {answers}; raise the budget (calls, "
            "tokens) and run the same command again, with --resume where it wrote a file"
        )


def tokens_of(body: dict[str, Any], answer: dict[str, Any], text: str | None) -> tuple[int, bool]:
    """The tokens of a request and its answer, and whether they are estimated."""
    reported = used_tokens(answer)
    if reported is not None:
        return reported, False
    return round(prompt_tokens(body) + len((text or "").encode()) / BYTES_PER_TOKEN), True


def prompt_tokens(body: dict[str, Any]) -> float:
    """About how many tokens the messages of a request have."""
    return len(json.dumps(body.get("messages", []), ensure_ascii=False).encode("utf-8", "replace")) / BYTES_PER_TOKEN
