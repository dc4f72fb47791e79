"""Checks beside scores: outputs that are empty, copied, cut off, too long or too short, or that changed a number.

| flag | an output that |
| --- | --- |
| `empty` | holds nothing but white space, where the source does not |
| `copied` | equals the source but for case and white space, has more than two words, and no reference does the same |
| `numbers` | lacks a number of the source or adds one (`mbr.guards.numbers`) |
| `length` | is over twice or under half as long as this system's outputs usually are for such a reference (or source) |
| `cut` | is much shorter than usual and lacks the final punctuation of its source |
| `placeholders`, `tags`, `urls`, `repetition` | breaks the guard of that name, and no reference does |

The rules are those of `mbr.guards`. A flagged output deserves a look. Each system is checked by itself, so others do
not change its flags.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from statistics import median
from typing import Any

from mbr.guards import Guard, ListTexts, get_guard
from mbr.guards.copied import is_copied
from mbr.guards.length import is_cut, is_outlier
from mbr.guards.numbers import changed_numbers

ALWAYS_SHOWN = ("empty", "copied", "numbers", "length", "cut")
GUARDED = ("placeholders", "tags", "urls", "repetition")  # flags that are guards as they are
FLAGS = (*ALWAYS_SHOWN, *GUARDED)


@dataclass(frozen=True)
class Checks:
    """Of one system: its total length as a share of the references' (or sources'), and the flags of each segment."""

    length_ratio: float
    flags: tuple[tuple[str, ...], ...]

    def record(self) -> dict[str, Any]:
        """For JSON."""
        return {"length_ratio": self.length_ratio, **{flag: self.segments(flag) for flag in FLAGS}}

    def segments(self, flag: str) -> list[int]:
        """Numbers of the segments with this flag, from 1: the lines of the files."""
        return [number for number, flags in enumerate(self.flags, 1) if flag in flags]


def check_outputs(outputs: Sequence[str], sources: Sequence[str] | None, references: Sequence[Sequence[str]]) -> Checks:
    """Check the outputs of one system. `references` holds sets of them, each parallel to the outputs."""
    # Lengths are measured against the first reference, else the source.
    if references:
        measures: Sequence[str] = references[0]
    else:
        measures = [""] * len(outputs) if sources is None else sources
    lengths = [(len(output.strip()), len(measure.strip())) for output, measure in zip(outputs, measures, strict=True)]
    ratios = [length / measure for length, measure in lengths if length and measure]
    usual = median(ratios) if ratios else 1.0
    flags = []
    for index, output in enumerate(outputs):
        source = None if sources is None else sources[index]
        translations = [texts[index] for texts in references]
        original = source if source is not None else measures[index]
        length, expected = lengths[index][0], usual * lengths[index][1]
        raised = {
            "empty": not output.strip() and bool(original.strip()),
            "copied": source is not None and is_copied(source, output, translations),
            "numbers": bool(output.strip()) and changed_numbers(original, output, translations) != ([], []),
            "length": length > 0 and is_outlier(length, expected),
            "cut": is_cut(original, output, length, expected),
            **_broken(source, output, translations),
        }
        flags.append(tuple(name for name in FLAGS if raised.get(name)))
    measured = sum(measure for _, measure in lengths)
    return Checks(sum(length for length, _ in lengths) / measured if measured else 1.0, tuple(flags))


def _broken(source: str | None, output: str, references: Sequence[str]) -> dict[str, bool]:
    """Whether an output breaks each guard, and no reference does."""
    if source is None or not output.strip():
        return {}
    listed = ListTexts(source, [output, *references])
    faults = {name: guard.faults(listed) for name, guard in _guards().items()}
    return {name: bool(own) and not any(others) for name, (own, *others) in faults.items()}


@cache
def _guards() -> dict[str, Guard]:
    return {name: get_guard(name) for name in GUARDED}
