"""Translations damaged on purpose, by kind and by grade: to train a metric on and to find its blind spots.

| kind | grades 1, 2, 3 |
| --- | --- |
| omission | one word, a fifth, two fifths of the words are missing |
| repetition | one word, a fifth, two fifths of the words stand there twice |
| swap | two neighbours, two words apart, a shuffled half |
| word | one word, 15 %, 30 % of the words come from other sentences |
| number | a number off by one, another number, all of several numbers wrong (also zwei, three, ...) |
| negation | one, two, three clauses say the opposite (`negation.py`) |
| sentence | the last third, the second half, all of it comes from another sentence |
| truncation | the last fifth, half, three quarters are missing |
| source | the last third, the second half, all of it is not translated |

Words are what spaces divide, and characters where the target language has none (zh, ja, th).

    >>> import random
    >>> corrupt("Ein Hund bellt.", "negation", 1, source="A dog barks.", pool=[], rng=random.Random(1))
    'Kein Hund bellt.'
"""

from __future__ import annotations

import math
import random
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import blake2b

from candidates.common.errors import InputError, ModelError, UsageError
from pear.data.negation import cased_like, negated, parts

# How bad at least, from 0 (as good as the intact text) to 1 (worthless), for the grades 1, 2, 3. A heuristic: wrong
# facts weigh more than bad style, and a longer damage more than a shorter one.
PENALTIES = {
    "omission": (0.15, 0.25, 0.45),
    "repetition": (0.1, 0.2, 0.4),
    "swap": (0.1, 0.2, 0.4),
    "word": (0.2, 0.35, 0.55),
    "number": (0.25, 0.35, 0.45),
    "negation": (0.4, 0.5, 0.6),
    "sentence": (0.5, 0.7, 1.0),
    "truncation": (0.2, 0.5, 0.75),
    "source": (0.4, 0.6, 1.0),
}
KINDS = tuple(PENALTIES)
GRADES = (1, 2, 3)
DRAWS = 12  # tries to find a fitting word or sentence in the pool

Rng = random.Random
Score = Callable[[Sequence[tuple[str, str, str]]], Sequence[float]]


@dataclass(frozen=True, slots=True)
class Corruption:
    """A damaged translation; `penalty` in (0, 1] is its size."""

    kind: str
    grade: int
    text: str
    penalty: float


def corrupt(
    text: str, kind: str, grade: int, *, source: str, pool: Sequence[str], rng: Rng, lp: str = "en-de"
) -> str | None:
    """Damage a translation; None where the kind does not apply at this grade (no number, too few words).

    `pool` holds other texts of the target language, from which foreign words and sentences come. The result is never
    empty, and its words differ from those of `text`.
    """
    if kind not in PENALTIES or grade not in GRADES:
        raise UsageError(f"no corruption {kind!r} of grade {grade}; expected {', '.join(KINDS)} and 1, 2 or 3")
    target = lp.rpartition("-")[2]
    space = "" if target in UNSPACED else " "
    units = _units(text, space)
    if kind == "negation":
        damaged = negated(text, grade, target, rng)
    elif kind == "number":
        damaged = _numbers(text, grade, target, rng)
    elif kind in ("sentence", "source"):
        other = source if kind == "source" else _like(text, pool, rng)
        damaged = None if other is None else _tail(units, other, grade, space)
    elif kind == "word":
        damaged = _words(units, grade, pool, rng, space)
    else:
        damaged = _joined(SPANS[kind](units, grade, rng), space)
    if damaged is None or not damaged.strip() or _units(damaged, space) == units:
        return None
    return damaged


def corrupted(source: str, reference: str, pool: Sequence[str], seed: int, lp: str = "en-de") -> list[Corruption]:
    """All kinds and grades that apply to a reference, by kind; each damaged text once, at its mildest.

    The penalty is the share of words lost or added, and at least that of `PENALTIES` (just that for `swap`).
    """
    rng = _rng(seed, source, reference)
    corruptions: list[Corruption] = []
    seen: set[str] = set()
    for kind in KINDS:
        for grade in GRADES:
            text = corrupt(reference, kind, grade, source=source, pool=pool, rng=rng, lp=lp)
            if text is not None and text not in seen:
                seen.add(text)
                corruptions.append(Corruption(kind, grade, text, _penalty(kind, grade, reference, text, lp)))
    return corruptions


