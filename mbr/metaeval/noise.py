"""How far does a statistic fall when human scores are disturbed? (DiIanni and Deutsch 2025, section 6)

Human scores Y are compared with themselves after noise was added. The score degradation proportion is how much of the
way from perfect agreement to that of random scores the statistic went:

    SDP = (theta(Y, Y) - theta(Y, noisy)) / (theta(Y, Y) - theta(Y, random)),

where random scores are drawn from Y with replacement. Levels are in standard deviations of Y, so that they mean the
same for MQM and for direct assessments. Draws depend on the seed, the kind of noise, the level and the repetition.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from candidates.common.errors import InputError, UsageError
from mbr.drawing import Panel, line_panels
from mbr.metaeval.clipping import Clip
from mbr.metaeval.statistics import LABELS, Gold, better, measure
from mbr.metaeval.values import Floats, Scores

STATISTICS = ("segment_pearson", "global_pearson", "acc_eq", "pdp")
KINDS = {
    "random": "N(0, s) added to every score",
    "outlier": "one random score set to v",
    "system": "v added to one random system",
    "segment": "N(0, s) added to every segment",
}
LEVELS = {
    "random": (0.1, 0.25, 0.5, 1.0, 2.0, 4.0),
    "outlier": (5.0, 10.0, 25.0, 50.0, 100.0, 200.0),
    "system": (0.1, 0.25, 0.5, 1.0, 2.0, 4.0),
    "segment": (0.1, 0.25, 0.5, 1.0, 2.0, 4.0),
}


@dataclass(frozen=True)
class NoiseStudy:
    """SDP by kind of noise and statistic, one value per level, averaged over repeats."""

    statistics: tuple[str, ...]
    levels: Mapping[str, tuple[float, ...]]
    sdp: Mapping[str, Mapping[str, tuple[float, ...]]]  # kind -> statistic -> [levels]
    deviation: float  # of the human scores: what a level of 1 is
    repeats: int
    seed: int

    def record(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "standard_deviation": self.deviation,
            "repeats": self.repeats,
            "seed": self.seed,
            "noise": {
                kind: {"levels": list(self.levels[kind]), **{name: list(line) for name, line in lines.items()}}
                for kind, lines in self.sdp.items()
            },
        }

    def plot(self, title: str) -> str:
        """An SVG with a panel for each kind of noise."""
        panels = [
            Panel(
                f"{kind}: {KINDS[kind]}",
                "level (standard deviations of human scores)",
                self.levels[kind],
                {LABELS.get(name, name): line for name, line in lines.items()},
            )
            for kind, lines in self.sdp.items()
        ]
        return line_panels(title, panels, "score degradation proportion: 0 undisturbed, 1 as bad as random scores")


def noise_study(
    gold: Floats,
    statistics: Sequence[str] = STATISTICS,
    *,
    levels: Mapping[str, Sequence[float]] | None = None,
    repeats: int = 10,
    seed: int = 1,
    clip: Clip | None = None,
) -> NoiseStudy:
    """The SDP of statistics on human scores [systems, segments], NaN where there are none.

    With `clip` scores are clipped after the noise, as one would clip a metric's before a correlation.
    """
    if repeats < 1:
        raise UsageError(f"{repeats} repeats; expected at least 1")
    gold = gold[:, (~np.isnan(gold)).any(axis=0)]
    cut = (lambda scores: scores) if clip is None else clip.human
    gold = cut(gold)
    human = Gold(gold)
    values = gold[human.valid]
    deviation = float(values.std()) if values.size else 0.0
    if not deviation > 0:
        raise InputError("all human scores are the same; a study of noise needs scores that differ")
    chosen = {kind: tuple(map(float, (levels or LEVELS).get(kind, LEVELS[kind]))) for kind in KINDS}
    best = _measured(human, gold, statistics)
    worst = _mean(
        [
            _measured(human, _random(seed, "chance", 0, repeat).choice(values, gold.shape), statistics)
            for repeat in range(repeats)
        ]
    )
    for name in statistics:
        if not better(name, best[name]) > better(name, worst[name]):
            raise InputError(
                f"{name}: human scores agree no better with themselves than random ones; too few segments?"
            )
    sdp: dict[str, dict[str, tuple[float, ...]]] = {}
    for kind, at in chosen.items():
        by_level = []
        for place, level in enumerate(at):
            disturbed = [
                _measured(
                    human,
                    cut(_disturbed(gold, kind, level * deviation, _random(seed, kind, place, repeat))),
                    statistics,
                )
                for repeat in range(repeats)
            ]
            by_level.append(_mean(disturbed))
        sdp[kind] = {
            name: tuple((best[name] - means[name]) / (best[name] - worst[name]) for means in by_level)
            for name in statistics
        }
    return NoiseStudy(tuple(statistics), chosen, sdp, deviation, repeats, seed)


def _disturbed(gold: Floats, kind: str, size: float, random: Any) -> Floats:
    noisy = gold.copy()
    if kind == "random":
        noisy += random.normal(0.0, size, gold.shape)
    elif kind == "outlier":
        cells = np.argwhere(~np.isnan(gold))
        noisy[tuple(cells[random.integers(len(cells))])] = size
    elif kind == "system":
        noisy[random.integers(len(gold))] += size
    else:
        noisy += random.normal(0.0, size, gold.shape[1])
    return noisy


def _measured(gold: Gold, scores: Floats, statistics: Sequence[str]) -> dict[str, float]:
    values = measure(gold, Scores("noisy", scores), statistics)
    missing = [name for name in statistics if values[name] is None]
    if missing:
        raise InputError(f"{missing[0]} is not defined for these human scores; are there two systems and a segment?")
    return {name: value for name in statistics if (value := values[name]) is not None}


def _mean(results: Sequence[Mapping[str, float]]) -> dict[str, float]:
    return {name: float(np.mean([values[name] for values in results])) for name in results[0]}


def _random(seed: int, kind: str, level: int, repeat: int) -> Any:
    """A separate generator for every disturbance, so that more levels or repeats change none of the others."""
    return np.random.default_rng([seed, zlib.crc32(kind.encode()), level, repeat])
