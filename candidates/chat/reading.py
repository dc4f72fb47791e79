"""JSON in the text of an answer: models put it into code fences, and words around it.

>>> json_object('Sure!\\n```json\\n{"better": "A"}\\n```')
{'better': 'A'}
"""

from __future__ import annotations

import json
from typing import Any


class Unreadable(ValueError):
    """An answer without the form that the prompt asks for."""


def json_object(text: str) -> dict[str, Any]:
    """The first JSON object of a text.

    Raises:
        Unreadable: there is none, or it is not complete.
    """
    decoder = json.JSONDecoder()
    start, reason = text.find("{"), "no JSON object"
    while start >= 0:
        try:
            value, _ = decoder.raw_decode(text, start)
            if isinstance(value, dict):
                return value
        except (ValueError, RecursionError) as exc:
            reason = f"no complete JSON object ({exc})" if reason == "no JSON object" else reason
        start = text.find("{", start + 1)
    raise Unreadable(reason)