def diagnose(
    score_pairs: Score, items: Sequence[tuple[str, str]], seed: int, lp: str = "en-de"
) -> dict[str, dict[str, float]]:
    """How often a pairwise metric puts a damaged reference below the intact one, per kind and "overall".

    `items` are (source, reference); each gets one corruption of every kind that applies, of a grade drawn by lot.
    `score_pairs` is called once with all triples (source, a, b), both orders of each pair one after the other, and
    returns how much better a is; the damaged text is "below" if its mean over both orders is negative, not if it is 0.
    """
    pool = [reference for _, reference in items]
    kinds: list[str] = []
    triples: list[tuple[str, str, str]] = []
    for source, reference in items:
        rng = _rng(seed, source, reference)
        for kind in KINDS:
            text = _drawn(reference, kind, source, pool, rng, lp)
            if text is not None:
                kinds.append(kind)
                triples += [(source, reference, text), (source, text, reference)]
    if not triples:
        raise InputError(f"none of the {len(items)} items can be corrupted; expected texts of several words")
    scores = [float(score) for score in score_pairs(triples)]
    if len(scores) != len(triples) or not all(map(math.isfinite, scores)):
        raise ModelError(f"the metric gave {len(scores)} scores for {len(triples)} pairs, or one that is no number")
    counts: Counter[str] = Counter()
    below: Counter[str] = Counter()
    for kind, forward, backward in zip(kinds, scores[::2], scores[1::2], strict=True):
        for name in (kind, "overall"):
            counts[name] += 1
            below[name] += forward - backward > 0
    return {
        name: {"count": counts[name], "below": below[name] / counts[name]}
        for name in (*KINDS, "overall")
        if counts[name]
    }


def _drawn(reference: str, kind: str, source: str, pool: Sequence[str], rng: Rng, lp: str) -> str | None:
    """A grade by lot; a milder one where the text is too short for it."""
    for grade in range(rng.choice(GRADES), 0, -1):
        text = corrupt(reference, kind, grade, source=source, pool=pool, rng=rng, lp=lp)
        if text is not None:
            return text
    return None


def _penalty(kind: str, grade: int, reference: str, text: str, lp: str) -> float:
    if kind == "swap":  # nothing is lost or added but the punctuation at a word
        return PENALTIES[kind][grade - 1]
    space = "" if lp.rpartition("-")[2] in UNSPACED else " "
    intact, damaged = Counter(_units(reference, space)), Counter(_units(text, space))
    lost, added = (intact - damaged).total(), (damaged - intact).total()
    return min(1.0, max(PENALTIES[kind][grade - 1], max(lost, added) / intact.total()))


def _rng(seed: int, *texts: str) -> Rng:
    """Random numbers that belong to these texts, whatever was corrupted before them."""
    digest = blake2b("\x1f".join([str(seed), *texts]).encode("utf-8"), digest_size=8).digest()
    return random.Random(int.from_bytes(digest, "big"))


UNSPACED = frozenset({"zh", "ja", "th"})


def _units(text: str, space: str) -> list[str]:
    return text.split() if space else [character for character in text if not character.isspace()]


def _joined(units: list[str] | None, space: str) -> str | None:
    return None if units is None else space.join(units)


def _size(units: list[str], grade: int, shares: tuple[float, float, float]) -> int:
    """How many words a grade touches: its share of them, but at least `grade`, so that grades differ; 0 for never.

    A text of this many words must have more: something stays intact.
    """
    size = max(grade, round(shares[grade - 1] * len(units)))
    return size if size < len(units) else 0


def _content(units: list[str]) -> list[int]:
    """Positions of the words that carry meaning, judged by length; all where none is long."""
    long = [index for index, unit in enumerate(units) if len(parts(unit)[1]) > 3]
    return long or [index for index, unit in enumerate(units) if parts(unit)[1]]


def _omission(units: list[str], grade: int, rng: Rng) -> list[str] | None:
    size = _size(units, grade, (0.0, 0.2, 0.4))
    if not size:
        return None
    # A missing article is hardly an omission.
    content = _content(units) if size == 1 else []
    start = rng.choice(content) if content else rng.randrange(len(units) - size + 1)
    left, right = units[:start], units[start + size :]
    if not right:  # the full stop is not what is missing
        left[-1] = "".join(parts(left[-1])[:2]) + parts(units[-1])[2]
    return left + right


def _repetition(units: list[str], grade: int, rng: Rng) -> list[str] | None:
    size = _size(units, grade, (0.0, 0.2, 0.4))
    if not size:
        return None
    start = rng.randrange(len(units) - size + 1)
    return units[: start + size] + units[start:]


