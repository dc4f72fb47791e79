"""Numbers as words: in English and German and in Chinese characters, words that scale a number, months, minus.

>>> sorted(spelled("Twenty-five dogs, fünf Millionen Katzen, a hundred birds"))
['100', '25', '5000000']
>>> scaled("万"), scaled("Mio"), scaled("dogs")
((10000,), (1000000,), ())
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from functools import lru_cache

from mbr.guards.language import function_votes

HUNDRED, THOUSAND = 100, 1000
MILLION, MILLIARD, BILLION_DE, TRILLION_DE = 10**6, 10**9, 10**12, 10**18

# What a word after a number multiplies it by; English and German, and the same in other scripts.
_SCALES = {
    HUNDRED: "hundred hundert",
    THOUSAND: "thousand thousands tausend tsd k mille mil тыс тысяч тысячи тысяча אלף אלפים ألف آلاف हज़ार हजार 千",
    10**4: "万 萬",
    10**5: "lakh lakhs लाख",
    MILLION: """million millions millionen mio mln mn millón millones milhão milhões milione milioni miljoen
        миллион миллиона миллионов млн מיליון מיליוני مليون ملايين 百万""",
    10**7: "crore crores करोड़",
    10**8: "亿 億",
    MILLIARD: """milliarde milliarden milliard milliards mrd mld bn billion billions miliardo miliardi miljard
        миллиард миллиарда миллиардов млрд מיליארד مليار""",
    BILLION_DE: "billionen bio trillion trillions tn 兆 триллион триллионов טריליון تريليون",
    TRILLION_DE: "trillionen",
    12: "dozen dutzend",
}
_MULTIPLIERS = {word: factor for factor, words in _SCALES.items() for word in words.split()}
# Capitals may be German, where a Billion is a million millions; k and m may be units.
_AMBIGUOUS = {"Billion": (MILLIARD, BILLION_DE), "Trillion": (BILLION_DE, TRILLION_DE)}
_WIDE_SCALE = re.compile("百万|[千万萬亿億兆]")


def _words(text: str) -> list[str]:
    return text.split()


_UNITS = _words(
    """zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen
    eighteen nineteen"""
)
_TENS = _words("twenty thirty forty fifty sixty seventy eighty ninety")
_ORDINALS = _words(
    """zeroth first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth thirteenth fourteenth
    fifteenth sixteenth seventeenth eighteenth nineteenth"""
)
_OTHER_WORDS = {
    0: "null kein keine no",
    1: "a an once single ein eine einen einem einer eines eins erste ersten erster erstes einmal einzige einzigen",
    2: "twice both couple pair double twin zweite zweiten zweiter beide beiden beider beides paar doppelt doppelte",
    3: "thrice triple dritte dritten dritter drittes drittel",
    4: "quarter quadruple viertel",
    7: "siebte siebten siebter siebtes week woche",
    10: "decade decades jahrzehnt jahrzehnte jahrzehnten",
    12: "dozen dozens dutzend dutzende",
    14: "fortnight",
    100: "century centuries jahrhundert jahrhunderte jahrhunderten",
}
_ENGLISH = {
    **{word: value for value, word in enumerate(_UNITS)},
    **{word: value for value, word in enumerate(_ORDINALS)},
    **{word: 10 * value for value, word in enumerate(_TENS, 2)},
    **{word[:-1] + "ieth": 10 * value for value, word in enumerate(_TENS, 2)},
}
_OTHERS = {word: value for value, words in _OTHER_WORDS.items() for word in words.split()}
_GERMAN_CARDINALS = _words(
    """null ein zwei drei vier fünf sechs sieben acht neun zehn elf zwölf dreizehn vierzehn fünfzehn sechzehn siebzehn
    achtzehn neunzehn"""
)
_GERMAN_UNITS = {word: value for value, word in enumerate(_GERMAN_CARDINALS)} | {"eine": 1, "zwo": 2}
_GERMAN_TENS = {
    word: 10 * value
    for value, word in enumerate(_words("zwanzig dreißig vierzig fünfzig sechzig siebzig achtzig neunzig"), 2)
}
_UNIT = "|".join(sorted(_GERMAN_UNITS, key=len, reverse=True))
_TEN = "|".join(_GERMAN_TENS)
_BELOW_HUNDRED = rf"(?:(?:{_UNIT})und(?:{_TEN})|{_TEN}|{_UNIT})"
_BELOW_THOUSAND = rf"(?:(?:{_BELOW_HUNDRED})?hundert(?:und)?(?:{_BELOW_HUNDRED})?|{_BELOW_HUNDRED})"
_GERMAN = re.compile(rf"(?:(?:{_BELOW_THOUSAND})?tausend(?:und)?(?:{_BELOW_THOUSAND})?|{_BELOW_THOUSAND})")
_ROMAN = re.compile(r"\b(?=[IVX]{2,}\b)X{0,3}(?:IX|IV|V?I{0,3})\b")
_HALF = re.compile(r"\bhalf\b|\bhalb|hälfte", re.IGNORECASE)
_HAN_DIGITS = {character: value for value, character in enumerate("〇一二三四五六七八九")} | {"零": 0, "两": 2, "兩": 2}
_HAN_UNITS = {"十": 10, "百": 100, "千": 1000}
_HAN_MYRIADS = {"万": 10**4, "萬": 10**4, "亿": 10**8, "億": 10**8}
_HAN = re.compile(f"(?<!\\d)[{''.join([*_HAN_DIGITS, *_HAN_UNITS, *_HAN_MYRIADS])}]{{2,}}")
_WORDS = re.compile(r"[^\W\d_]+")
_WORDS_AND_BREAKS = re.compile(r"[^\W\d_]+|\n")
_BEYOND_LATIN = re.compile("[\u0370-\u1dff\u2e80-\ua4cf\uac00-\ufdff]")
_MONTHS = _words(
    """january february march april may june july august september october november december
    januar februar märz april mai juni juli august september oktober november dezember"""
)
MONTHS = {name: place % 12 + 1 for place, name in enumerate(_MONTHS)} | {
    name[:3]: place % 12 + 1 for place, name in enumerate(_MONTHS)
}
TO = ("to", "and", "or", "bis", "und", "oder", "à", "ל", "עד", "до")  # between two numbers of a range
MINUS = re.compile(
    r"\bminus\b|\bnegativ|below (?:zero|freezing)|unter (?:dem )?(?:null|gefrierpunkt)|moins|menos|минус|מינוס"
    "|負|负|零下",
    re.IGNORECASE,
)


def scaled(word: str) -> tuple[int, ...]:
    """What a word after a number multiplies it by; several where it may mean several things, none where it is none."""
    if word in _AMBIGUOUS:
        return _AMBIGUOUS[word]
    factor = _MULTIPLIERS.get(word.casefold())
    if factor is None and (wide := _WIDE_SCALE.match(word)):
        factor = _MULTIPLIERS[wide[0]]
    return () if factor is None else (factor,)


def spelled(text: str) -> Counter[str]:
    """Numbers that the text has as words, in plain digits: cardinals, ordinals, Roman numerals, `both` for 2.

    Half is 0.5, 1/2 and 50 (percent).
    """
    values: Counter[str] = Counter()
    run: list[int] = []  # of cardinals that follow each other
    for word in _WORDS_AND_BREAKS.findall(text.casefold()):
        value, ends = _value_of(word)
        if value is not None:
            run.append(value)
        if run and (ends or (value is None and not (run[-1] >= HUNDRED and word in ("and", "und")))):
            values.update(_totals(run))
            run = []
    values.update(_totals(run))
    values.update(str(_roman(numeral)) for numeral in _ROMAN.findall(text))
    if not text.isascii():
        values.update(str(_han(numeral)) for numeral in _HAN.findall(text))
    halves = len(_HALF.findall(text))
    return values + Counter({"0.5": halves, "1/2": halves, "50": halves})


@lru_cache(maxsize=50_000)
def is_number_word(word: str) -> bool:
    """Whether a word between spaces holds a number other than one, which articles are as well."""
    values = (_value_of(part)[0] for part in _WORDS.findall(word.casefold()))
    return any(value not in (None, 1) for value in values) or any(
        pattern.search(word) for pattern in (_ROMAN, _HALF, _HAN)
    )


def months(text: str) -> set[str]:
    """Numbers of the months that a text names."""
    names = (MONTHS.get(word.casefold()) for word in _WORDS.findall(text))
    return {str(number) for number in names if number is not None}


def writes_numbers_out(text: str, words: Iterable[str] | None = None) -> bool:
    """Whether a text is in a language whose number words are unknown here, so that a number may have become one.

    `words`: those of the text between spaces, or each of them once.
    """
    if not text.isascii() and _BEYOND_LATIN.search(text):
        return True
    votes = function_votes(text.split() if words is None else words)
    return any(count > 1 and count > max(votes.get("en", 0), votes.get("de", 0)) for count in votes.values())


@lru_cache(maxsize=50_000)
def _value_of(word: str) -> tuple[int | None, bool]:
    """The number of a word, and whether no other number word can go on from it."""
    if word in _ENGLISH:
        return _ENGLISH[word], word in _ORDINALS or word.endswith("ieth")
    if word in _MULTIPLIERS and len(word) > 1:
        return _MULTIPLIERS[word], False
    if word in _OTHERS:
        return _OTHERS[word], word not in ("a", "an", "ein", "eine", "einen", "einer", "einem")
    if word.startswith(("zweit", "dritt")):  # Zweitwohnung, Drittanbieter
        return (2 if word.startswith("zweit") else 3), True
    compound = _GERMAN.match(word)
    if compound is None or (compound.end() < len(word) and compound[0] in ("ein", "eine", "null")):
        return None, False
    return _german(compound[0]), compound.end() < len(word)


def _german(word: str) -> int:
    """A German cardinal below a million; `word` has the form of one."""
    for name, factor in (("tausend", THOUSAND), ("hundert", HUNDRED)):
        if name in word:
            before, _, after = word.partition(name)
            return (_german(before) if before else 1) * factor + _german(after.removeprefix("und") or "null")
    if word in _GERMAN_UNITS:
        return _GERMAN_UNITS[word]
    unit, _, ten = word.rpartition("und")
    return _GERMAN_UNITS.get(unit, 0) + _GERMAN_TENS[ten]


def _totals(run: list[int]) -> list[str]:
    """The numbers that consecutive number words are: two hundred fifty is one, one two three are three."""
    totals: list[int] = []
    total = current = 0
    last: int | None = None
    for value in run:
        if value in _SCALES and value >= HUNDRED and last is not None and last < value:
            if value == HUNDRED:
                current *= HUNDRED
            else:
                total, current = total + max(current, 1) * value, 0
        elif last is None:
            current = value
        elif last % 10 == 0 and 0 < value < last and (last > 10):
            current += value
        else:
            totals.append(total + current)
            total, current = 0, value
        last = value
    return [str(number) for number in ([*totals, total + current] if run else [])]


def _roman(numeral: str) -> int:
    values = {"I": 1, "V": 5, "X": 10}
    digits = [values[letter] for letter in numeral]
    return sum(
        -value if value < following else value for value, following in zip(digits, [*digits[1:], 0], strict=True)
    )


def _han(numeral: str) -> int:
    """A number in Chinese characters: 二百五十, or digit by digit as in 二〇二〇."""
    if all(character in _HAN_DIGITS for character in numeral):
        return int("".join(str(_HAN_DIGITS[character]) for character in numeral))
    total = section = digit = 0
    for character in numeral:
        if character in _HAN_DIGITS:
            digit = _HAN_DIGITS[character]
        elif character in _HAN_UNITS:
            section, digit = section + (digit or 1) * _HAN_UNITS[character], 0
        else:
            factor, below = _HAN_MYRIADS[character], section + digit
            total = (total + below) * factor if factor > 10**4 else total + (below or 1) * factor
            section = digit = 0
    return total + section + digit
