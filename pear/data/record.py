"""One judged translation, and the checks that every reader of judgments shares.

A score is a number that people (or a model that stands in for them) gave to a translation of a source; higher is
better. Nothing here rescales it: MQM scores are minus the weighted errors, direct assessments run from 0 to 100.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from candidates.common.errors import InputError
from candidates.lists import check_text

LARGEST = 1e6  # of a score; the squares of differences in a loss stay far from float32's limit

Words = tuple[tuple[float, ...], ...]


@dataclass(frozen=True, slots=True)
class Judgment:
    """A translation, where it stood, who judged it, and the score it got.

    `words` are optional numbers (channels) for each whitespace word of the translation (`str.split`), for training
    with word-level supervision beside the score.
    """

    source: str
    translation: str
    score: float  # higher is better
    lp: str = ""  # "en-de"
    system: str = ""
    document: str = ""
    segment: str = ""
    rater: str = ""
    reference: str | None = None
    words: Words | None = None


def judgment(where: str, source: object, translation: object, score: object, **rest: Any) -> Judgment:
    """A checked `Judgment`: texts that UTF-8 can hold, a source that is not blank, a finite score.

    `where` names the file and the line in every error. An empty translation is legal: systems produce them.
    """
    check_text(source, f"{where}: source")
    check_text(translation, f"{where}: translation")
    if not str(source).strip():
        raise InputError(f"{where}: the source is empty; expected a text; remove the row or repair it")
    rest = {name: _text(value, f"{where}: {name}") if name != "words" else value for name, value in rest.items()}
    if not (rest.get("reference") or "").strip():
        rest["reference"] = None  # an empty cell is no translation to compare with
    if rest.get("words") is not None:
        rest["words"] = _words(rest["words"], str(translation), where)
    return Judgment(str(source), str(translation), finite(score, where, "score"), **rest)


def finite(value: object, where: str, name: str) -> float:
    """A number from a table's cell or a JSON value, from -1e6 to 1e6; NaN and infinity are no scores."""
    try:
        if isinstance(value, bool) or not isinstance(value, (str, int, float)):
            raise TypeError
        number = float(value)
    except (TypeError, ValueError, OverflowError) as exc:
        raise InputError(
            f"{where}: {name} {value!r:.40} is not a number; expected one; remove the row or repair it"
        ) from exc
    if not math.isfinite(number):
        raise InputError(f"{where}: {name} {value!r:.40} is not finite; expected a number; remove the row or repair it")
    if abs(number) > LARGEST:
        raise InputError(
            f"{where}: {name} {value!r:.40} is too large to learn from; expected a number from {-LARGEST:.0f} to "
            f"{LARGEST:.0f}; repair the row, or rescale the column"
        )
    return number + 0.0  # -0.0, which WMT files contain, becomes 0.0


def normal_lp(lp: str) -> str:
    """ "en_de" as WMT's tables have it is "en-de" everywhere else."""
    return lp.strip().replace("_", "-")


def _text(value: object, where: str) -> str | None:
    """Names and numbers of segments arrive as either; a reference may be missing."""
    if value is None:
        return None
    text = str(value) if isinstance(value, int) and not isinstance(value, bool) else value
    check_text(text, where)
    return str(text)


def _words(value: object, translation: str, where: str) -> Words:
    expected = len(translation.split())
    if not isinstance(value, (list, tuple)) or not all(isinstance(row, (list, tuple)) for row in value):
        raise InputError(f"{where}: words must be a list of lists of numbers, found {value!r:.60}")
    if len(value) != expected:
        raise InputError(
            f"{where}: words has {len(value)} entries, but the translation has {expected} words; "
            "expected one entry per whitespace word"
        )
    if len({len(row) for row in value}) > 1:
        sizes = sorted({len(row) for row in value})
        raise InputError(f"{where}: words has entries of {sizes} numbers; expected the same number in each")
    return tuple(tuple(finite(number, where, "words") for number in row) for row in value)
