"""Turn a statement into its opposite, in English and German, by rules on words.

A text is cut into clauses at punctuation. A clause with a negation loses it; another one gets one: `ein` becomes
`kein`, `always` becomes `never`, an auxiliary gets `not` or `nicht` beside it. One change per clause, because two
would cancel each other. The results are meant to be wrong translations, not always good sentences.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from dataclasses import dataclass

CORE = re.compile(r"(\W*)(.*?)(\W*)", re.DOTALL)  # punctuation, word, punctuation


@dataclass(frozen=True, slots=True)
class Edit:
    """Replace words[start:end]."""

    start: int
    end: int
    words: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Language:
    """What negates a clause, and where a negation can go."""

    remove: frozenset[str]
    flip: dict[str, str]  # negative to positive
    reverse: dict[str, str]  # positive to negative
    auxiliaries: frozenset[str]
    insert: str


def negated(text: str, clauses: int, language: str, rng: random.Random) -> str | None:
    """The text with `clauses` clauses turned into their opposite; None where it has fewer."""
    if language not in LANGUAGES:
        return None
    words = text.split()
    choices = [edits for start, end in _clauses(words) if (edits := list(_edits(words, start, end, language)))]
    if not choices:
        choices = [
            edits for start, end in _clauses(words) if (edits := list(_last_resort(words, start, end, language)))
        ]
    if len(choices) < clauses:
        return None
    chosen = sorted((rng.choice(edits) for edits in rng.sample(choices, clauses)), key=lambda edit: -edit.start)
    for edit in chosen:  # from the back, so that positions before stay valid
        words[edit.start : edit.end] = edit.words
    return " ".join(words)


def parts(word: str) -> tuple[str, str, str]:
    """Punctuation before, the word itself, punctuation behind."""
    match = CORE.fullmatch(word)
    assert match is not None  # the pattern fits everything
    return match[1], match[2], match[3]


def cased_like(new: str, old: str) -> str:
    return new[:1].upper() + new[1:] if old[:1].isupper() else new


def _clauses(words: list[str]) -> Iterator[tuple[int, int]]:
    start = 0
    for index, word in enumerate(words, 1):
        if word[-1] in ",.;:!?…" or index == len(words):
            yield start, index
            start = index


def _edits(words: list[str], start: int, end: int, language: str) -> Iterator[Edit]:
    rules = LANGUAGES[language]
    cores = [parts(word)[1].lower().replace("’", "'") for word in words[start:end]]
    negative = [index for index, core in enumerate(cores, start) if core in rules.remove or _flipped(core, rules)]
    for index in negative:
        before, core, behind = parts(words[index])
        new = _flipped(cores[index - start], rules)
        if new:
            yield Edit(index, index + 1, (before + cased_like(new, core) + behind,))
        elif index > start:
            yield Edit(index - 1, index + 1, (words[index - 1] + behind,))
        elif index + 1 < end:
            yield Edit(index, index + 2, (before + cased_like(words[index + 1], core),))
    if negative:
        return
    # At the end "ein" belongs to the verb: "Er schlief ein."
    positive = [i for i, core in enumerate(cores, start) if core in rules.reverse and (core != "ein" or i < end - 1)]
    for index in positive:
        before, core, behind = parts(words[index])
        yield Edit(index, index + 1, (before + cased_like(rules.reverse[cores[index - start]], core) + behind,))
    if positive:  # "Das ist kein Hund" is better German than "Das ist nicht ein Hund"
        return
    for index, core in enumerate(cores, start):
        if core in rules.auxiliaries:
            yield from _beside(words, start, end, index, language)


def _flipped(core: str, rules: Language) -> str:
    if core in rules.flip:
        return rules.flip[core]
    return core[:-3] if rules.insert == "not" and core.endswith("n't") else ""


def _beside(words: list[str], start: int, end: int, auxiliary: int, language: str) -> Iterator[Edit]:
    negation = LANGUAGES[language].insert
    if auxiliary == end - 1:
        # "dass er müde ist": before what the auxiliary belongs to. In English it is an ellipsis: "Yes, I am."
        at = min(_german_verb(words, start, auxiliary), auxiliary - 1)
        if language == "de" and at > start:
            yield Edit(at, at + 1, (negation, words[at]))
        return
    # In a question the subject stands between: "Is he not here?", "Wann soll ich nicht kommen?"
    first, own = (parts(words[index])[1].lower() for index in (start, auxiliary))
    question = "'" not in own and (auxiliary == start or (auxiliary == start + 1 and first in QUESTION_WORDS))
    after = auxiliary + 1 if question else auxiliary
    verb = _german_verb(words, after + 1, end) if language == "de" else end
    if verb < end:
        yield Edit(verb, verb + 1, (negation, words[verb]))
    elif after < end - 1:
        yield Edit(after, after + 1, (words[after], negation))


def _german_verb(words: list[str], start: int, end: int) -> int:
    """Where the verbs at the end of a clause begin ("zu sagen", "gelesen haben", a split-off "aus"); `end` for none."""
    first = end
    while first - 1 > start and GERMAN_VERB.fullmatch(parts(words[first - 1])[1]):
        first -= 1
    return first


def _last_resort(words: list[str], start: int, end: int, language: str) -> Iterator[Edit]:
    """Without an auxiliary: "Er schläft nicht.", "He never sleeps."."""
    verb = _german_verb(words, start + 1, end) if language == "de" else end
    if verb < end:
        yield Edit(verb, verb + 1, ("nicht", words[verb]))
    elif language == "de" and end - start > 1:
        before, core, behind = parts(words[end - 1])
        yield Edit(end - 1, end, (before + core, "nicht" + behind))
    elif language == "en" and end - start > 1 and words[start].lower() in ENGLISH_SUBJECTS:
        yield Edit(start, start + 1, (words[start], "never"))


GERMAN_VERB = re.compile(
    r"ge[a-zäöüß]+t|[a-zäöüß]+(iert|en)|zu|ab|an|auf|aus|bei|ein|fest|her|hin|los|mit|nach|nieder|sein|um|vor|weg|zurück"
)
QUESTION_WORDS = {"what", "when", "where", "which", "who", "whom", "whose", "why", "how"}
QUESTION_WORDS |= {"was", "wann", "wo", "wohin", "woher", "welche", "welcher", "wer", "wen", "wem", "warum", "wie"}
ENGLISH_SUBJECTS = {"i", "you", "he", "she", "it", "we", "they", "who", "people", "everyone"}

_EIN = {f"ein{ending}": f"kein{ending}" for ending in ("", "e", "en", "em", "er", "es")}
_GERMAN = {"immer": "nie", "alles": "nichts", "jeder": "niemand", "jemand": "niemand", "etwas": "nichts"}
_ENGLISH = {"always": "never", "everything": "nothing", "everyone": "nobody", "someone": "nobody"}

_GERMAN_AUXILIARIES = """
bin bist ist sind seid war warst waren habe hast hat haben hatte hatten hätte hätten werde wirst wird werden wurde
wurden würde würden kann kannst können könnt konnte konnten könnte könntest könnten muss musst müssen musste mussten
soll sollst sollen sollte sollten will willst wollen wollte wollten darf dürfen durfte durften mag mögen möchte möchten
"""
_ENGLISH_AUXILIARIES = """
am is are was were have has had will would can could shall should must may might do does did
i'm you're he's she's it's we're they're that's there's i'll you'll he'll she'll it'll we'll they'll
"""

LANGUAGES = {
    "de": Language(
        remove=frozenset({"nicht"}),
        flip={
            **{negative: positive for positive, negative in _EIN.items()},
            "nie": "immer",
            "niemals": "immer",
            "nichts": "alles",
            "niemand": "jeder",
            "nirgends": "überall",
            "nirgendwo": "überall",
            "weder": "sowohl",
        },
        reverse={**_EIN, **_GERMAN},
        auxiliaries=frozenset(_GERMAN_AUXILIARIES.split()),
        insert="nicht",
    ),
    "en": Language(
        remove=frozenset({"not"}),
        flip={
            "won't": "will",
            "can't": "can",
            "shan't": "shall",
            "cannot": "can",
            "never": "always",
            "nothing": "everything",
            "nobody": "everyone",
            "nowhere": "everywhere",
            "none": "all",
            "neither": "both",
            "without": "with",
            "no": "some",
        },
        reverse=_ENGLISH,
        auxiliaries=frozenset(_ENGLISH_AUXILIARIES.split()),
        insert="not",
    ),
}
