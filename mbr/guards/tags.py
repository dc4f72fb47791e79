"""XML and HTML tags: the same ones, nested in the same way, each closed.

Siblings may change places, since word order does. Attributes must stay, but for attributes with text for readers
(`title`, `alt`, `placeholder`, `aria-label`). Where the source itself is a fragment (`</b> and so on`), only the tags
are counted.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Hashable

from mbr.guards.base import Guard, ListTexts, severity
from mbr.guards.marks import by_mark

_TAG = re.compile(
    r"<(?P<close>/)?(?P<name>[A-Za-z][\w:.-]*|\d+)"
    r"(?P<attributes>(?:\s+[\w:@.-]+(?:\s*=\s*(?:\"[^\"]*\"|'[^']*'|[^\s\"'<>=/]+))?)*)\s*(?P<empty>/)?>"
)
_ATTRIBUTE = re.compile(r"([\w:@.-]+)(?:\s*=\s*(\"[^\"]*\"|'[^']*'|[^\s\"'<>=/]+))?")
# HTML elements that have no end tag.
_VOID = frozenset(
    ("area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr")
)
_TRANSLATED = frozenset(["title", "alt", "placeholder", "aria-label", "label", "content"])


class Tags(Guard):
    """The same tags as the source, well-formed and nested in the same way."""

    name = "tags"
    summary = "the XML or HTML tags of the source, well-formed, nested in the same way"

    def faults(self, listed: ListTexts) -> list[float]:
        if "<" not in listed.source and "<" not in listed.joined:
            return listed.kept
        expected, whole = tags(listed.source)
        return by_mark(listed, lambda mark: _fault(expected, whole, mark))


def _fault(expected: Counter[Hashable], whole: bool, text: str) -> float:
    present, closed = tags(text)
    if not whole:
        return severity(_flat(expected), _flat(present))
    return max(severity(expected, present), 0.0 if closed else 0.5)


def tags(text: str) -> tuple[Counter[Hashable], bool]:
    """The tags of a text with the names of the elements around them, and whether all are closed in order."""
    elements: Counter[Hashable] = Counter()
    around: list[str] = []
    closed = True
    for match in _TAG.finditer(text):
        name = match["name"]
        if match["close"]:
            if around and around[-1] == name:
                around.pop()
            else:
                closed = False
                elements[("/", name), ()] += 1
                if name in around:
                    del around[around.index(name) :]
            continue
        elements[(name, _attributes(match["attributes"])), tuple(around)] += 1
        if not match["empty"] and name.lower() not in _VOID:
            around.append(name)
    return elements, closed and not around


def _flat(elements: Counter[Hashable]) -> Counter[Hashable]:
    """The tags alone, wherever they are."""
    flat: Counter[Hashable] = Counter()
    for key, count in elements.items():
        assert isinstance(key, tuple)
        flat[key[0]] += count
    return flat


def _attributes(text: str) -> tuple[tuple[str, str], ...]:
    if not text:
        return ()
    pairs = ((match[1], (match[2] or "").strip("\"'")) for match in _ATTRIBUTE.finditer(text))
    return tuple(sorted((name, "" if name.lower() in _TRANSLATED else value) for name, value in pairs))
