"""Candidates that are far too long or too short, for their source or among the others, empty or cut off.

Against the source, a candidate is odd beyond a factor of four; against the median of its list, beyond one of two. A cut
candidate is much shorter than the median and lacks the final punctuation of its source.
"""

from __future__ import annotations

from mbr.guards.base import Guard, ListTexts, text_length

FACTOR = 2.0  # against the list, or what is usual
FACTOR_OF_SOURCE = 4.0  # languages differ
FEWEST_CHARACTERS = 10  # the least deviation of an odd length
FEWEST_CANDIDATES = 4  # that tell what is usual
MUCH_SHORTER = 0.7

FINAL = frozenset(".!?…。！？．｡।॥؟۔։።။។")
CLOSING = "\"'”’»›)]}」』】）*_"


class Length(Guard):
    """Neither far too long nor too short, nor cut off."""

    name = "length"
    summary = "neither far longer nor far shorter than source and list suggest, not empty, not cut off"

    def faults(self, listed: ListTexts) -> list[float]:
        source = text_length(listed.source.strip())
        if not source:
            return listed.kept
        lengths = listed.lengths
        usual = sorted(lengths)[len(lengths) // 2] if len(lengths) >= FEWEST_CANDIDATES else 0
        # Most lists are within these bounds, which break no rule.
        low, high = max(MUCH_SHORTER * usual, source / FACTOR_OF_SOURCE), FACTOR_OF_SOURCE * source
        high = min(high, FACTOR * usual) if usual else high
        severities = listed.kept
        for place, length in enumerate(lengths):
            if not low <= length <= high:
                severities[place] = _fault(listed.source, listed.texts[place], length, source, usual)
        return severities


def _fault(source: str, text: str, length: int, source_length: int, usual: int) -> float:
    if not text.strip():
        return 1.0
    if is_outlier(length, source_length, FACTOR_OF_SOURCE) or is_outlier(length, usual):
        return 1 - min(length, source_length) / max(length, source_length, 1)
    return 0.3 if is_cut(source, text, length, usual) else 0.0


def is_outlier(length: int, expected: float, factor: float = FACTOR) -> bool:
    """Whether a length is beyond the factor of what is expected, and by more than a few characters."""
    far = abs(length - expected) > FEWEST_CHARACTERS
    return far and expected > 0 and not expected / factor <= length <= expected * factor


def is_cut(source: str, text: str, length: int, expected: float) -> bool:
    """Whether a text is much shorter than expected and does not end as its source does."""
    return 0 < length < MUCH_SHORTER * expected and _ends(source) and not _ends(text)


def _ends(text: str) -> bool:
    """Whether a text ends as a sentence does, quotes and brackets aside."""
    stripped = text.rstrip()
    while stripped and stripped[-1] in CLOSING:
        stripped = stripped[:-1].rstrip()
    return bool(stripped) and stripped[-1] in FINAL
