"""Errors as answers: one status for each kind, one shape of body that the clients of all served APIs can read.

`error` is a text, as LibreTranslate and TEI have it, `error_type` is TEI's, `message` is Cohere's.
"""

from __future__ import annotations

import json
from http import HTTPStatus
from typing import Any

from candidates.common.errors import InputError, MbrError, ResourceError, UsageError
from mbr.serve.jobs import DeadlinePassed, Gone, QueueFull, Refused, TooLarge, Unavailable

TYPES = {
    400: "bad_request",
    401: "unauthorized",
    404: "not_found",
    405: "method_not_allowed",
    408: "request_timeout",
    413: "too_large",
    422: "invalid",
    424: "scoring_failed",
    429: "overloaded",
    499: "client_gone",
    500: "bug",
    503: "unavailable",
    504: "deadline_passed",
}
# In this order: the first that fits.
STATUSES: tuple[tuple[type[Exception], int], ...] = (
    (QueueFull, 429),
    (Unavailable, 503),
    (TooLarge, 413),
    (DeadlinePassed, 504),
    (Gone, 499),
    (ResourceError, 503),
    (InputError, 422),
    (UsageError, 422),
    (MbrError, 424),
)


class Problem(Exception):
    """An answer that is an error."""

    def __init__(self, status: int, message: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.headers = headers or {}


def problem_of(error: Exception) -> Problem:
    """The answer for an error of ours; anything else is a bug, and its message may hold texts."""
    for kind, status in STATUSES:
        if isinstance(error, kind):
            retry = error.retry_after if isinstance(error, Refused) else 1
            return Problem(status, str(error), {"Retry-After": str(retry)} if status in (429, 503) else {})
    return a_bug()


def a_bug() -> Problem:
    return Problem(500, "the service failed because of a bug; its log has the place; report it with X-Request-Id")


def too_many_texts(texts: int, most: int) -> TooLarge:
    return TooLarge(f"{texts} texts are more than this service takes, {most} (--max-texts); send several requests")


def problem_headers(problem: Problem) -> dict[str, str]:
    return {**problem.headers, **({"WWW-Authenticate": "Bearer"} if problem.status == 401 else {})}


def body_of(problem: Problem) -> bytes:
    kind = TYPES.get(problem.status) or HTTPStatus(problem.status).phrase.lower().replace(" ", "_")
    return as_json({"error": problem.message, "error_type": kind, "message": problem.message})


def as_json(content: Any) -> bytes:
    """JSON in UTF-8. Half a surrogate pair, which UTF-8 cannot hold, is written as JSON escapes it."""
    return json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode(
        "utf-8", "backslashreplace"
    )
