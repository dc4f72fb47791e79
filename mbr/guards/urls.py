"""Web and e-mail addresses: each stays as it is, and none is added."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Hashable

from mbr.guards.base import Guard, ListTexts, severity
from mbr.guards.marks import by_mark

_ADDRESS = re.compile(
    r"(?:[a-z][a-z0-9+.-]*://|www\.)[^\s<>\"'“”„«»()\[\]{}，。、（）「」]+(?:\([^\s<>()]*\)[^\s<>\"'“”„«»()\[\]{}，。、（）]*)?"
    r"|(?<![\w.+-])[A-Za-z0-9_.+-]+@[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+",
    re.IGNORECASE,
)
_SIGNS = ("://", "www.", "WWW.", "@")
_AT_THE_END = ".,;:!?…*_"


class Urls(Guard):
    """The web and e-mail addresses of the source."""

    name = "urls"
    summary = "the web and e-mail addresses of the source, unchanged"

    def faults(self, listed: ListTexts) -> list[float]:
        if not any(sign in listed.source or sign in listed.joined for sign in _SIGNS):
            return listed.kept
        expected = addresses(listed.source)
        return by_mark(listed, lambda mark: severity(expected, addresses(mark)))


def addresses(text: str) -> Counter[Hashable]:
    """Web and e-mail addresses, without the punctuation of the sentence."""
    return Counter(match[0].rstrip(_AT_THE_END) for match in _ADDRESS.finditer(text))