def _swap(units: list[str], grade: int, rng: Rng) -> list[str] | None:
    """Words change places; punctuation stays where it is, because a full stop in the middle would give it away."""
    split = [parts(unit) for unit in units]
    places = [index for index, (_, core, _) in enumerate(split) if core]
    if len(places) < grade + 1:
        return None
    if grade == 3:
        size = max(3, len(places) // 2)
        start = rng.randrange(len(places) - size + 1)
        places = places[start : start + size]
        order = rng.sample(places, size)
    else:
        first = rng.randrange(len(places) - grade)
        second = first + 1 if grade == 1 else rng.randrange(first + 2, len(places))
        places = [places[first], places[second]]
        order = places[::-1]
    swapped = list(units)
    for place, other in zip(places, order, strict=True):
        swapped[place] = split[place][0] + split[other][1] + split[place][2]
    return swapped


def _truncation(units: list[str], grade: int, rng: Rng) -> list[str] | None:
    size = _size(units, grade, (0.2, 0.5, 0.75))
    return units[:-size] if size else None


SPANS: dict[str, Callable[[list[str], int, Rng], list[str] | None]] = {
    "omission": _omission,
    "repetition": _repetition,
    "swap": _swap,
    "truncation": _truncation,
}


def _words(units: list[str], grade: int, pool: Sequence[str], rng: Rng, space: str) -> str | None:
    content = _content(units)
    size = max(grade, round((0.0, 0.15, 0.3)[grade - 1] * len(units)))
    if not pool or len(content) < grade:
        return None
    changed = list(units)
    for index in rng.sample(content, min(size, len(content))):
        before, core, behind = parts(units[index])
        new = _foreign_word(core, pool, rng, space)
        if new is None:
            return None
        changed[index] = before + new + behind
    return space.join(changed)


def _foreign_word(old: str, pool: Sequence[str], rng: Rng, space: str) -> str | None:
    """Another word, if possible of the same case: in German that is mostly the same part of speech."""
    fallback = None
    for _ in range(DRAWS):
        units = _units(pool[rng.randrange(len(pool))], space)
        new = parts(rng.choice(units))[1] if units else ""
        if new and new.casefold() != old.casefold() and (len(new) > 2 or not space):
            if new[0].isupper() == old[0].isupper():
                return new
            fallback = new
    return None if fallback is None else cased_like(fallback, old)


def _like(text: str, pool: Sequence[str], rng: Rng) -> str | None:
    """Another text of about this length, so that its length does not give it away."""
    others = [pool[rng.randrange(len(pool))] for _ in range(DRAWS)] if pool else []
    return min(
        (other for other in others if other != text and other.strip()),
        key=lambda other: abs(len(other) - len(text)),
        default=None,
    )


def _tail(units: list[str], other: str, grade: int, space: str) -> str | None:
    """The end of one text replaced by the end of another; all of it at grade 3."""
    if grade == 3:
        return other
    spaced = " " if len(other.split()) > 1 else ""  # the source may have spaces where the target has none
    foreign = _units(other, spaced)
    share = (1 / 3, 1 / 2)[grade - 1]
    size, size_there = round(share * len(units)), max(1, round(share * len(foreign)))
    if not 1 <= size < len(units):
        return None
    return space.join([*units[:-size], spaced.join(foreign[-size_there:])])


NUMBER_WORDS = {
    "de": ["eins", "zwei", "drei", "vier", "fünf", "sechs", "sieben", "acht", "neun", "zehn", "elf", "zwölf"],
    "en": ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"],
}
DIGITS = re.compile(r"\d+")
NUMBERS = {
    language: re.compile(rf"\d+|\b(?:{'|'.join(names)})\b", re.IGNORECASE) for language, names in NUMBER_WORDS.items()
}


def _numbers(text: str, grade: int, target: str, rng: Rng) -> str | None:
    matches = list(NUMBERS.get(target, DIGITS).finditer(text))
    if not matches or (grade == 3 and len(matches) == 1):
        return None
    for match in reversed(matches if grade == 3 else [rng.choice(matches)]):
        old = match[0]
        new = _other_digits(old, grade, rng) if old.isdigit() else _other_name(old, NUMBER_WORDS[target], grade, rng)
        text = text[: match.start()] + new + text[match.end() :]
    return text


def _other_digits(old: str, grade: int, rng: Rng) -> str:
    digits = [int(digit) for digit in old]
    if grade == 1:
        last = digits[-1]
        digits[-1] = last + rng.choice((-1, 1)) if 1 < last < 9 else (8 if last == 9 else last + 1)
        return "".join(map(str, digits))
    # No digit stays, and a long number does not begin with 0.
    least = [int(len(digits) > 1 and index == 0) for index in range(len(digits))]
    fresh = [[new for new in range(low, 10) if new != digit] for low, digit in zip(least, digits, strict=True)]
    return "".join(str(rng.choice(choices)) for choices in fresh)


def _other_name(old: str, names: list[str], grade: int, rng: Rng) -> str:
    index = names.index(old.lower())
    near = [other for other in range(len(names)) if abs(other - index) == 1]
    far = [other for other in range(len(names)) if abs(other - index) > 2]
    return cased_like(names[rng.choice(near if grade == 1 else far)], old)
