"""How well do a metric's scores agree with people's? The statistics of WMT, fast, with the official toolkit's digits.

`Gold` holds what depends on the human scores only; each statistic is then a few passes over a metric's matrix.

| statistic | asks | over |
| --- | --- | --- |
| `spa` | are systems separated as certainly as by people? | pairs of systems |
| `acc_eq` | which of two translations is better, or are they equal? | pairs of one segment, ties calibrated |
| `pdp` | and by how much? | differences of one segment, all segments together |
| `segment_pearson` | the same, each segment by itself | mean over segments |
| `global_pearson` | how good is a translation? | all translations |
| `kendall` | which is better, where people see a difference? | pairs of one segment |
| `pairwise_accuracy`, `system_pearson` | which system is better, and by how much? | systems |
| `choice`, `choice_regret`, `rrp` | what do people think of the translation with the metric's best score? | segments |

    >>> gold = Gold(np.array([[1.0, 2.0], [3.0, 2.5], [5.0, 2.0]]))
    >>> metric = Scores("m", np.array([[0.1, 0.2], [0.2, 0.4], [0.3, 0.2]]))
    >>> round(measure(gold, metric)["pdp"], 6)
    0.897085
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from mbr.metaeval.spa import Floats32, pair_p_values, sign_vectors, spa
from mbr.metaeval.values import Floats, Scores
from pear.ties import calibrate

STATISTICS = (
    "spa",
    "acc_eq",
    "pdp",
    "segment_pearson",
    "global_pearson",
    "kendall",
    "pairwise_accuracy",
    "system_pearson",
    "choice",
    "choice_regret",
    "rrp",
)
LABELS = {
    "spa": "SPA",
    "acc_eq": "acc_eq*",
    "pdp": "PDP",
    "segment_pearson": "segment-wise Pearson",
    "global_pearson": "global Pearson",
    "kendall": "Kendall",
    "pairwise_accuracy": "pairwise accuracy",
    "system_pearson": "system Pearson",
    "choice": "choice",
    "choice_regret": "choice regret",
    "rrp": "reranking precision",
}
OF_CHOICES = ("choice", "choice_regret", "rrp")
LOWER_IS_BETTER = ("choice_regret",)
OF_SYSTEMS = ("pairwise_accuracy", "system_pearson")  # need no scores of segments


class Gold:
    """Human scores [systems, segments], NaN where there are none, with everything that many metrics share."""

    def __init__(
        self, scores: Floats, systems: Floats | None = None, *, draws: int = 1000, symmetric: bool = False
    ) -> None:
        self.human = Scores("gold", scores, systems)
        self.scores = scores
        self.draws, self.symmetric = draws, symmetric
        self.valid = ~np.isnan(scores)
        self.complete = bool(self.valid.all())
        self.counts = self.valid.sum(axis=0)  # [segments]
        self.first, self.second = np.triu_indices(len(scores), k=1)

    @cached_property
    def differences(self) -> Floats:
        """[pairs of systems, segments]; NaN where one of the two has no score."""
        return np.asarray(self.scores[self.first] - self.scores[self.second])

    @cached_property
    def paired(self) -> NDArray[np.bool_]:
        """[pairs, segments]: whether both were scored."""
        return np.asarray(self.valid[self.first] & self.valid[self.second])

    @cached_property
    def tied(self) -> NDArray[np.bool_]:
        """[pairs, segments]: whether people scored them equal."""
        return np.asarray(self.differences == 0)

    @cached_property
    def _above(self) -> NDArray[np.bool_]:
        return np.asarray(self.differences > 0)

    @cached_property
    def _below(self) -> NDArray[np.bool_]:
        return np.asarray(self.differences < 0)

    def ordered(self, differences: Floats) -> NDArray[np.bool_]:
        """[pairs, segments]: whether a metric's differences have the sign of people's."""
        return np.asarray(((differences > 0) & self._above) | ((differences < 0) & self._below))

    @cached_property
    def pair_weight(self) -> Floats:
        """[segments]: the weight of a pair, such that all segments with a pair weigh the same; sum 1."""
        pairs = self.counts * (self.counts - 1) // 2
        return np.where(pairs > 0, 1.0 / np.maximum(pairs, 1), 0.0) / max(int((pairs > 0).sum()), 1)

    @cached_property
    def centred(self) -> Floats:
        """[systems, segments], minus the mean of each segment; 0 where there is no score."""
        return centre(self.scores, self.valid, self.counts)

    @cached_property
    def shared(self) -> NDArray[np.int64]:
        """The segments in which every system has a score."""
        return np.flatnonzero(self.valid.all(axis=0))

    @cached_property
    def signs(self) -> Floats32:
        return sign_vectors(len(self.shared), self.draws)

    @cached_property
    def p_values(self) -> Floats:
        """Of SPA, by people."""
        return pair_p_values(self.scores[:, self.shared], signs=self.signs, symmetric=self.symmetric)

    @cached_property
    def choosable(self) -> NDArray[np.int64]:
        """The segments with at least two scores, so that there is a choice."""
        return np.flatnonzero(self.counts > 1)

    @cached_property
    def best(self) -> Floats:
        """[choosable segments]: the highest human score."""
        return np.asarray(np.where(self.valid, self.scores, -np.inf)[:, self.choosable].max(axis=0, initial=-np.inf))

    @cached_property
    def chance(self) -> Floats:
        """[choosable segments]: the mean human score, which a random choice has on average."""
        scores = np.where(self.valid, self.scores, 0.0)[:, self.choosable]
        return np.asarray(scores.sum(axis=0) / self.counts[self.choosable])

    def metric_differences(self, metric: Scores) -> Floats:
        """[pairs of systems, segments]"""
        if metric.differences is not None:
            return np.asarray(metric.differences[self.first, self.second])
        assert metric.segments is not None
        return np.asarray(metric.segments[self.first] - metric.segments[self.second])

    def metric_p_values(self, metric: Scores) -> Floats:
        return pair_p_values(metric.columns(self.shared), signs=self.signs, symmetric=self.symmetric)


def measure(gold: Gold, metric: Scores, statistics: Sequence[str] = STATISTICS) -> dict[str, float | None]:
    """These statistics of a metric, and `epsilon` beside `acc_eq`; None where a statistic is not defined.

    A statistic is undefined where a metric has no scores of segments, where fewer than two systems are compared, or
    where no segment has what the statistic compares.
    """
    values: dict[str, float | None] = {}
    by_segment = metric.segments is not None
    differences = gold.metric_differences(metric) if by_segment and {"acc_eq", "kendall"} & set(statistics) else None
    for name in statistics:
        value: float | None = None
        if name == "acc_eq":
            value, epsilon = (None, None) if differences is None else acc_eq(gold, differences)
            values["acc_eq"], values["epsilon"] = value, epsilon
            continue
        if name == "kendall":
            value = None if differences is None else kendall(gold, differences)
        elif name == "pairwise_accuracy":
            value = pairwise_accuracy(gold, metric)
        elif name == "system_pearson":
            value = system_pearson(gold, metric)
        elif by_segment and name in OF_CHOICES:
            value = _mean_choice(gold, metric, name)
        elif by_segment:
            value = _OF_SEGMENTS[name](gold, metric)
        values[name] = value
    return values


def better(statistic: str, value: float | None) -> float:
    """A number that is higher for a better value of this statistic; NaN for none."""
    if value is None:
        return float("nan")
    return -value if statistic in LOWER_IS_BETTER else value


def acc_eq(gold: Gold, differences: Floats) -> tuple[float | None, float | None]:
    """acc_eq* of a metric's differences [pairs, segments], and its threshold: the mean over segments. O(P log P)."""
    if not gold.paired.any():
        return None, None
    ordered, tied = gold.ordered(differences), gold.tied
    sizes = np.abs(differences[ordered]), np.abs(differences[tied])
    if gold.complete:
        right, epsilon = calibrate(*sizes)
        return right / differences.size, epsilon
    weight = np.broadcast_to(gold.pair_weight, differences.shape)
    return calibrate(*sizes, weight[ordered], weight[tied])


