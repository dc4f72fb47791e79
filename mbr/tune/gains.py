"""Choices by what they gain over others: scores by every judge, and differences with bootstrap intervals.

Scores of a way to choose are those of a system, from summed statistics, as mbr-evaluate has them; with several
references the nearest one of each candidate counts. The objective is a mean over lists.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mbr.evaluate.statistics import bootstrap_scores, interval
from mbr.tune.listwise import Floats, Ints
from mbr.tune.objective import JudgedLists

OBJECTIVE = "objective"


@dataclass(frozen=True)
class Gain:
    """A difference of scores, higher is better, and the middle 95 % of its bootstrap draws."""

    difference: float
    low: float
    high: float

    @property
    def within_chance(self) -> bool:
        return self.low <= 0

    def record(self) -> dict[str, Any]:
        return {**vars(self), "within_chance": self.within_chance}


@dataclass(frozen=True)
class Column:
    """One measure of choices: statistics [N, k] of every candidate, and the score of their sums."""

    label: str
    statistics: Sequence[Floats]
    score: Callable[[Floats], Floats]
    sign: int = 1  # -1 where lower is better
    digits: int = 2

    def chosen(self, choices: Ints) -> Floats:
        return np.stack([values[choice] for values, choice in zip(self.statistics, choices, strict=True)])

    def of(self, choices: Ints) -> float:
        """The score, in the measure's own sign."""
        return float(self.score(self.chosen(choices).sum(axis=0, keepdims=True))[0])

    def gain(self, choices: Ints, over: Ints, *, draws: int, seed: int) -> Gain:
        """By how much choices are better than others."""
        statistics = {"new": self.chosen(choices), "old": self.chosen(over)}
        scores = bootstrap_scores(self.score, statistics, draws=draws, seed=seed)
        between = interval(self.sign * (scores["new"] - scores["old"]))
        return Gain(self.sign * (self.of(choices) - self.of(over)), between.low, between.high)


@dataclass(frozen=True)
class Row:
    """A way to choose: its scores and its gains over the first candidate, by column."""

    label: str
    scores: Mapping[str, float]
    gains: Mapping[str, Gain]

    def record(self) -> dict[str, Any]:
        gains = {label: gain.record() for label, gain in self.gains.items()}
        return {"label": self.label, "scores": dict(self.scores), "gains": gains}


def columns_of(judged: Sequence[JudgedLists], objective: Sequence[Floats]) -> list[Column]:
    """The objective, then every judge."""
    pairs = [np.stack([values, np.ones(len(values))], axis=1) for values in objective]
    columns = [Column(OBJECTIVE, pairs, _mean, digits=3)]
    for judge in judged:
        digits = 2 if judge.spec.family == "lexical" else 4
        sign = -1 if judge.spec.lower_is_better else 1
        columns.append(Column(judge.spec.label, judge.statistics, judge.system, sign, digits))
    return columns


def row(label: str, choices: Ints, columns: Sequence[Column], *, draws: int, seed: int) -> Row:
    """A way to choose beside the first candidate of each list."""
    first = np.zeros_like(choices)
    return Row(
        label,
        {column.label: column.of(choices) for column in columns},
        {column.label: column.gain(choices, first, draws=draws, seed=seed) for column in columns},
    )


def _mean(sums: Floats) -> Floats:
    return np.asarray(sums[:, 0] / sums[:, 1])
