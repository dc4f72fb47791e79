"""Numbers: those of the source, in whatever notation, and no others.

1,000.5 equals 1.000,5; 2.5 equals 2,50; 900 thousand equals 900,000; digits of all scripts count. A number may become a
word, or come from one (`mbr.guards.number_words`: English and German; in languages whose number words are unknown here,
up to twelve). 5 pm may become 17 Uhr, the 1990s the 90er, 2020/21 2020/2021; dates and times may have other signs, and
dates another order.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cached_property

from mbr.guards.base import Guard, ListTexts
from mbr.guards.marks import marks
from mbr.guards.notation import Number, numbers
from mbr.guards.number_words import MINUS, months, spelled, writes_numbers_out

WRITTEN_OUT = 12  # numbers up to this are often written out, in any language
_AFTERNOON = re.compile(r"\d\s?p\.?\s?m\b|afternoon|evening|tonight|nachmittag|abend", re.IGNORECASE)
_DASH = re.compile(r"[-\u2212\u2013]\s?\d")
_LARGEST_HOUR = 12
_TIMES = ("time", "maybe time")
_DATES = ("date", "maybe date")

Counted = Counter[Number]
Differences = tuple[Counted, Counted]  # numbers that the output lacks, and numbers that it adds


class Numbers(Guard):
    """The numbers of the source."""

    name = "numbers"
    summary = "the numbers of the source, in any notation (1,000.5 is 1.000,5; 3 is drei)"

    def faults(self, listed: ListTexts) -> list[float]:
        if not listed.has_digits:
            return listed.kept
        source = _Source(listed.source)
        own = listed.derived(marks)
        by_mark = {mark: source.changed_marks(mark) for mark in set(own)}
        open_marks = {mark for mark, changed in by_mark.items() if _depends_on_text(*changed)}

        def severity(missing: Counted, added: Counted) -> float:
            missing, added = source.without_small(missing, added, lambda: listed.derived(_words_unknown))
            changed = missing.total() + added.total()
            return min(changed / (source.expected.total() + added.total()), 1.0) if changed else 0.0

        severities = {mark: severity(*changed) for mark, changed in by_mark.items() if mark not in open_marks}
        return [
            severity(*source.differences(text)) if mark in open_marks else severities[mark]
            for mark, text in zip(own, listed.texts, strict=True)
        ]


def changed_numbers(source: str, output: str, references: Sequence[str] = ()) -> tuple[list[str], list[str]]:
    """Numbers of the source that the output lacks, and numbers of the output that the source lacks.

    A number that a reference lacks or adds may be lacked or added by the output as often. A number in a name such as
    COVID-19 may be left out or added.
    """
    missing, added = _Source(source).changed(output, references)
    return sorted(number.value for number in missing.elements()), sorted(number.value for number in added.elements())


class _Source:
    """The numbers of a source, to compare with those of many candidates."""

    def __init__(self, source: str) -> None:
        self.expected = Counter(numbers(source))
        self._source = source

    @cached_property
    def _words(self) -> Counter[str]:
        return spelled(self._source)

    def changed_marks(self, mark: str) -> Differences:
        """`differences` as far as the marks of a text show them (`mbr.guards.marks`)."""
        present = Counter(numbers(mark))
        if present == self.expected:
            return Counted(), Counted()
        missing, added = _without_pairs(self.expected - present, present - self.expected, _same)
        missing, added = _without_parts(missing, added, "")
        added, missing = _without_parts(added, missing, "")
        return self._without_words(_without_names(missing), _without_names(added), mark)

    def changed(self, output: str, references: Sequence[str] = ()) -> Differences:
        """The numbers that the output lacks and adds, those aside that a reference lacks or adds as often."""
        missing, added = self._changed(output)
        if references and (missing or added):
            left_out, put_in = Counted(), Counted()  # by the most generous reference
            for reference in references:
                lacked, extra = self._changed(reference)
                left_out, put_in = left_out | lacked, put_in | extra
            missing, added = missing - left_out, added - put_in
        return missing, added

    def _changed(self, output: str) -> Differences:
        return self.without_small(*self.differences(output), lambda: writes_numbers_out(output))

    def without_small(self, missing: Counted, added: Counted, unknown: Callable[[], bool]) -> Differences:
        """Without small numbers that may have become words, or come from words, of a language that is unknown here.

        `unknown`: whether the language of the output is.
        """
        if any(map(_is_small, missing)) and unknown():
            missing = Counter({number: count for number, count in missing.items() if not _is_small(number)})
        if any(map(_is_small, added)) and self._words_unknown:
            added = Counter({number: count for number, count in added.items() if not _is_small(number)})
        return missing, added

    @cached_property
    def _words_unknown(self) -> bool:
        return writes_numbers_out(self._source)

    def differences(self, output: str) -> Differences:
        """Numbers that the output lacks and adds; one that may be a word of an unknown language is among them."""
        present = Counter(numbers(output))
        if present == self.expected:
            return Counted(), Counted()
        missing, added = self.expected - present, present - self.expected
        missing, added = _without_pairs(missing, added, _same)
        missing, added = _without_parts(missing, added, output)
        added, missing = _without_parts(added, missing, self._source)
        if missing and added:
            missing, added = self._without_other_notation(missing, added, output)
        return self._without_words(_without_names(missing), _without_names(added), output)

    def _without_words(self, missing: Counted, added: Counted, output: str) -> Differences:
        """Without numbers that the other text has as words."""
        return (
            _without_words(missing, spelled(output)) if missing else missing,
            _without_words(added, self._words) if added else added,
        )

    def _without_other_notation(self, missing: Counted, added: Counted, output: str) -> Differences:
        """Without hours of the afternoon, and numbers whose minus is a word, or stands apart."""
        if _AFTERNOON.search(self._source) or _AFTERNOON.search(output):
            missing, added = _without_pairs(missing, added, _same_hour)
        if all(MINUS.search(text) or _DASH.search(text) for text in (self._source, output)):
            missing, added = _without_pairs(missing, added, _same_amount)
        return missing, added


def _without_pairs(missing: Counted, added: Counted, same: Callable[[Number, Number], bool]) -> Differences:
    """Without the numbers that are the same in another form."""
    if not missing or not added:
        return missing, added
    missing, added = missing.copy(), added.copy()
    for number in list(missing.elements()):
        if (other := next((other for other in added if same(number, other)), None)) is not None:
            missing -= Counter([number])
            added -= Counter([other])
    return missing, added


def _without_parts(whole: Counted, others: Counted, text: str) -> Differences:
    """Without dates, times and lists whose parts are numbers of their own in the other text, or months there."""
    for number in [number for number in whole.elements() if number.kind in (*_DATES, "time", "list")]:
        named = Counter(months(text)) if number.kind in _DATES else Counter[str]()
        used = Counted()
        for part in number.parts:
            other = next((other for other in others - used if _is_part(part, other, number.kind)), None)
            if other is not None:
                used[other] += 1
            elif named[part]:
                named[part] -= 1
            else:
                break
        else:
            whole, others = whole - Counter([number]), others - used
    return whole, others


def _is_part(part: str, other: Number, kind: str) -> bool:
    if other.kind != "number":
        return False
    return part in (other.value, *other.others) or (kind == "date" and _same_part(part, other.value))


def _without_names(changed: Counted) -> Counted:
    return Counter({number: count for number, count in changed.items() if not number.in_name})


def _without_words(changed: Counted, words: Counter[str]) -> Counted:
    words = words.copy()
    remaining = Counted()
    for number in changed.elements():
        if words[number.value]:
            words[number.value] -= 1
        else:
            remaining[number] += 1
    return remaining


def _is_small(number: Number) -> bool:
    """Whether it is often written out, in any language."""
    return number.value.isdigit() and int(number.value) <= WRITTEN_OUT


def _depends_on_text(missing: Counted, added: Counted) -> bool:
    """Whether words that are no marks may explain the difference: months, minus, articles, the afternoon."""
    numbers = (*missing, *added)
    return any(number.kind in _DATES or number.negative or number.value == "1" for number in numbers) or any(
        _same_hour(number, other) for number in missing for other in added
    )


def _words_unknown(listed: ListTexts) -> bool:
    """Whether the number words of the candidates' language are unknown here."""
    return writes_numbers_out(listed.joined, listed.distinct_words)


