"""What does a statistic reward? Oracle metrics that see one kind of error only (DiIanni and Deutsch 2025, section 5.1).

From MQM annotations, error by error: the gold is minus the penalties of all errors of a translation, the oracle of a
category minus those of its own errors. Correlations of the oracles' agreement with the categories' importance (sum of
penalties), count and mean penalty show whether a statistic rewards what matters to annotators.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from candidates.common.errors import InputError
from mbr.metaeval.signature import signature
from mbr.metaeval.statistics import Gold, measure
from mbr.metaeval.values import Floats, Scores, ScoreSet
from pear.data.folders import EvalFolder
from pear.data.mqm import mqm_weight
from pear.data.tables import column, lp_from_name, optional, tsv_rows

STATISTICS = ("acc_eq", "pdp")
NO_ERROR = ("no-error", "no error", "hotw-test", "")
RATINGS = ".seg.rating"
DIGITS = 9  # so that sums of tenths are equal where they should be


@dataclass(frozen=True)
class Errors:
    """Marked errors: for each annotated translation (system, segment) its (category, penalty) by rater."""

    name: str
    lp: str
    marked: dict[tuple[str, str], dict[str, list[tuple[str, float]]]]  # (system, segment) -> rater -> errors

    def systems(self) -> tuple[str, ...]:
        return tuple(sorted({system for system, _ in self.marked}))


@dataclass(frozen=True)
class Oracle:
    """One category of errors, and how its oracle agrees with people."""

    category: str
    importance: float
    count: int
    weight: float  # importance / count
    acc_eq: float
    pdp: float


@dataclass(frozen=True)
class OracleStudy:
    """The oracles of all categories, and how their agreement follows what the categories are."""

    name: str
    lp: str
    systems: tuple[str, ...]
    segments: int
    oracles: tuple[Oracle, ...]  # the most important first
    spearman: dict[str, dict[str, float | None]]  # importance, weight, count -> statistic -> correlation

    def signature(self) -> str:
        return signature(
            "oracle", set=self.name, lp=self.lp, systems=len(self.systems), segments=self.segments, weights="mqm"
        )

    def record(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "name": self.name,
            "lp": self.lp,
            "systems": list(self.systems),
            "segments": self.segments,
            "signature": self.signature(),
            "oracles": [asdict(oracle) for oracle in self.oracles],
            "spearman": self.spearman,
        }


def read_mqm_errors(path: str | Path) -> Errors:
    """Google's MQM table: a row per marked error, or one "No-error" row."""
    marked: dict[tuple[str, str], dict[str, list[tuple[str, float]]]] = {}
    for where, cells in tsv_rows(path):
        segment = column(cells, ("seg_id", "globalSegId", "docSegId"), where)
        key = (column(cells, ("system",), where), f"{optional(cells, ('doc',))}:{segment}")
        category = column(cells, ("category",), where).strip().lower()
        severity = column(cells, ("severity",), where)
        errors = marked.setdefault(key, {}).setdefault(optional(cells, ("rater",)), [])
        if category not in NO_ERROR:
            errors.append((category, mqm_weight(severity, category, where)))
    return Errors(Path(path).name, lp_from_name(str(path)), marked)


def read_ratings(files: EvalFolder, human: str) -> Errors:
    """The errors beside human scores of mt-metrics-eval, `<lp>.<human>.seg.rating`: JSON or None on each line."""
    marked: dict[tuple[str, str], dict[str, list[tuple[str, float]]]] = {}
    path = files.human_file(human, RATINGS)
    for number, system, segment, text in files.entries(path):
        if text != "None":
            marked[system, str(segment + 1)] = {"": list(_rating(text, f"{path}, line {number}"))}
    return Errors(f"{files.name} {human}", files.lp, marked)


