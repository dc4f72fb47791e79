"""MQM: marked errors in, scores out. Google's tables, side by side as well, and GEMBA-MQM's JSON lines.

A score is minus the sum of the weights of the errors that one rater marked in one translation: major 5, minor 1,
neutral 0, major non-translation 25, minor punctuation 0.1. As in the official WMT scores, an issue of the source and
a creative reinterpretation weigh nothing, nor does the test whether a rater is awake ("HOTW-test").
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from candidates.common.errors import InputError
from pear.data.record import Judgment, judgment
from pear.data.tables import column, lp_from_name, optional, tsv_rows

WEIGHTS = {"critical": 25.0, "major": 5.0, "minor": 1.0, "neutral": 0.0, "no-error": 0.0, "hotw-test": 0.0}
WEIGHTLESS = ("no-error", "source issue", "source error", "creative reinterpretation")
NON_TRANSLATION = 25.0
MINOR_PUNCTUATION = 0.1
GEMBA_ERRORS = 5
GEMBA_LARGEST = 25.0

MARK = re.compile(r"</?v>")


def mqm_weight(severity: str, category: str, where: str = "an error") -> float:
    """What one marked error costs."""
    severity, category = severity.strip().lower().replace(" ", "-"), category.strip().lower()
    if severity not in WEIGHTS:
        raise InputError(f"{where}: severity {severity!r:.40} is unknown; expected one of {', '.join(WEIGHTS)}")
    if any(name in category for name in WEIGHTLESS):
        return 0.0
    if "non-translation" in category and severity in ("major", "critical"):
        return NON_TRANSLATION
    if severity == "minor" and "punctuation" in category:
        return MINOR_PUNCTUATION
    return WEIGHTS[severity]


def read_mqm(path: str | Path, lp: str) -> Iterator[Judgment]:
    """Google's MQM table: a row per marked error, or one "No-error" row; a judgment per rater and translation."""
    for rating in _ratings(path):
        yield rating.judgment(lp or lp_from_name(str(path)), rating.document)


def read_side_by_side(path: str | Path, lp: str) -> Iterator[Judgment]:
    """The same table where raters saw two translations beside each other.

    Only what was compared belongs together, so `document` is extended by the two systems: `group` then makes one
    group per comparison, in which every rater judged both. The table does not name the comparisons; the times of
    the raters' clicks (column `metadata`) tell them. Systems without times form one comparison per segment.
    """
    ratings = list(_ratings(path))
    partner = _partners(ratings)
    for rating in ratings:
        document = rating.document
        if rating.system in partner:
            document += " " + " + ".join(sorted((rating.system, partner[rating.system])))
        tail = re.search(r":([a-z]{2,3}-[a-z]{2,3})$", rating.document)
        yield rating.judgment(lp or (tail[1] if tail else "") or lp_from_name(str(path)), document)


def gemba_score(errors: object, where: str = "a record") -> float:
    """The score of a GEMBA-MQM answer, by the rule of its authors' code (MicrosoftTranslator/GEMBA).

    Critical errors cost 25 and a non-translation is critical; the five most severe errors count; no score is below
    -25. Other weights are those of human MQM, so a minor punctuation error costs 0.1 here (1 in GEMBA).
    `errors` is a list of `{"severity", "category"}`, or lists of errors under "critical", "major" and "minor".
    """
    if isinstance(errors, Mapping):
        pairs = [
            (str(severity), entry)
            for severity, entries in errors.items()
            for entry in (entries if isinstance(entries, list) else [entries])
        ]
    elif isinstance(errors, list):
        pairs = [(str(entry.get("severity", "")) if isinstance(entry, dict) else "", entry) for entry in errors]
    else:
        raise InputError(f"{where}: errors must be a list, or lists by severity; found {errors!r:.60}")
    weights = sorted((_gemba_weight(severity, entry, where) for severity, entry in pairs), reverse=True)
    return -min(GEMBA_LARGEST, sum(weights[:GEMBA_ERRORS]))


def _gemba_weight(severity: str, entry: object, where: str) -> float:
    if isinstance(entry, dict):
        category = str(entry.get("category", entry.get("class", "")))
    elif isinstance(entry, str):
        category = entry.split(" - ")[0]  # accuracy/omission - "the account holder"
    else:
        raise InputError(f'{where}: an error is a text or {{"severity", "category"}}, found {entry!r:.60}')
    if category.strip().lower() in ("no-error", "no error"):
        return 0.0
    return NON_TRANSLATION if "non-translation" in category.lower() else mqm_weight(severity, category, where)


@dataclass(slots=True)
class _Rating:
    """What one rater marked in one translation, gathered over rows."""

    system: str
    document: str
    segment: str
    rater: str
    source: str
    translation: str
    where: str
    penalty: float = 0.0
    times: list[int] = field(default_factory=list)

    def judgment(self, lp: str, document: str) -> Judgment:
        return judgment(
            self.where,
            self.source,
            self.translation,
            -round(self.penalty, 6),  # ten punctuation errors are 1, not 0.9999999999999999
            lp=lp,
            system=self.system,
            document=document,
            segment=self.segment,
            rater=self.rater,
        )


def _ratings(path: str | Path) -> Iterable[_Rating]:
    ratings: dict[tuple[str, str, str, str], _Rating] = {}
    for where, cells in tsv_rows(path):
        # A mark at the end may enclose a space that other rows do not have.
        source = MARK.sub("", column(cells, ("source",), where)).strip()
        translation = MARK.sub("", column(cells, ("target",), where)).strip()
        key = (
            column(cells, ("system",), where),
            column(cells, ("doc",), where),
            column(cells, ("seg_id", "globalSegId", "docSegId"), where),
            optional(cells, ("rater",)),
        )
        rating = ratings.setdefault(key, _Rating(*key, source, translation, where))
        if (rating.source, rating.translation) != (source, translation):
            raise InputError(
                f"{where}: the text of {key} is not the one of {rating.where}; expected the same text "
                "in all rows of a system, document, segment and rater"
            )
        weight = mqm_weight(column(cells, ("severity",), where), column(cells, ("category",), where), where)
        rating.penalty += weight
        rating.times += _times(optional(cells, ("metadata",)))
    return ratings.values()


def _times(metadata: str) -> list[int]:
    """When the rater clicked, in milliseconds."""
    return [int(time) for time in re.findall(r'"ts": ?(\d+)', metadata)]


def _partners(ratings: Iterable[_Rating]) -> dict[str, str]:
    """Systems that were shown side by side: two systems whose clicks by one rater in one document alternate.

    The busiest neighbour wins, if that is mutual; a system without one is left out.
    """
    clicks: dict[tuple[str, str], list[tuple[int, str]]] = {}
    for rating in ratings:
        clicks.setdefault((rating.document, rating.rater), []).extend((time, rating.system) for time in rating.times)
    votes: dict[str, Counter[str]] = {}
    for events in clicks.values():
        for (_, first), (_, second) in pairwise(sorted(events)):
            if first != second:
                votes.setdefault(first, Counter())[second] += 1
                votes.setdefault(second, Counter())[first] += 1
    best = {system: max(sorted(counts), key=counts.__getitem__) for system, counts in votes.items()}
    return {system: other for system, other in best.items() if best[other] == system}
