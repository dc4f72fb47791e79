"""Numbers: those of the source, in whatever notation, and no others.

1,000.5 equals 1.000,5; 2.5 equals 2,50; 900 thousand equals 900,000; digits of all scripts count. Up to twelve a number
may become a word, or come from one; with English and German words it must be the right one. 5 pm may become 17 Uhr,
1990s 90er, 2020/21 2020/2021, and dates and times may have other signs and another order.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Sequence
from decimal import Decimal
from functools import cached_property, lru_cache

from mbr.guards.base import Guard, ListTexts

SCALES = (0, 3, 6, 9)  # powers of ten that a word may stand for: 900 thousand is 900,000
WRITTEN_OUT = 12  # numbers up to this are often spelled out: one that is only missing, or only added, is no error

# Thousands in groups of three after one sign throughout, or Indian ones of two and then three; else plain digits; and
# maybe a fraction.
_NUMBER = re.compile(
    r"(?P<whole>(?!0)\d{1,3}(?P<sign>[ \u00a0\u2009\u202f.,'’\u066c])\d{3}(?:(?P=sign)\d{3})*(?!\d)"
    r"|\d{1,2}(?:,\d{2})+,\d{3}(?!\d)"
    r"|\d+)"
    r"(?:[.,\u066b](?P<fraction>\d+))?"
)
_DIGITS = re.compile(r"\d+")
_NOTATION = re.compile(r"\d[\d.,:'’ \u00a0\u2009\u202f\u066b\u066c]*")
_FULL_HOUR = re.compile(r"(?::00)+(?![\d:])")
# COVID-19 may become the virus. Three letters at least: in Hebrew shorter ones are prepositions, and the number counts.
_HYPHENS = "-\u2010\u2011"
_IN_NAME = re.compile(r"(?<=[^\W\d_]{3}[-\u2010\u2011])\d+")
_WORDS = re.compile(r"[^\W\d_]+")
_AFTERNOON = re.compile(r"\d\s?p\.?\s?m\b|afternoon|evening|tonight|nachmittag|abend", re.IGNORECASE)
_LARGEST_HOUR = 12

# Words by which a small number is written out; those that mean something else as well only excuse, never accuse.
_SPELLED = {
    0: "zero null",
    1: "one first once ein eine einen einem einer eines eins erste ersten erster erstes ersten einmal",
    2: "two second twice both couple pair zwei zweite zweiten zweiter zweites zweimal beide beiden beider beides paar",
    3: "three third thrice drei dritte dritten dritter drittes dreimal dreien",
    4: "four fourth quarter vier vierte vierten vierter viertes viermal viertel",
    5: "five fifth fünf fünfte fünften fünfter fünftes fünfmal",
    6: "six sixth sechs sechste sechsten sechster sechstes sechsmal",
    7: "seven seventh sieben siebte siebten siebter siebtes siebenmal",
    8: "eight eighth acht achte achten achter achtes achtmal",
    9: "nine ninth neun neunte neunten neunter neuntes neunmal",
    10: "ten tenth zehn zehnte zehnten zehnter zehntes zehnmal",
    11: "eleven eleventh elf elfte elften elfter elftes elfmal",
    12: "twelve twelfth dozen zwölf zwölfte zwölften zwölfter zwölftes zwölfmal dutzend",
}
_VALUES = {word: value for value, words in _SPELLED.items() for word in words.split()}
# Words that are nothing but a number, from two on; they accuse where the number should be another one.
_CARDINALS = {
    word: _VALUES[word]
    for word in (
        *("two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"),
        *("zwei", "drei", "vier", "fünf", "sechs", "sieben", "neun", "zehn", "zwölf"),
    )
}
_STEMS = re.compile(r"(zwei|drei|vier|fünf|sechs|sieben|acht|neun|zehn|elf|zwölf)\w+")


class Numbers(Guard):
    """The numbers of the source."""

    name = "numbers"
    summary = "the numbers of the source, in any notation (1,000.5 is 1.000,5; 3 is drei)"

    def faults(self, listed: ListTexts) -> list[float]:
        if not listed.has_digits:
            return listed.kept
        source = _Source(listed.source)
        severities = listed.kept
        for place, text in enumerate(listed.texts):
            missing, added = source.changed(text)
            if missing or added:
                changed = missing.total() + added.total()
                severities[place] = min(changed / (source.expected.total() + added.total()), 1.0)
        return severities


def changed_numbers(source: str, output: str, references: Sequence[str] = ()) -> tuple[list[str], list[str]]:
    """Numbers of the source that the output lacks, and numbers of the output that the source lacks.

    A number that a reference lacks or adds may be lacked or added by the output as often. A number in a name such as
    COVID-19 may be left out or added, and a small one alone may have become a word, or come from one.
    """
    missing, added = _Source(source).changed(output, references)
    return sorted(missing.elements()), sorted(added.elements())


class _Source:
    """The numbers of a source, to compare with those of many candidates, most of which have the same ones."""

    def __init__(self, source: str) -> None:
        self.expected = Counter(numbers(source))
        self._source = source
        self._in_names = Counter(map(_ascii, _IN_NAME.findall(source)))
        self._present: dict[tuple[str, ...], Counter[str]] = {}
        self._differences: dict[tuple[tuple[str, ...], tuple[str, ...]], tuple[Counter[str], Counter[str]]] = {}

    @cached_property
    def _spelled(self) -> Counter[str]:
        return _spelled(self._source)

    def changed(self, output: str, references: Sequence[str] = ()) -> tuple[Counter[str], Counter[str]]:
        missing, added = self.differences(output)
        if not missing and not added:
            return missing, added
        left_out, put_in = Counter[str](), Counter[str]()  # by the most generous reference
        for reference in references:
            lacked, extra = self.differences(reference)
            left_out |= lacked | _parts(lacked)
            put_in |= extra | _parts(extra)
        missing, added = missing - left_out, added - put_in
        if missing and added:
            missing, added = _without_pairs(missing, added, _same_year)
        if any(_same_hour(number, other) for number in missing for other in added) and (
            _AFTERNOON.search(self._source) or _AFTERNOON.search(output)
        ):
            missing, added = _without_pairs(missing, added, _same_hour)
        if _has_small(missing):
            missing = missing - _spelled(output)
        if _has_small(added):
            added = added - self._spelled
        if (not missing or not added) and (references or not self._contradicts(output, missing)):
            missing, added = _beyond_words(missing), _beyond_words(added)
        return missing, added

    def differences(self, output: str) -> tuple[Counter[str], Counter[str]]:
        """Numbers that the output lacks, and those that it adds, in whatever notation."""
        notation = tuple(_NOTATION.findall(output))
        if notation not in self._present:
            self._present[notation] = Counter(numbers("\n".join(notation)))
        present = self._present[notation]
        if present == self.expected:
            return Counter(), Counter()
        key = (notation, tuple(_IN_NAME.findall(output)) if any(map(output.__contains__, _HYPHENS)) else ())
        if key not in self._differences:
            self._differences[key] = self._compare(present, key[1])
        return self._differences[key]

    def _compare(self, present: Counter[str], names: tuple[str, ...]) -> tuple[Counter[str], Counter[str]]:
        missing = self.expected - present - self._in_names
        added = present - self.expected - Counter(map(_ascii, names))
        if missing and added:
            missing, added = _without_pairs(missing, added, _same_value)
        if missing and added:
            # 5:30 and 5.30, or dates in another order: the same digits, with other signs between them.
            missing, added = _parts(missing), _parts(added)
            missing, added = missing - added, added - missing
        return missing, added

    def _contradicts(self, output: str, missing: Counter[str]) -> bool:
        """Whether a number that is missing has become the word of another one: `3 dogs`, `fünf Hunde`."""
        if not _has_small(missing):
            return False
        words = {_CARDINALS.get(part) for word in output.split() for part in _parts_of(word)} - {None}
        of_source = self.expected.keys() | self._spelled.keys()
        return any(str(value) not in of_source for value in words)


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


def _without_pairs(
    missing: Counter[str], added: Counter[str], same: Callable[[str, str], bool]
) -> tuple[Counter[str], Counter[str]]:
    """Without the numbers that are the same in another form."""
    missing, added = missing.copy(), added.copy()
    for number in list(missing.elements()):
        if (other := next((other for other in added if same(number, other)), None)) is not None:
            missing -= Counter([number])
            added -= Counter([other])
    return missing, added


def _same_value(number: str, other: str) -> bool:
    """3.5 and 3.50, or 900 thousand and 900,000."""
    if number.replace(".", "").strip("0") != other.replace(".", "").strip("0"):
        return False
    small, large = sorted((Decimal(number), Decimal(other)))
    return any(small.scaleb(scale) == large for scale in SCALES)


def _same_year(number: str, other: str) -> bool:
    """1990 and 90."""
    short, long = sorted((number, other), key=len)
    return len(short.zfill(2)) == 2 and len(long) == 4 and long[0] in "12" and long.endswith(short.zfill(2))


def _same_hour(number: str, other: str) -> bool:
    """5 pm and 17 Uhr."""
    if not (number.isdigit() and other.isdigit()):
        return False
    early, late = sorted((int(number), int(other)))
    return early <= _LARGEST_HOUR and late == early + _LARGEST_HOUR


def _parts(fractions: Counter[str]) -> Counter[str]:
    """Whole numbers in place of numbers with fractions."""
    return Counter(part.lstrip("0") or "0" for number in fractions.elements() for part in number.split("."))


def _has_small(changed: Counter[str]) -> bool:
    return any(map(_is_small, changed))


def _is_small(number: str) -> bool:
    """Whether it is often written out."""
    return number.isdigit() and int(number) <= WRITTEN_OUT


def _beyond_words(changed: Counter[str]) -> Counter[str]:
    return Counter(number for number in changed.elements() if not _is_small(number))


def _spelled(text: str) -> Counter[str]:
    """Small numbers that the text has as words."""
    return Counter([value for word in text.split() if (values := _spelled_in(word)) for value in values])


@lru_cache(maxsize=50_000)
def _spelled_in(word: str) -> tuple[str, ...]:
    """Small numbers in one word between spaces, also the first part of a compound: zweijährig."""
    values = []
    for part in _parts_of(word):
        value = _VALUES.get(part)
        if value is None and (compound := _STEMS.match(part)):
            value = _VALUES[compound[1]]
        values += [] if value is None else [str(value)]
    return tuple(values)


@lru_cache(maxsize=50_000)
def _parts_of(word: str) -> list[str]:
    return _WORDS.findall(word.casefold())


def _ascii(digits: str) -> str:
    return digits if digits.isascii() else "".join(str(unicodedata.decimal(digit)) for digit in digits)
