"""What a chat server's JSON holds: texts and log-probabilities of choices, names of models, error messages.

Servers differ, and some are wrong, so nothing about the shape of an answer is taken for granted.
"""

from __future__ import annotations

import json
import math
from typing import Any

from candidates.common.errors import InputError
from candidates.lists import LARGEST, check_text


def choice_text(choice: Any) -> str | None:
    """A choice's text without surrounding white space, or None where it has no text that UTF-8 can hold."""
    message = choice.get("message") if isinstance(choice, dict) else None
    text = message.get("content") if isinstance(message, dict) else None
    if not isinstance(text, str):
        return None
    try:
        check_text(text, "choice")
    except InputError:  # half a surrogate pair, where the length limit cut a character
        return None
    return text.strip() or None


def choice_logprob(choice: Any) -> float | None:
    """The sum of a choice's token log-probabilities, or None where one is missing or not a finite number."""
    logprobs = choice.get("logprobs") if isinstance(choice, dict) else None
    tokens = logprobs.get("content") if isinstance(logprobs, dict) else None
    if not isinstance(tokens, list) or not tokens:
        return None
    values: list[Any] = [token.get("logprob") if isinstance(token, dict) else None for token in tokens]
    if not all(type(value) in (int, float) and abs(value) < LARGEST for value in values):
        return None
    total = math.fsum(values)
    return total if abs(total) < LARGEST else None


def model_names(entries: list[Any]) -> list[str]:
    """The names in a server's list of models."""
    return [entry["id"] for entry in entries if isinstance(entry, dict) and isinstance(entry.get("id"), str)]


def error_message(content: bytes) -> str:
    """The message of an error's JSON, in one of the usual places, or the whole content."""
    try:
        answer = json.loads(content)
    except (ValueError, RecursionError):
        return content.decode("utf-8", "replace")
    for name in ("error", "message", "detail"):
        if isinstance(answer, dict) and answer.get(name):
            answer = answer[name]
    return answer if isinstance(answer, str) else json.dumps(answer)


def used_tokens(answer: Any) -> int | None:
    """The tokens of a prompt and its answer together, as the server counts them; None where it does not."""
    usage = answer.get("usage") if isinstance(answer, dict) else None
    total = usage.get("total_tokens") if isinstance(usage, dict) else None
    return total if type(total) is int and 0 <= total < LARGEST else None