def kendall(gold: Gold, differences: Floats) -> float | None:
    """(concordant - discordant) / both, over pairs that people order; a metric's tie is discordant (Ma et al. 2019)."""
    count = int((gold.paired & ~gold.tied).sum())
    if not count:
        return None
    concordant = int(gold.ordered(differences).sum())
    return (2 * concordant - count) / count


def pdp(gold: Gold, metric: Scores) -> float | None:
    """Pairwise difference Pearson: of all differences within segments, in both orders. O(N M).

    Sums over the pairs of a segment are n times those of its centred scores; 0 if one side has no differences.
    """
    if not gold.paired.any():
        return None
    xy, xx, yy = _within(gold, metric)
    return _ratio(xy.sum(), xx.sum() * yy.sum())


def segment_pearson(gold: Gold, metric: Scores) -> float | None:
    """Mean of the Pearson correlations of segments; those in which people or the metric are constant drop out."""
    xy, xx, yy = _within(gold, metric)
    varied = (xx > 0) & (yy > 0)
    if not gold.paired.any():
        return None
    return float((xy[varied] / np.sqrt(xx[varied] * yy[varied])).mean()) if varied.any() else 0.0


def global_pearson(gold: Gold, metric: Scores) -> float | None:
    """Of all annotated translations. A pairwise metric has no level of segments: its mean differences are taken."""
    assert metric.segments is not None
    cells = gold.valid & ~np.isnan(metric.segments)  # alone in its segment, a translation has no difference
    if int(cells.sum()) < 2:
        return None
    return pearson(metric.segments[cells], gold.scores[cells])


