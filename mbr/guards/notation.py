"""The numbers that a text has in digits, whatever their notation: 1,000.5 and 1.000,5; 2.5 million and 2,5 Mio.; 5:30.

A number may be read in several ways ('90 as 1990, 5m as 5 million), and dates, times and lists (3,4) have parts.

>>> [number.value for number in numbers("1,000.5 of 2.5 million on 12/05/2020 at 5:30, -3 °C")]
['1000.5', '2500000', '12/5/2020', '5:30', '3']
"""

from __future__ import annotations

import re
import unicodedata
from decimal import Decimal
from functools import lru_cache
from typing import Literal, NamedTuple

from mbr.guards.number_words import TO, scaled

Kind = Literal["number", "date", "time", "list", "maybe date", "maybe time"]
_SPACES = " \u00a0\u2009\u202f"
_DIGIT = re.compile(r"\d")
_DIGITS = re.compile(r"\d+")
_OTHER_DIGIT = re.compile(r"(?![0-9])\d")
# Thousands in groups of three after one sign throughout, or Indian ones of two and then three; else plain digits; and
# maybe a fraction.
_NUMBER = re.compile(
    rf"(?P<whole>(?!0)\d{{1,3}}(?P<sign>[{_SPACES}.,'’\u066c])\d{{3}}(?:(?P=sign)\d{{3}})*(?!\d)"
    r"|\d{1,2}(?:,\d{2})+,\d{3}(?!\d)"
    r"|\d+)"
    r"(?:(?P<point>[.,\u066b])(?P<fraction>\d+))?"
)
_DATE = re.compile(r"(?:\d{4}([-/.])\d{1,2}\1\d{1,2}|\d{1,2}([-/.])\d{1,2}\2(?:\d{4}|\d{2}))(?!\d)")
_SHORT_DATE = re.compile(r"\d{1,2}/\d{1,2}(?![\d/])")  # or a fraction
_TIME = re.compile(r"\d{1,2}:\d{2}(?::\d{2})?(?![\d:])|\d{1,2} ?h ?\d{2}(?!\d)")
_FULL_HOUR = re.compile(r"(?::00)+(?![\d:])")
_CLOCK = re.compile(rf"[{_SPACES}]?(?:uhr\b|h\b|[ap]\.?[{_SPACES}]?m\b)", re.IGNORECASE)
_NEXT_WORD = re.compile(rf"([{_SPACES}]|[-\u2010\u2011])?([^\W\d_]+)")
_CURRENCY = re.compile(rf"[$€£¥₹][{_SPACES}]?$")
_SHORT_YEAR = re.compile(r"['’]?(?:s|er|ern)\b")
_BEFORE_YEAR = re.compile(r"(?:\d{4}[-\u2010-\u2013/]|/|['’])$")
_NEGATIVE = re.compile(r"(?:^|[\s(\[„“\"])[-\u2212\u2013]$")
# COVID-19 may become the virus. Three letters at least: in Hebrew shorter ones are prepositions, and the number counts.
_IN_NAME = re.compile(r"[^\W\d_]{3}[-\u2010\u2011]$")
_CENTURIES = ("18", "19", "20")
_UNITS = {"k": 1000, "K": 1000, "m": 10**6, "M": 10**6, "b": 10**9, "B": 10**9}  # or a unit: 5m is 5 metres as well
_RANGE = 8  # characters between two numbers that may share a scale
_TO = re.compile(rf"\s?(?:[-\u2010-\u2015]|(?:{'|'.join(TO)})-?)\s?", re.IGNORECASE)
_LONGEST = 60  # digits of a value: what is longer is no quantity


class Number(NamedTuple):
    """A number: its usual value in plain digits, other values it may have, the parts of a date, time or list."""

    value: str
    others: tuple[str, ...] = ()
    kind: Kind = "number"
    parts: tuple[str, ...] = ()
    negative: bool = False
    in_name: bool = False
    factor: int = 1  # of the word that scales it; only while a text is read


def numbers(text: str) -> list[Number]:
    """The numbers of a text, in their order."""
    if not text.isascii():
        text = _OTHER_DIGIT.sub(lambda digit: str(unicodedata.decimal(digit[0])), text)
    values: list[Number] = []
    end = 0
    while digit := _DIGIT.search(text, end):  # digits first: faster than trying the whole pattern everywhere
        between = text[end : digit.start()]
        number, end = _read(text, digit.start())
        if values and number.factor > 1 and len(between) <= _RANGE:
            values[-1] = _in_range(values[-1], between, number.factor)
        values.append(number._replace(factor=1))
    return values


