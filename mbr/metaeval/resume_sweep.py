"""How much RESUME to add to a metric: agreement with people and post-edit rate against its weight.

Table 6 and figure 4 of the RESUME paper (Noh et al. 2024): metric + weight * RESUME for several weights. Weights are
those of `mbr.evaluate.residual`, for metrics from 0 to 1. The weight of each metric is chosen on a development part of
the segments alone and measured on the rest, with a paired bootstrap interval over those segments. System scores are
means over the segments of a part. Time is metrics x (weights + draws) measurements.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from candidates.common.errors import InputError, UsageError
from mbr.drawing import Panel, line_panels
from mbr.evaluate.residual import Residual
from mbr.metaeval.scoring import with_resume
from mbr.metaeval.statistics import LABELS, Gold, better, measure
from mbr.metaeval.values import Floats, Scores, ScoreSet

WEIGHTS = (0.0, 0.05, 0.1, 0.2, 0.4, 0.6, 1.0, 2.0, 5.0, 10.0)
STATISTICS = ("kendall", "pairwise_accuracy")

Values = tuple[float | None, ...]  # one per weight


@dataclass(frozen=True)
class EditScores:
    """Scores of post-edits and of the translations that they correct [items], by a metric and by RESUME."""

    after: Floats
    before: Floats
    resume_after: Floats
    resume_before: Floats

    def rate(self, factor: float) -> float:
        """How often the post-edit scores higher with factor * RESUME added."""
        gain = (self.after + factor * self.resume_after) - (self.before + factor * self.resume_before)
        return float((gain > 0).mean())


@dataclass(frozen=True)
class Base:
    """A metric that RESUME is added to. Its scale depends on the family."""

    scores: Scores
    family: str = "other"
    edits: EditScores | None = None


@dataclass(frozen=True)
class Swept:
    """What adding RESUME does to one metric; `chosen` is the weight that was best on the development part."""

    metric: str
    chosen: float
    development: Mapping[str, Values]  # statistic -> [weights]
    rest: Mapping[str, Values]
    gain: float  # in the statistic that chose, on the rest, over the metric alone; positive is better
    low: float
    high: float
    post_edits: tuple[float, ...] | None  # [weights]


@dataclass(frozen=True)
class ResumeSweep:
    """The curves of all metrics."""

    weights: tuple[float, ...]
    statistics: tuple[str, ...]
    select: str
    segments: tuple[int, int]  # of the development part and of the rest
    metrics: tuple[Swept, ...]
    draws: int
    seed: int

    def record(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "weights": list(self.weights),
            "chosen_by": self.select,
            "development_segments": self.segments[0],
            "rest_segments": self.segments[1],
            "draws": self.draws,
            "seed": self.seed,
            "metrics": [asdict(swept) for swept in self.metrics],
        }

    def plot(self, title: str) -> str:
        """An SVG with a panel for each statistic, on the rest, and one for the post-edit rate."""
        names = {swept.metric: f"{swept.metric}, chosen {swept.chosen:g}" for swept in self.metrics}
        curves: dict[str, dict[str, Sequence[float | None]]] = {
            f"{LABELS.get(name, name)}, {self.segments[1]} segments": {
                names[swept.metric]: swept.rest[name] for swept in self.metrics
            }
            for name in self.statistics
        }
        curves["post-edit rate"] = {names[s.metric]: s.post_edits for s in self.metrics if s.post_edits is not None}
        panels = [
            Panel(name, "weight of RESUME", self.weights, {key: _defined(line) for key, line in lines.items()})
            for name, lines in curves.items()
            if lines and all(value is not None for line in lines.values() for value in line)
        ]
        label = f"weights chosen on {self.segments[0]} other segments by {LABELS.get(self.select, self.select)}"
        return line_panels(title, panels, label, own_scales=True)


def resume_sweep(
    scores: ScoreSet,
    bases: Sequence[Base],
    resume_metric: Scores,
    *,
    weights: Sequence[float] = WEIGHTS,
    statistics: Sequence[str] = STATISTICS,
    select: str | None = None,
    dev_share: float = 0.5,
    draws: int = 1000,
    seed: int = 1,
) -> ResumeSweep:
    """Add RESUME to metrics with every weight, choose one per metric on a part of the segments, measure the rest.

    Args:
        scores: the human scores.
        bases: metrics over the same systems and segments.
        resume_metric: the scores of RESUME.
        weights: to try; 0, the metric alone, is always among them.
        select: the statistic that chooses (default: the first of `statistics`); of equal weights the smallest wins.
        dev_share: of the annotated segments, drawn with the seed.
        draws: of the bootstrap; 0 for no intervals (low and high are the gain).

    Raises:
        UsageError: a weight, the share or `select` makes no sense.
        InputError: too few annotated segments for two parts.
    """
    levels = tuple(sorted({0.0, *map(float, weights)}))
    if not all(math.isfinite(weight) and weight >= 0 for weight in levels):
        raise UsageError(f"the weights of RESUME are {list(weights)}; expected numbers from 0 on")
    if not 0 < dev_share < 1:
        raise UsageError(f"the development share is {dev_share}; expected a share between 0 and 1, such as 0.5")
    chooser = select or statistics[0]
    if chooser not in statistics:
        raise UsageError(
            f"weights are chosen by {chooser!r}, which is not among the statistics {', '.join(statistics)}"
        )
    development, rest = _parts(scores.gold, dev_share, seed)
    swept = []
    for base in bases:
        curves = [_curves(scores.gold, base, resume_metric, levels, part, statistics) for part in (development, rest)]
        chosen = _best(levels, curves[0][chooser], chooser)
        gain, *bounds = _gain(scores.gold, base, resume_metric, chosen, rest, chooser, draws, seed)
        edits = base.edits
        rates = None if edits is None else tuple(edits.rate(_factor(base, weight)) for weight in levels)
        low, high = bounds
        swept.append(Swept(base.scores.name, chosen, curves[0], curves[1], gain, low, high, rates))
    sizes = (len(development), len(rest))
    return ResumeSweep(levels, tuple(statistics), chooser, sizes, tuple(swept), draws, seed)


def _parts(gold: Floats, share: float, seed: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    annotated = np.flatnonzero((~np.isnan(gold)).any(axis=0))
    count = round(share * len(annotated))
    if not 0 < count < len(annotated):
        raise InputError(
            f"{len(annotated)} annotated segments cannot be divided into a development part of {share:g} and a rest"
        )
    shuffled = np.random.default_rng(seed).permutation(annotated)
    return np.sort(shuffled[:count]), np.sort(shuffled[count:])


def _factor(base: Base, weight: float) -> float:
    return Residual(weight).factor(base.family)


def _added(base: Base, resume_metric: Scores, weight: float, part: NDArray[np.int64]) -> Scores:
    return with_resume(base.scores.columns(part), resume_metric.columns(part), Residual(weight), base.family)


def _curves(
    gold: Floats,
    base: Base,
    resume_metric: Scores,
    weights: Sequence[float],
    part: NDArray[np.int64],
    statistics: Sequence[str],
) -> dict[str, Values]:
    human = Gold(gold[:, part])
    measured = [measure(human, _added(base, resume_metric, weight, part), statistics) for weight in weights]
    return {name: tuple(values[name] for values in measured) for name in statistics}


def _best(weights: Sequence[float], values: Values, statistic: str) -> float:
    places = [place for place, value in enumerate(values) if value is not None]
    return weights[max(places, key=lambda place: (better(statistic, values[place]), -place))] if places else 0.0


def _gain(
    gold: Floats,
    base: Base,
    resume_metric: Scores,
    weight: float,
    part: NDArray[np.int64],
    statistic: str,
    draws: int,
    seed: int,
) -> tuple[float, float, float]:
    """Gain over the metric alone, and its 95 % interval over resampled segments."""

    def gain(places: NDArray[np.int64]) -> float:
        human = Gold(gold[:, places])
        after, before = (
            measure(human, _added(base, resume_metric, each, places), [statistic])[statistic] for each in (weight, 0.0)
        )
        return 0.0 if after is None or before is None else better(statistic, after) - better(statistic, before)

    observed = gain(part)
    if weight == 0 or not draws:
        return observed, observed, observed
    random = np.random.default_rng(seed)
    sampled = [gain(random.choice(part, len(part))) for _ in range(draws)]
    low, high = np.quantile(sampled, [0.025, 0.975])
    return observed, float(low), float(high)


def _defined(line: Sequence[float | None]) -> list[float]:
    return [value for value in line if value is not None]