def _rating(text: str, where: str) -> Iterator[tuple[str, float]]:
    try:
        errors = [
            (str(error["category"]).strip().lower(), str(error["severity"])) for error in json.loads(text)["errors"]
        ]
    except (ValueError, KeyError, TypeError) as exc:
        raise InputError(
            f'{where}: expected {{"errors": [{{"category", "severity"}}, ...]}} or None, found {text!r:.60}'
        ) from exc
    for category, severity in errors:
        if category not in NO_ERROR:
            yield category, mqm_weight(severity, category, where)


def oracle_study(errors: Errors, *, without: Sequence[str] = ()) -> OracleStudy:
    """Oracles of all categories, over the segments that every system has. Raters of a translation are averaged."""
    scores = gold_of(errors, without=without)
    count: dict[str, int] = {}
    importance: dict[str, float] = {}
    penalties: dict[str, Floats] = {}
    for row, system in enumerate(scores.systems):
        for place, segment in enumerate(scores.segments):
            raters = errors.marked[system, segment]
            for category, weight in (error for marks in raters.values() for error in marks):
                count[category] = count.get(category, 0) + 1
                importance[category] = importance.get(category, 0.0) + weight
                matrix = penalties.setdefault(category, np.zeros(scores.gold.shape))
                matrix[row, place] += weight / len(raters)
    gold = Gold(scores.gold)
    oracles = []
    for category in sorted(count, key=lambda name: (-importance[name], name)):
        values = measure(gold, Scores(category, -np.round(penalties[category], DIGITS)), STATISTICS)
        assert values["acc_eq"] is not None
        assert values["pdp"] is not None
        oracles.append(
            Oracle(
                category,
                round(importance[category], 6),
                count[category],
                importance[category] / count[category],
                values["acc_eq"],
                values["pdp"],
            )
        )
    return OracleStudy(
        errors.name, errors.lp, scores.systems, len(scores.segments), tuple(oracles), spearman_table(oracles)
    )


def gold_of(errors: Errors, *, without: Sequence[str] = ()) -> ScoreSet:
    """The human scores that the errors make, as a score set without metrics."""
    systems = tuple(system for system in errors.systems() if system not in without)
    segments = _shared(errors, systems)
    if len(systems) < 2 or not segments:
        raise InputError(
            f"{errors.name}: {len(systems)} systems and {len(segments)} segments that all of them have; "
            "expected at least two systems and a segment; leave out systems with few"
        )
    total = np.zeros((len(systems), len(segments)))
    for row, system in enumerate(systems):
        for place, segment in enumerate(segments):
            raters = errors.marked[system, segment]
            total[row, place] = sum(weight for marks in raters.values() for _, weight in marks) / len(raters)
    human = Scores("mqm", -np.round(total, DIGITS), kind="human")
    return ScoreSet(errors.name, errors.lp, human, systems, tuple(segments))


def spearman_table(oracles: Sequence[Oracle]) -> dict[str, dict[str, float | None]]:
    """Rank correlations of the categories' importance, weight and count with their oracles' agreement."""

    def values(name: str) -> list[float]:
        return [getattr(oracle, name) for oracle in oracles]

    return {
        name: {statistic: spearman(values(name), values(statistic)) for statistic in STATISTICS}
        for name in ("importance", "weight", "count")
    }


def spearman(x: Sequence[float], y: Sequence[float]) -> float | None:
    """Ties share the mean of their ranks; None for fewer than two values, or constant ones."""
    from scipy.stats import rankdata

    a, b = rankdata(x), rankdata(y)
    a, b = a - a.mean(), b - b.mean()
    size = float(np.sqrt((a**2).sum() * (b**2).sum()))
    return float((a * b).sum() / size) if size > 0 else None


def _shared(errors: Errors, systems: Sequence[str]) -> list[str]:
    """The segments that every system has, in the order of the file."""
    order = dict.fromkeys(segment for _, segment in errors.marked)
    return [segment for segment in order if all((system, segment) in errors.marked for system in systems)]
