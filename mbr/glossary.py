"""A glossary: terms of the source, and what they must become.

A file of tab-separated columns: the source term, the target term or terms (`|` between them), and maybe the tolerance
(`exact`, `stem`, `regex`; default `exact`) and the case (`match`, `ignore`; default `ignore`). Empty lines and lines
that begin with `#` are comments.

    hard drive	Festplatte	stem
    Windows	Windows	exact	match
    invoice	Rechnung|Faktura	stem
    due date	Fälligkeits(datum|termin)	regex

`exact` finds the term as whole words; `stem` also with other endings, of up to four letters in place of up to two, and
as a part of a compound (Festplatten, Festplattenfehler); with `regex` the target is a regular expression. The source
term is found as whole words, with `stem` and `regex` also inflected.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

from candidates.common.errors import InputError

TOLERANCES = ("exact", "stem", "regex")
CASES = ("match", "ignore")
SHORTEST_STEM = 4  # letters that an ending never takes away; a shorter word is no part of a compound
_UMLAUTS = {letter: f"[{pair}]" for pair in ("aä", "oö", "uü", "AÄ", "OÖ", "UÜ") for letter in pair}


@dataclass(frozen=True)
class Entry:
    """One line: a source term, and what finds one of its target terms."""

    source: re.Pattern[str]
    target: re.Pattern[str]


@dataclass(frozen=True)
class Glossary:
    """The entries of a file, and a digest of its content for signatures."""

    entries: tuple[Entry, ...]
    digest: str

    def missing(self, source: str, texts: Sequence[str]) -> tuple[list[int], int]:
        """How many of the demanded terms each text lacks, and how many are demanded: entries that the source has."""
        demanded = [entry for entry in self.entries if entry.source.search(source)]
        return [sum(entry.target.search(text) is None for entry in demanded) for text in texts], len(demanded)


def read_glossary(path: str | Path) -> Glossary:
    """Read a glossary.

    Raises:
        InputError: the file cannot be read, holds no entry, or a line is wrong; the message has its number.
    """
    try:
        content = Path(path).expanduser().read_bytes()
        lines = content.decode("utf-8-sig").split("\n")
    except OSError as exc:
        raise InputError(f"glossary {path}: cannot be read: {exc.strerror}; give a file that exists") from exc
    except UnicodeDecodeError as exc:
        raise InputError(f"glossary {path}: not UTF-8: {exc}; save the file as UTF-8") from exc
    entries = [
        _entry(line.rstrip("\r"), f"glossary {path}, line {number}")
        for number, line in enumerate(lines, 1)
        if line.strip() and not line.startswith("#")
    ]
    if not entries:
        raise InputError(f"glossary {path}: holds no term; expected lines of source term, tab, target term")
    return Glossary(tuple(entries), hashlib.sha256(content).hexdigest()[:8])


def _entry(line: str, where: str) -> Entry:
    cells = [cell.strip() for cell in line.split("\t")]
    if not 2 <= len(cells) <= 4 or not cells[0] or not cells[1]:
        raise InputError(
            f"{where}: found {len(cells)} columns in {line!r:.80}; expected source term, tab, target term, and maybe "
            f"a tolerance ({', '.join(TOLERANCES)}) and a case ({', '.join(CASES)})"
        )
    _, _, tolerance, case = (cell or default for cell, default in zip_longest(cells, ("", "", "exact", "ignore")))
    for value, allowed, column in ((tolerance, TOLERANCES, "tolerance"), (case, CASES, "case")):
        if value not in allowed:
            raise InputError(f"{where}: the {column} {value!r:.40} is unknown; expected one of {', '.join(allowed)}")
    flags = re.IGNORECASE if case == "ignore" else re.NOFLAG
    if tolerance == "regex":
        target = cells[1]
    else:
        terms = [term.strip() for term in cells[1].split("|")]
        if not all(terms):
            raise InputError(f"{where}: an empty target term in {cells[1]!r:.60}; expected terms with | between them")
        target = "|".join(_found(term, stem=tolerance == "stem", compounds=True) for term in terms)
    try:
        return Entry(re.compile(_found(cells[0], stem=tolerance != "exact"), flags), re.compile(target, flags))
    except re.error as exc:
        raise InputError(f"{where}: {cells[1]!r:.60} is not a regular expression: {exc}; correct it") from exc


def _found(term: str, *, stem: bool, compounds: bool = False) -> str:
    """The pattern that finds a term as whole words, or with other endings and as a part of a compound."""
    words = term.split()
    inside = r"\s+".join(map(_inflected if stem else re.escape, words))
    compounds = stem and compounds and min(map(len, words)) >= SHORTEST_STEM
    before = "" if compounds else _edge(term[0], "(?<!{})")
    after = "" if compounds else _edge(term[-1], "(?!{})")
    return f"{before}{inside}{after}"


def _edge(letter: str, pattern: str) -> str:
    """No word goes on here; scripts without spaces have no such edge."""
    spaced = letter.isalnum() and not "\u2e80" <= letter <= "\uffef" and not "\u0e00" <= letter <= "\u0eff"
    return pattern.format(r"\w") if spaced else ""


def _inflected(word: str) -> str:
    """A word with other endings: up to two letters may go, up to four may come; umlauts may come and go."""
    stem = word[: max(len(word) - 2, min(len(word), SHORTEST_STEM))]
    letters = "".join(_UMLAUTS.get(letter, re.escape(letter)) for letter in stem)
    return rf"{letters}\w{{0,{len(word) - len(stem) + 4}}}"