def soft_pairwise_accuracy(gold: Gold, metric: Scores) -> float | None:
    """SPA over the segments that every system has; the order of the rows is that of the systems."""
    if len(gold.first) == 0 or len(gold.shared) == 0:
        return None
    return spa(gold.p_values, gold.metric_p_values(metric))


def pairwise_accuracy(gold: Gold, metric: Scores) -> float | None:
    """The share of pairs of systems whose difference has the same sign as by people."""
    if len(gold.first) == 0:
        return None
    return float(np.mean(system_signs(gold, metric) == system_signs(gold, gold.human)))


def system_signs(gold: Gold, scores: Scores) -> Floats:
    """[pairs of systems]: 1 if the first is better, -1 if the second is, 0 if neither."""
    values = scores.system_scores()
    return np.asarray(np.sign(values[gold.first] - values[gold.second]))


def system_pearson(gold: Gold, metric: Scores) -> float | None:
    if len(gold.first) == 0:
        return None
    return pearson(metric.system_scores(), gold.human.system_scores())


def choices(gold: Gold, metric: Scores, *, order: NDArray[np.int64] | None = None) -> tuple[Floats, Floats]:
    """What people think of the translation that the metric scores highest, in every segment with a choice. O(N M).

    Only translations that people scored can be chosen. A pairwise metric chooses by its mean differences.

    Args:
        gold: the human scores.
        metric: with scores of segments.
        order: of equally good translations the first in this order of systems is chosen; without it the mean counts.

    Returns:
        Human scores of the choices, and the shares of choices with the segment's best human score; both [segments].
    """
    assert metric.segments is not None
    columns = gold.choosable
    valid, human = gold.valid[:, columns], gold.scores[:, columns]
    scores = np.where(valid, metric.segments[:, columns], -np.inf)
    if order is not None:
        rows = order[scores[order].argmax(axis=0)]
        taken = human[rows, np.arange(len(columns))]
        return taken, np.asarray(taken == gold.best, np.float64)
    liked = scores == scores.max(axis=0, initial=-np.inf)
    weight = liked / np.maximum(liked.sum(axis=0), 1)
    best = weight * (human == gold.best)
    return np.asarray((weight * np.where(liked, human, 0.0)).sum(axis=0)), np.asarray(best.sum(axis=0))


def choice_range(gold: Gold) -> float:
    """Mean human score of the best choices minus that of random choices: what a metric can gain."""
    return float((gold.best - gold.chance).mean()) if len(gold.choosable) else 0.0


def choice_units(gold: Gold, metric: Scores, statistic: str) -> Floats:
    """[segments]: the numbers whose mean is `choice`, `choice_regret` (1 - mean gain) or `rrp`."""
    human, best = choices(gold, metric)
    if statistic == "choice_regret":
        return np.asarray((gold.best - human) / choice_range(gold))
    return human if statistic == "choice" else best


def _mean_choice(gold: Gold, metric: Scores, statistic: str) -> float | None:
    if not len(gold.choosable) or (statistic == "choice_regret" and not choice_range(gold) > 0):
        return None
    return float(choice_units(gold, metric, statistic).mean())


def pearson(x: Floats, y: Floats) -> float:
    """Pearson correlation; 0 if x or y is constant, exactly so because the first value is subtracted first."""
    x, y = x - x[0], y - y[0]
    x, y = x - x.mean(), y - y.mean()
    return _ratio((x * y).sum(), (x * x).sum() * (y * y).sum())


def centre(values: Floats, valid: NDArray[np.bool_], counts: NDArray[np.int64]) -> Floats:
    """Subtract each segment's mean over valid systems; invalid cells become 0.

    The first valid system is subtracted first, so that a constant segment is exactly 0.
    """
    if not values.size:
        return values
    pivot = values[valid.argmax(axis=0), np.arange(values.shape[1])]
    moved = np.where(valid, values - pivot, 0.0)
    mean = moved.sum(axis=0) / np.maximum(counts, 1)
    return np.where(valid, moved - mean, 0.0)


def _within(gold: Gold, metric: Scores) -> tuple[Floats, Floats, Floats]:
    """For each segment the sums over its pairs of metric x gold, metric squared and gold squared."""
    yy = gold.counts * (gold.centred**2).sum(axis=0)
    if metric.differences is not None:
        x = np.where(gold.paired, gold.metric_differences(metric), 0.0)
        y = np.where(gold.paired, gold.differences, 0.0)
        return (x * y).sum(axis=0), (x * x).sum(axis=0), yy
    assert metric.segments is not None
    x = centre(metric.segments, gold.valid, gold.counts)
    return gold.counts * (x * gold.centred).sum(axis=0), gold.counts * (x * x).sum(axis=0), yy


def _ratio(above: float, squared: float) -> float:
    return float(above / np.sqrt(squared)) if squared > 0 else 0.0


_OF_SEGMENTS = {
    "spa": soft_pairwise_accuracy,
    "pdp": pdp,
    "segment_pearson": segment_pearson,
    "global_pearson": global_pearson,
}
