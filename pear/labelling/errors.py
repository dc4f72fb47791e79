"""The errors that a chat model marks in a translation, from the text of its answer.

The form of our own prompt is a JSON object: `{"errors": [{"span", "category", "severity"}]}`. The plain form of
GEMBA-MQM is read as well, so that its prompts can be used: headings `Critical:`, `Major:` and `Minor:`, under each
a line `category - "span"` per error, or `no-error`.

    >>> read_errors('{"errors": [{"span": "Katze", "category": "accuracy", "severity": "Major"}]}', "Eine Katze.")
    [{'span': 'Katze', 'category': 'accuracy', 'severity': 'major', 'start': 5, 'end': 10}]
"""

from __future__ import annotations

import re
from typing import Any

from candidates.chat.reading import Unreadable, json_object
from candidates.common.errors import InputError
from candidates.lists import check_text
from pear.data.mqm import gemba_score

MOST_ERRORS = 100  # more are a model that repeats itself
_HEADING = re.compile(r"^[\s*#]*(critical|major|minor)(?: errors?)?[\s*]*:[\s*]*(.*)$", re.IGNORECASE)
_QUOTED = re.compile(r"[\"“”'«]([^\"“”»]*)[\"“”'»]?\s*$")


def read_errors(text: str, translation: str) -> list[dict[str, Any]]:
    """The marked errors: span, category, severity; start and end where the span stands in the translation.

    Raises:
        Unreadable: the answer has neither form, or an error has no known severity.
    """
    entries = _from_headings(text) if "{" not in text else _from_json(text)
    if len(entries) > MOST_ERRORS:
        raise Unreadable(f"{len(entries)} errors; expected at most {MOST_ERRORS} in one translation")
    errors = [_error(entry, translation) for entry in entries]
    try:
        gemba_score(errors)
    except InputError as exc:
        raise Unreadable(str(exc)) from exc
    return [error for error in errors if error["category"].lower() not in ("no-error", "no error")]


def _from_json(text: str) -> list[Any]:
    answer = json_object(text)
    if isinstance(entries := answer.get("errors"), list):
        return entries
    if isinstance(entries, dict):
        answer = entries
    by_severity = {name.lower(): entries for name, entries in answer.items() if isinstance(entries, list)}
    if not by_severity or not by_severity.keys() <= {"critical", "major", "minor", "neutral"}:
        raise Unreadable(f"a JSON object without a list of errors, but with {', '.join(answer)!r:.80}")
    return [
        {**entry, "severity": severity} if isinstance(entry, dict) else _entry(str(entry), severity)
        for severity, marked in by_severity.items()
        for entry in marked
    ]


def _from_headings(text: str) -> list[Any]:
    entries: list[Any] = []
    severity = ""
    headings = 0
    for line in text.splitlines():
        rest = line
        if heading := _HEADING.match(line):
            headings += 1
            severity, rest = heading[1].lower(), heading[2]
        word = rest.strip().lstrip("-*•").strip()
        if severity and word and word.lower().strip(".") not in ("no-error", "no error", "no errors", "none"):
            entries.append(_entry(word, severity))
    if not headings:
        raise Unreadable("neither a JSON object nor the headings Critical:, Major:, Minor:")
    return entries


def _entry(word: str, severity: str) -> dict[str, str]:
    """`accuracy/omission - "the account holder"` as an error."""
    category, dash, span = word.partition(" - ")
    quoted = _QUOTED.search(span) if dash else None
    return {"span": quoted[1] if quoted else span.strip(), "category": category.strip(), "severity": severity}


def _error(entry: Any, translation: str) -> dict[str, Any]:
    if not isinstance(entry, dict):
        raise Unreadable(f"an error is {entry!r:.60}; expected an object with span, category and severity")
    values = {name: entry.get(name, "") for name in ("span", "category", "severity")}
    for name, value in values.items():
        if value is None:
            values[name] = ""
            continue
        try:
            check_text(value, name)
        except InputError as exc:
            raise Unreadable(str(exc)) from exc
    span, category, severity = (str(value) for value in values.values())
    error: dict[str, Any] = {"span": span, "category": category, "severity": severity.strip().lower()}
    start = translation.find(span) if span else -1
    return error if start < 0 else {**error, "start": start, "end": start + len(span)}
