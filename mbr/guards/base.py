"""What a guard is: a rule that returns for each candidate of a list how badly it is broken, before anything is scored.

A guard sees the source and all texts of a list at once (`ListTexts`), so that the source is read once, and a list that
has nothing to check (no digit, no brace) is done in a few microseconds. Subclass `Guard`, give it a name, and register
it (docs/guards.md).

    class NoQuestions(Guard):
        name = "no-questions"
        def faults(self, listed):
            return [float(text.endswith("?")) for text in listed.texts]
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from functools import cached_property
from typing import Any, ClassVar, TypeVar, cast

Value = TypeVar("Value")

# Bytes of UTF-8 that only texts with digits, with letters beyond Latin, or with wide characters can have. Deleting all
# others takes microseconds for a whole list, where a regular expression takes a hundred times as long.
_OF_DIGITS = bytes([*b"0123456789", *range(0xD9, 0xE2), 0xEA, 0xEF, *range(0xF0, 0xF5)])
_OF_OTHER_SCRIPTS = bytes([*range(0xCD, 0xE2), *range(0xE3, 0xF0)])
_OF_WIDE = bytes([0xE2, *range(0xE3, 0xF0)])
_DIGIT = re.compile(r"\d")
_WIDE = "[\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff\uff00-\uffef]"  # compiled when needed: that takes 20 ms


class ListTexts:
    """A source and its candidates as guards see them; what several guards need is computed once."""

    def __init__(self, source: str, texts: Sequence[str]) -> None:
        self.source = source
        self.texts = texts
        self._derived: dict[Callable[[ListTexts], Any], Any] = {}

    def derived(self, compute: Callable[[ListTexts], Value]) -> Value:
        """What a function makes of this list, computed once."""
        if compute not in self._derived:
            self._derived[compute] = compute(self)
        return cast(Value, self._derived[compute])

    @property
    def kept(self) -> list[float]:
        """The answer of a guard that no candidate breaks."""
        return [0.0] * len(self.texts)

    @cached_property
    def joined(self) -> str:
        """All candidates in one text, to see quickly what none of them has."""
        return "\n".join(self.texts)

    @cached_property
    def _bytes(self) -> bytes:
        return self.joined.encode("utf-8", "surrogatepass")

    @cached_property
    def words(self) -> list[list[str]]:
        """The words of each candidate between spaces."""
        return [text.split() for text in self.texts]

    @cached_property
    def distinct_words(self) -> set[str]:
        """The words of all candidates."""
        return set().union(*self.words)

    @cached_property
    def source_words(self) -> list[str]:
        return self.source.split()

    @cached_property
    def has_digits(self) -> bool:
        """Whether the source or a candidate has a digit of any script."""
        return _DIGIT.search(self.source) is not None or (
            _has(self._bytes, _OF_DIGITS) and _DIGIT.search(self.joined) is not None
        )

    @cached_property
    def has_other_scripts(self) -> bool:
        """Whether a candidate may have letters beyond Latin ones."""
        return not self.joined.isascii() and _has(self._bytes, _OF_OTHER_SCRIPTS)

    @cached_property
    def lengths(self) -> list[int]:
        """Characters of each candidate; one of Chinese, Japanese or Korean counts as three."""
        if self.joined.isascii() or not _has(self._bytes, _OF_WIDE) or re.search(_WIDE, self.joined) is None:
            return [len(text) for text in self.texts]
        return [text_length(text) for text in self.texts]


class Guard(ABC):
    """A rule that candidates must keep. Options of the constructor are its options in a recipe."""

    name: str
    summary: ClassVar[str] = ""
    needs: ClassVar[str] = "nothing"

    @abstractmethod
    def faults(self, listed: ListTexts) -> Sequence[float]:
        """The severity of what each candidate breaks: 0 for a candidate that keeps the rule, 1 for the worst."""

    def settings(self) -> dict[str, object]:
        """Everything of this guard that may change a decision, for the signature."""
        return {}


def _has(text: bytes, wanted: bytes) -> bool:
    return len(text.translate(None, wanted)) < len(text)


def text_length(text: str) -> int:
    """Characters, where one of Chinese, Japanese or Korean counts as three, as it holds about as much."""
    return len(text) if text.isascii() else len(text) + 2 * len(re.findall(_WIDE, text))


def severity(expected: Counter[Hashable], present: Counter[Hashable]) -> float:
    """How much of a multiset was lost or added: 0 nothing, 1 all."""
    if expected == present:
        return 0.0
    changed = (expected - present).total() + (present - expected).total()
    return changed / (expected.total() + present.total())
