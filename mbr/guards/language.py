"""The language of candidates: by script, and by function words or a package for it.

The language that is wanted is the option `to` (`language:to=de`), else that of most candidates, copies of the source
aside. A candidate breaks the rule if most of its letters are of another script, or if it has clearly more
function words of another language. By `py3langid` (`language:to=de:by=py3langid`, `pip install
'.[language]'`) the second part is that package's judgement, which knows 97 languages and takes longer.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import chain
from typing import Any

from candidates.common.errors import EnvironmentProblem, UsageError, install_extra
from candidates.common.languages import function_words
from mbr.guards.base import Guard, ListTexts

_SCRIPTS = {
    "Latin": "A-Za-z\u00aa\u00ba\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u024f\u1e00-\u1eff\uff21-\uff3a\uff41-\uff5a",
    "Greek": "\u0370-\u03ff\u1f00-\u1fff",
    "Cyrillic": "\u0400-\u052f",
    "Armenian": "\u0531-\u058f",
    "Hebrew": "\u0590-\u05ff",
    "Arabic": "\u0600-\u06ff\u0750-\u077f\ufb50-\ufdff\ufe70-\ufeff",
    "Devanagari": "\u0900-\u097f",
    "Bengali": "\u0980-\u09ff",
    "Gurmukhi": "\u0a00-\u0a7f",
    "Gujarati": "\u0a80-\u0aff",
    "Tamil": "\u0b80-\u0bff",
    "Telugu": "\u0c00-\u0c7f",
    "Kannada": "\u0c80-\u0cff",
    "Malayalam": "\u0d00-\u0d7f",
    "Thai": "\u0e00-\u0e7f",
    "Georgian": "\u10a0-\u10ff",
    "Kana": "\u3040-\u30ff",
    "Hangul": "\u1100-\u11ff\u3130-\u318f\uac00-\ud7af",
    "Han": "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff",
}
_OF_SCRIPT = {name: re.compile(f"[{ranges}]") for name, ranges in _SCRIPTS.items()}
_BEYOND_LATIN = re.compile("[\u0370-\u1dff\u2e80-\ua4cf\uac00-\ufdff]")
# Scripts of languages that are not written in Latin letters; several where they are mixed.
_SCRIPTS_OF = {
    **dict.fromkeys(("ru", "uk", "bg", "be", "mk", "kk", "ky", "mn", "tg"), ("Cyrillic",)),
    **dict.fromkeys(("ar", "fa", "ur", "ps"), ("Arabic",)),
    **dict.fromkeys(("hi", "mr", "ne", "sa"), ("Devanagari",)),
    "sr": ("Cyrillic", "Latin"), "el": ("Greek",), "hy": ("Armenian",), "he": ("Hebrew",), "yi": ("Hebrew",),
    "bn": ("Bengali",), "pa": ("Gurmukhi",), "gu": ("Gujarati",), "ta": ("Tamil",), "te": ("Telugu",),
    "kn": ("Kannada",), "ml": ("Malayalam",), "th": ("Thai",), "ka": ("Georgian",), "ja": ("Kana", "Han"),
    "ko": ("Hangul", "Han"), "zh": ("Han",),
}  # fmt: skip
_MIXED = {"Kana": ("Kana", "Han"), "Han": ("Han", "Kana"), "Hangul": ("Hangul", "Han")}
FEWEST_LETTERS = 4  # of another script
AHEAD = 3  # function words by which another language must be ahead
CLEARLY = 1.3  # times as many function words as the next language
SHARE = 0.25  # of all words, at least: names and quotations have fewer
SURE = 0.9  # probability by which py3langid must be
FEWEST_CHARACTERS = 20  # of a text whose language py3langid can tell
_EDGES = ".,;:!?\"'“”„‚‘’»«›‹()[]…–-"


class Language(Guard):
    """The language that is wanted, by script and words."""

    name = "language"
    summary = "the language of the list, or the one given (language:to=de), by script and words"

    def __init__(self, *, to: str | None = None, by: str = "words") -> None:
        if by not in ("words", "py3langid"):
            raise UsageError(f"guard 'language': by {by!r} is unknown; expected words or py3langid")
        self._to = None if to is None else re.split("[-_]", str(to))[0].lower()
        self._by = by
        supported = {**function_words_by_language(), **_SCRIPTS_OF}
        if self._to is not None and by == "words" and self._to not in supported:
            raise UsageError(
                f"guard 'language': to {to!r} is unknown; expected one of {', '.join(sorted(supported))}, or "
                "by=py3langid, which knows more"
            )
        self._identifier: Any = _py3langid() if by == "py3langid" else None

    def settings(self) -> dict[str, object]:
        return {"to": self._to, "by": None if self._by == "words" else self._by}

    def faults(self, listed: ListTexts) -> Sequence[float]:
        severities = _by_script(listed, self._to)
        judged = _by_words(listed, self._to) if self._identifier is None else self._identified(listed)
        return [max(pair) for pair in zip(severities, judged, strict=True)] if any(judged) else severities

    def _identified(self, listed: ListTexts) -> list[float]:
        severities = listed.kept
        classified = [self._identifier.classify(text.replace("\n", " ")) for text in listed.texts]
        wanted = self._to or Counter(language for language, _ in classified).most_common(1)[0][0]
        for place, (language, probability) in enumerate(classified):
            if language != wanted and probability >= SURE and len(listed.texts[place]) >= FEWEST_CHARACTERS:
                severities[place] = float(probability)
        return severities


def _by_script(listed: ListTexts, to: str | None) -> list[float]:
    """Candidates most of whose letters are of another script than wanted."""
    severities = listed.kept
    latin = to is None or to not in _SCRIPTS_OF
    if latin and not (listed.has_other_scripts and _BEYOND_LATIN.search(listed.joined)):
        return severities
    counts = [script_counts(text) for text in listed.texts]
    if to is None:
        source = listed.source.strip()
        tops = Counter(
            _leading(count) for count, text in zip(counts, listed.texts, strict=True) if text.strip() != source
        )
        tops.pop("", None)
        top = tops.most_common(1)[0][0] if tops else ""
        wanted: tuple[str, ...] = _MIXED.get(top, (top,))
    else:
        wanted = _SCRIPTS_OF.get(to, ("Latin",))
    for place, count in enumerate(counts if wanted != ("",) else ()):
        foreign = sum(letters for script, letters in count.items() if script not in wanted)
        if foreign >= FEWEST_LETTERS and 2 * foreign > count.total():
            severities[place] = foreign / count.total()
    return severities


def _leading(counts: Counter[str]) -> str:
    return max(counts, key=counts.__getitem__) if counts else ""


def script_counts(text: str) -> Counter[str]:
    """Letters by script."""
    if text.isascii():
        letters = len(_OF_SCRIPT["Latin"].findall(text))
        return Counter({"Latin": letters} if letters else {})
    counts = {name: len(letters.findall(text)) for name, letters in _OF_SCRIPT.items()}
    return Counter({name: count for name, count in counts.items() if count})


def _by_words(listed: ListTexts, to: str | None) -> list[float]:
    """Candidates with clearly more function words of another language than the wanted one."""
    severities = listed.kept
    if to is None:
        to = _language_of_list(listed)
    if to not in function_words_by_language():
        return severities
    foreign = {word for word in listed.distinct_words if (languages := _languages_of(word)) and to not in languages}
    for place, words in enumerate(listed.words):
        # Another language can only be ahead by words that the wanted one does not have.
        if foreign.isdisjoint(words) or sum(map(foreign.__contains__, words)) < AHEAD:
            continue
        votes = function_votes(words)
        most = max(votes.values())
        ahead = most - votes.get(to, 0)
        if ahead >= AHEAD and most >= SHARE * len(words) and ahead >= most / 2:
            severities[place] = ahead / len(words)
    return severities


def _language_of_list(listed: ListTexts) -> str | None:
    """The language with the most function words in the list; None where no language is clearly ahead.

    Where that is the language of the source, it is the one that most of the other candidates are in.
    """
    total: Counter[str] = Counter()
    for word, count in Counter(chain.from_iterable(listed.words)).items():
        for language in _languages_of(word):
            total[language] += count
    ranked = total.most_common(2)
    if not ranked:
        return None
    source = function_votes(listed.source_words)
    own = max(source, key=source.__getitem__, default=None)
    first = ranked[0][0]
    if own is not None and source[own] >= AHEAD and own in (language for language, _ in ranked):
        if first != own:
            return first
        others = Counter(_other_language(words, own) for words in listed.words)
        del others[""]
        return others.most_common(1)[0][0] if others else None
    return None if len(ranked) > 1 and ranked[0][1] < CLEARLY * ranked[1][1] else first


def _other_language(words: Sequence[str], own: str) -> str:
    """The language of a candidate that is clearly not in the language `own`; else empty."""
    votes = function_votes(words)
    first = max(votes, key=votes.__getitem__, default="")
    return first if votes.get(first, 0) - votes.get(own, 0) >= AHEAD else ""


def function_votes(words: Iterable[str]) -> dict[str, int]:
    """How many of the words are function words, by language."""
    votes: dict[str, int] = {}
    for word, count in Counter(words).items():
        for language in _languages_of(word):
            votes[language] = votes.get(language, 0) + count
    return votes


@lru_cache(maxsize=50_000)
def _languages_of(word: str) -> tuple[str, ...]:
    return function_words().get(word.strip(_EDGES).casefold(), ())


@lru_cache(maxsize=1)
def function_words_by_language() -> dict[str, int]:
    """The languages that have function words here, with how many."""
    return dict(Counter(language for languages in function_words().values() for language in languages))


def _py3langid() -> Any:
    try:
        from py3langid.langid import MODEL_FILE, LanguageIdentifier
    except ImportError as exc:
        raise EnvironmentProblem(
            f"guard 'language': by=py3langid needs the package py3langid; {install_extra('language')}; "
            "or leave out by=py3langid"
        ) from exc
    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
