"""Candidates that are the source again, or nearly: nothing was translated.

A copy has at least nine tenths of the words of a source of three or more, in their order; names, numbers and short
texts are no copies. Where the script has no spaces, the texts themselves are compared.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence
from difflib import SequenceMatcher

from mbr.guards.base import Guard, ListTexts

FEWEST_WORDS = 3  # a copy of fewer is a name or a number
FEWEST_CHARACTERS = 10  # the same for scripts without spaces
LOWER_CASE_WORDS = 2  # at least: a text of names has none
NEARLY = 0.9  # of the words of both


class NotCopied(Guard):
    """No copy of the source, nor nearly one."""

    name = "not-copied"
    summary = "not the source itself, nor nearly"

    def faults(self, listed: ListTexts) -> list[float]:
        source = plain(listed.source)
        if not _can_be_copied(source):
            return listed.kept
        words = source.split()
        if len(words) < FEWEST_WORDS:
            return [float(plain(text) == source) for text in listed.texts]
        several = sum(word.islower() for word in listed.source_words) >= LOWER_CASE_WORDS
        own, fewest = set(listed.source_words), NEARLY * len(set(words))
        severities = listed.kept
        for place, present in enumerate(listed.words):
            # A near-copy has most of the words as they are; an exact one may have another case throughout.
            same_size = len(present) == len(words) and present[0].casefold() == words[0]
            if same_size or len(own.intersection(present)) >= fewest / 2:
                severities[place] = _likeness(words, plain(listed.texts[place]).split(), several)
        return severities


def is_copied(source: str, output: str, references: Sequence[str] = ()) -> bool:
    """Whether the output is the source, too long to be a name, and no reference is the source as well."""
    same = plain(source)
    if not _can_be_copied(same) or plain(output) != same:
        return False
    return all(plain(reference) != same for reference in references)


def plain(text: str) -> str:
    """The text without differences of case and white space."""
    return " ".join(text.casefold().split())


def _likeness(words: list[str], present: list[str], several: bool) -> float:
    """1 for a copy, the share of equal words for one that is nearly a copy, else 0."""
    if words == present:
        return 1.0
    if not several or len(set(words) & set(present)) < NEARLY * len(set(words)):
        return 0.0
    ratio = SequenceMatcher(None, words, present, autojunk=False).ratio()
    return ratio if ratio >= NEARLY else 0.0


def _can_be_copied(source: str) -> bool:
    long_enough = len(source.split()) >= FEWEST_WORDS or (
        " " not in source and len(source) >= FEWEST_CHARACTERS and _wide(source)
    )
    return long_enough and any(character.isalpha() for character in source)


def _wide(characters: Iterable[str]) -> bool:
    """Whether most characters are of scripts that put no spaces between words."""
    values = [unicodedata.east_asian_width(c) in "WF" or "\u0e00" <= c <= "\u0eff" for c in characters]
    return 2 * sum(values) > len(values)
