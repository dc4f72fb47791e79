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
        expected = Counter(numbers(listed.source))
        severities = listed.kept
        same: dict[tuple[str, ...], bool] = {}
        for place, text in enumerate(listed.texts):
            notation = tuple(_NOTATION.findall(text))
            if notation not in same:
                same[notation] = expected == Counter(numbers("\n".join(notation)))
            if not same[notation]:
                missing, added = changed_numbers(listed.source, text)
                changed = len(missing) + len(added)
                severities[place] = min(changed / (expected.total() + len(added)), 1.0) if changed else 0.0
        return severities


def changed_numbers(source: str, output: str, references: Sequence[str] = ()) -> tuple[list[str], list[str]]:
    """Numbers of the source that the output lacks, and numbers of the output that the source lacks.

    A number that a reference lacks or adds may be lacked or added by the output as often. A number in a name such as
    COVID-19 may be left out or added, and a small one alone may have become a word, or come from one.
    """
    missing, added = _differences(source, output)
    left_out, put_in = Counter[str](), Counter[str]()  # by the most generous reference
    for reference in references:
        lacked, extra = _differences(source, reference)
        left_out |= lacked | _parts(lacked)
        put_in |= extra | _parts(extra)
    missing, added = missing - left_out, added - put_in
    if not missing and not added:
        return [], []
    missing, added = missing - _spelled(output), added - _spelled(source)
    if missing and added:
        missing, added = _without_pairs(missing, added, _same_year)
        if _AFTERNOON.search(source) or _AFTERNOON.search(output):
            missing, added = _without_pairs(missing, added, _same_hour)
    if (not missing or not added) and (references or not _contradicts(source, output, missing)):
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
    if missing and added:
        missing, added = _without_pairs(missing, added, _same_value)
    if missing and added:
        # 5:30 and 5.30, or dates in another order: the same digits, with other signs between them.
        missing, added = _parts(missing), _parts(added)
        missing, added = missing - added, added - missing
    return missing, added


def _without_pairs(
    missing: Counter[str], added: Counter[str], same: Callable[[str, str], bool]
) -> tuple[Counter[str], Counter[str]]:
    """Without the numbers that are the same in another form."""
    for number in list(missing.elements()):
        if (other := next((other for other in added if same(number, other)), None)) is not None:
            missing -= Counter([number])
            added -= Counter([other])
    return missing, added


def _same_value(number: str, other: str) -> bool:
    """3.5 and 3.50, or 900 thousand and 900,000."""
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


def _beyond_words(changed: Counter[str]) -> Counter[str]:
    return Counter(number for number in changed.elements() if not (number.isdigit() and int(number) <= WRITTEN_OUT))


def _spelled(text: str) -> Counter[str]:
    """Small numbers that the text has as words."""
    found: Counter[str] = Counter()
    for word in _WORDS.findall(text.casefold()):
        value = _VALUES.get(word)
        if value is None and (compound := _STEMS.match(word)):  # zweijährig
            value = _VALUES[compound[1]]
        if value is not None:
            found[str(value)] += 1
    return found


def _contradicts(source: str, output: str, missing: Counter[str]) -> bool:
    """Whether a number that is missing has become the word of another one: `3 dogs`, `fünf Hunde`."""
    if not any(number.isdigit() and int(number) <= WRITTEN_OUT for number in missing):
        return False
    known = set(numbers(source)) | _spelled(source).keys()
    words = {_CARDINALS.get(word) for word in _WORDS.findall(output.casefold())} - {None}
    return any(str(value) not in known for value in words)


def _ascii(digits: str) -> str:
    return digits if digits.isascii() else "".join(str(unicodedata.decimal(digit)) for digit in digits)
