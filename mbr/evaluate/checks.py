"""Checks beside scores: outputs that are empty, copied, cut off, too long or too short, or that changed a number.

| flag | an output that |
| --- | --- |
| `empty` | holds nothing but white space, where the source does not |
| `copied` | equals the source but for case and white space, has more than two words, and no reference does the same |
| `numbers` | lacks a number of the source or adds one (see `changed_numbers`) |
| `length` | is over twice or under half as long as this system's outputs usually are for such a reference (or source) |
| `cut` | is much shorter than usual and lacks the final punctuation of its source |

These are rules of thumb: a flagged output deserves a look. Each system is checked by itself, so others do not change
its flags.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from statistics import median
from typing import Any

FLAGS = ("empty", "copied", "numbers", "length", "cut")

FEWEST_WORDS = 3  # a copy of fewer is a name or a number
FEWEST_CHARACTERS = 10  # the same for scripts without spaces; also the least deviation of an odd length
FACTOR = 2.0
MUCH_SHORTER = 0.7
SCALES = (0, 3, 6, 9)  # powers of ten that a word may stand for: 900 thousand is 900,000
WRITTEN_OUT = 12  # numbers up to this are often spelled out: one that is only missing, or only added, is no error

FINAL = frozenset(".!?…。！？．｡।॥؟۔։።။។")
CLOSING = frozenset("\"'”’»›)]}」』】）*_")
# Thousands in groups of three after one sign throughout, or Indian ones of two and then three; else plain digits; and
# maybe a fraction.
_NUMBER = re.compile(
    r"(?P<whole>(?!0)\d{1,3}(?P<sign>[ \u00a0\u2009\u202f.,'’\u066c])\d{3}(?:(?P=sign)\d{3})*(?!\d)"
    r"|\d{1,2}(?:,\d{2})+,\d{3}(?!\d)"
    r"|\d+)"
    r"(?:[.,\u066b](?P<fraction>\d+))?"
)
_DIGITS = re.compile(r"\d+")
_FULL_HOUR = re.compile(r"(?::00)+(?![\d:])")
# COVID-19 may become the virus. Three letters at least: in Hebrew shorter ones are prepositions, and the number counts.
_IN_NAME = re.compile(r"(?<=[^\W\d_]{3}[-\u2010\u2011])\d+")


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
            "length": length > 0 and _is_outlier(length, expected),
            "cut": 0 < length < MUCH_SHORTER * expected and _ends(original) and not _ends(output),
        }
        flags.append(tuple(name for name in FLAGS if raised[name]))
    measured = sum(measure for _, measure in lengths)
    return Checks(sum(length for length, _ in lengths) / measured if measured else 1.0, tuple(flags))


def is_copied(source: str, output: str, references: Sequence[str] = ()) -> bool:
    """Whether the output is the source, too long to be a name, and no reference is the source as well."""
    plain = _plain(source)
    long_enough = len(plain.split()) >= FEWEST_WORDS or (
        " " not in plain and len(plain) >= FEWEST_CHARACTERS and _wide(plain)
    )
    if not long_enough or _plain(output) != plain or not any(character.isalpha() for character in plain):
        return False
    return all(_plain(reference) != plain for reference in references)


def changed_numbers(source: str, output: str, references: Sequence[str] = ()) -> tuple[list[str], list[str]]:
    """Numbers of the source that the output lacks, and numbers of the output that the source lacks.

    1,000 equals 1.000 and 1 000; 2.5 equals 2,50; 900 thousand equals 900,000; digits of all scripts count. A number
    that a reference lacks or adds may be lacked or added by the output as often. A number in a name such as COVID-19
    may be left out or added, and a small one alone may have become a word, or come from one.
    """
    missing, added = _differences(source, output)
    left_out, put_in = Counter[str](), Counter[str]()  # by the most generous reference
    for reference in references:
        lacked, extra = _differences(source, reference)
        left_out |= lacked | _parts(lacked)
        put_in |= extra | _parts(extra)
    missing, added = missing - left_out, added - put_in
    if not missing or not added:
        missing, added = _beyond_words(missing), _beyond_words(added)
    return sorted(missing.elements()), sorted(added.elements())


def numbers(text: str) -> list[str]:
    """The numbers of a text in plain digits: no signs between thousands, a point before the fraction, no full hours."""
    values = []
    begin = 0
    while digits := _DIGITS.search(text, begin):  # digits first: faster than trying the whole pattern everywhere
        match = _NUMBER.match(text, digits.start())
        assert match is not None  # plain digits are one of its forms
        begin = match.end()
        if hour := _FULL_HOUR.match(text, begin):
            begin = hour.end()
        whole = "".join(_DIGITS.findall(match["whole"]))
        number = _ascii(whole).lstrip("0") or "0"
        fraction = match["fraction"]
        values.append(number if fraction is None else f"{number}.{_ascii(fraction)}")
    return values


def _differences(source: str, output: str) -> tuple[Counter[str], Counter[str]]:
    """Numbers that the output lacks, and those that it adds, in whatever notation."""
    expected, present = Counter(numbers(source)), Counter(numbers(output))
    missing = expected - present - Counter(map(_ascii, _IN_NAME.findall(source)))
    added = present - expected - Counter(map(_ascii, _IN_NAME.findall(output)))
    for number in list(missing.elements()):
        same = next((other for other in added if _same_value(number, other)), None)
        if same is not None:
            missing -= Counter([number])
            added -= Counter([same])
    if missing and added:
        # 5:30 and 5.30, or dates in another order: the same digits, with other signs between them.
        missing, added = _parts(missing), _parts(added)
        missing, added = missing - added, added - missing
    return missing, added


def _same_value(number: str, other: str) -> bool:
    """3.5 and 3.50, or 900 thousand and 900,000."""
    small, large = sorted((Decimal(number), Decimal(other)))
    return any(small.scaleb(scale) == large for scale in SCALES)


def _parts(fractions: Counter[str]) -> Counter[str]:
    """Whole numbers in place of numbers with fractions."""
    return Counter(part.lstrip("0") or "0" for number in fractions.elements() for part in number.split("."))


def _beyond_words(changed: Counter[str]) -> Counter[str]:
    return Counter(number for number in changed.elements() if not (number.isdigit() and int(number) <= WRITTEN_OUT))


def _ascii(digits: str) -> str:
    return "".join(str(unicodedata.decimal(digit)) for digit in digits)


def _is_outlier(length: int, expected: float) -> bool:
    far = abs(length - expected) > FEWEST_CHARACTERS
    return far and expected > 0 and not expected / FACTOR <= length <= expected * FACTOR


def _ends(text: str) -> bool:
    """Whether a text ends as a sentence does, quotes and brackets aside."""
    stripped = text.rstrip()
    while stripped and stripped[-1] in CLOSING:
        stripped = stripped[:-1].rstrip()
    return bool(stripped) and stripped[-1] in FINAL


def _plain(text: str) -> str:
    return " ".join(text.casefold().split())


def _wide(characters: Iterable[str]) -> bool:
    """Whether most characters are of scripts that put no spaces between words."""
    values = [unicodedata.east_asian_width(c) in "WF" or "\u0e00" <= c <= "\u0eff" for c in characters]
    return 2 * sum(values) > len(values)