def _same(number: Number, other: Number) -> bool:
    """3.5 and 3.50, the 1990s and the 90s, 5:30 and 5.30, 12.5.2020 and 5/12/2020."""
    values = {number.value, *number.others}
    if values.intersection((other.value, *other.others)):
        return number.negative == other.negative
    kinds = {number.kind, other.kind}
    if kinds <= {*_TIMES} and "time" in kinds:
        return number.parts == other.parts
    if kinds <= {*_DATES} and "date" in kinds:
        pairs = zip(sorted(number.parts, key=_last_digits), sorted(other.parts, key=_last_digits), strict=False)
        return len(number.parts) == len(other.parts) and all(_same_part(*pair) for pair in pairs)
    return False


def _last_digits(part: str) -> str:
    return part.zfill(2)[-2:]


def _same_part(part: str, other: str) -> bool:
    short, long = sorted((part, other), key=len)
    return part == other or (len(long) == 4 and len(short) <= 2 and long.endswith(short.zfill(2)))


def _same_hour(number: Number, other: Number) -> bool:
    """5 pm and 17 Uhr, 5:30 pm and 17.30 Uhr."""
    first, second = number.parts or (number.value,), other.parts or (other.value,)
    if first[1:] != second[1:] or not (first[0].isdigit() and second[0].isdigit()):
        return False
    early, late = sorted((int(first[0]), int(second[0])))
    return early <= _LARGEST_HOUR and late == early + _LARGEST_HOUR


def _same_amount(number: Number, other: Number) -> bool:
    return number.value == other.value