def _in_range(number: Number, between: str, factor: int) -> Number:
    """A number that may share the scale of the next one: 3 to 5 million."""
    if number.kind != "number" or not _TO.fullmatch(between):
        return number
    return number._replace(others=(*number.others, _times(number.value, factor)))


def _read(text: str, begin: int) -> tuple[Number, int]:
    """The number that begins here, and where it ends."""
    in_name = _IN_NAME.search(text, max(begin - 4, 0), begin) is not None
    negative = _NEGATIVE.search(text, max(begin - 2, 0), begin) is not None
    if date := _DATE.match(text, begin) or _SHORT_DATE.match(text, begin):
        parts = tuple(_plain(part) for part in re.split("[-/.]", date[0]))
        kind: Kind = "date" if len(parts) == 3 else "maybe date"
        return Number("/".join(parts), kind=kind, parts=parts), date.end()
    if time := _TIME.match(text, begin):
        parts = tuple(_plain(part) for part in _DIGITS.findall(_FULL_HOUR.sub("", time[0])))
        if len(parts) == 1:
            return Number(parts[0]), time.end()
        return Number(":".join(parts), kind="time", parts=parts), time.end()
    match = _NUMBER.match(text, begin)
    assert match is not None  # plain digits are one of its forms
    end = match.end()
    whole, fraction = _plain("".join(_DIGITS.findall(match["whole"]))), match["fraction"]
    if fraction is None:
        value, others, factor, end = _scaled(text, begin, end, whole)
        others = (*others, *_years(text, match))
        return Number(value, others, negative=negative, in_name=in_name, factor=factor), end
    kind, parts = _parts(text, match, whole, fraction)
    if kind == "time":
        return (Number(parts[0]) if parts[1] == "0" else Number(":".join(parts), kind=kind, parts=parts)), end
    value, others, factor, end = _scaled(text, begin, end, f"{whole}.{fraction}")
    return Number(value, others, kind, parts, negative, in_name, factor), end


def _plain(digits: str) -> str:
    return digits.lstrip("0") or "0"


def _parts(text: str, match: re.Match[str], whole: str, fraction: str) -> tuple[Kind, tuple[str, ...]]:
    """What two numbers with a point or a comma between them may be, beside a fraction."""
    parts = (whole, _plain(fraction))
    if match["point"] != ".":
        return "list", parts
    if len(fraction) == 2 and len(whole) <= 2 and int(fraction) < 60 and int(whole) <= 24:
        return ("time" if _CLOCK.match(text, match.end()) else "maybe time"), parts
    day_and_month = len(whole) <= 2 and int(whole) <= 31 and len(fraction) <= 2 and 0 < int(fraction) <= 12
    return ("maybe date", parts) if day_and_month and text[match.end() : match.end() + 1] == "." else ("number", ())


def _scaled(text: str, begin: int, end: int, value: str) -> tuple[str, tuple[str, ...], int, int]:
    """The value with the scale of the word that follows it, other values, that scale, and where the word ends."""
    following = _NEXT_WORD.match(text, end)
    if following is not None:
        word, attached = following[2], following[1] is None
        if attached and word in _UNITS:
            values = (value, _times(value, _UNITS[word]))
            usual = values[::-1] if _CURRENCY.search(text, max(begin - 2, 0), begin) else values
            return _normal(usual[0]), (_normal(usual[1]),), _UNITS[word], following.end()
        if (len(word) > 1 or not word.isascii()) and (factors := scaled(word)):
            scales = tuple(_times(value, factor) for factor in factors)
            return scales[0], scales[1:], factors[0], following.end()
    return _normal(value), (), 1, end


@lru_cache(maxsize=10_000)
def _times(value: str, factor: int) -> str:
    return _normal(str(Decimal(value) * factor)) if len(value) < _LONGEST else value


def _normal(value: str) -> str:
    """Without zeros at the end of the fraction."""
    return value.rstrip("0").rstrip(".") if "." in value else value


def _years(text: str, match: re.Match[str]) -> tuple[str, ...]:
    """The years that two digits may stand for: the 90s, '90, 2020/21."""
    digits = match["whole"]
    if len(digits) != 2 or not digits.isdigit():
        return ()
    begin, end = match.span()
    if _SHORT_YEAR.match(text, end) or _BEFORE_YEAR.search(text, max(begin - 5, 0), begin):
        return tuple(century + digits for century in _CENTURIES)
    return ()
