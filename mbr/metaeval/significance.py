"""Which metrics are significantly better, and which share a rank?

`compare_metrics` gives, for one statistic, the p-value of every pair of metrics: how often chance makes the better one
of two equally good metrics lead by as much. For statistics of scores chance is a permutation (`permutations.py`).
Statistics that count pairs of translations (acc_eq, Kendall) have exact tests: if the outcomes "right" and "wrong" of
two metrics are swapped, only pairs on which they disagree matter, and the number that the first wins is binomial, a
sign test. Where segments weigh differently (missing annotations), pairs of one weight are binomial; their weighted sum
is drawn. Of choices, what two metrics chose in a segment is swapped (`choice_draws`).

Ranks are clusters as WMT has them: metrics in the order of their scores; a new rank begins with the first metric that
is beaten, at p <= .05, by one of the present rank.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mbr.metaeval import difference_permutations, permutations
from mbr.metaeval.permutations import Progress, Seed
from mbr.metaeval.spa import Floats32
from mbr.metaeval.statistics import OF_CHOICES, OF_SYSTEMS, Gold, better, choice_units, measure
from mbr.metaeval.values import Floats, Scores

LEVEL = 0.05
_PEARSON = {
    "global_pearson": permutations.global_pearson_draws,
    "pdp": permutations.pdp_draws,
    "segment_pearson": permutations.segment_pearson_draws,
}
_OF_DIFFERENCES: dict[str, Callable[..., Floats32]] = {
    "pdp": difference_permutations.pdp_draws,
    "segment_pearson": difference_permutations.segment_pearson_draws,
    "spa": difference_permutations.spa_draws,
}


@dataclass(frozen=True)
class Comparison:
    """All pairs of some metrics under one statistic."""

    names: tuple[str, ...]
    scores: Floats  # [metrics]; higher is better: where it is not, with the opposite sign
    p: Floats  # [metrics, metrics]: p[a, b] of "a leads b by chance"; 1 on the diagonal
    draws: Floats32  # [draws, pairs (a, b) with a < b]: what chance makes of score(a) - score(b)

    def record(self) -> dict[str, Any]:
        """For JSON."""
        return {"metrics": list(self.names), "p": self.p.tolist(), "draws": len(self.draws)}

    def ranks(self) -> dict[str, int]:
        """By name, dense, from 1."""
        order = sorted(range(len(self.names)), key=lambda place: (-self.scores[place], self.names[place]))
        return dict(zip((self.names[place] for place in order), clusters(self.p[np.ix_(order, order)]), strict=True))


def clusters(p: Floats) -> list[int]:
    """Ranks of metrics in the order of their scores, best first, of p[better, worse]."""
    ranks: list[int] = []
    rank, start = 1, 0
    for place in range(len(p)):
        if (p[start:place, place] <= LEVEL).any():
            rank, start = rank + 1, place
        ranks.append(rank)
    return ranks


def compare_metrics(
    gold: Gold,
    metrics: Sequence[Scores],
    statistic: str,
    *,
    draws: int = 1000,
    seed: Seed = 1,
    progress: Progress = lambda steps: steps,
) -> Comparison:
    """Every pair of metrics under one statistic; metrics that the statistic is not defined for are left out.

    Scores are swapped; where one of two metrics is pairwise, differences are (`difference_permutations`).
    """
    if statistic in ("acc_eq", "kendall"):
        return _sign_tests(gold, metrics, statistic, draws=draws, seed=seed)
    values = {metric.name: measure(gold, metric, [statistic])[statistic] for metric in metrics}
    metrics = [metric for metric in metrics if values[metric.name] is not None]
    if statistic in OF_CHOICES:
        units = [better(statistic, 1.0) * choice_units(gold, metric, statistic) for metric in metrics]
        return compare_choices([metric.name for metric in metrics], units, draws=draws, seed=seed)
    scores = np.array([better(statistic, values[metric.name]) for metric in metrics], np.float64)
    pairs = [(int(a), int(b)) for a, b in zip(*np.triu_indices(len(metrics), k=1), strict=True)]
    drawn = np.empty((draws, len(pairs)), np.float32)
    # The other statistics take a pairwise metric by its mean differences, which are scores.
    by_difference = [statistic in _OF_DIFFERENCES and _pairwise(metrics[a], metrics[b]) for a, b in pairs]
    if asked := [pair for pair, by in zip(pairs, by_difference, strict=True) if by]:
        shown = {"progress": progress} if statistic == "spa" else {}  # the only one that takes minutes
        drawn[:, by_difference] = _OF_DIFFERENCES[statistic](gold, metrics, asked, draws=draws, seed=seed, **shown)
    plain = [metric for metric in metrics if metric.differences is None or statistic not in _OF_DIFFERENCES]
    if len(plain) > 1:
        drawn[:, np.logical_not(by_difference)] = _score_draws(gold, plain, statistic, draws, seed, progress)
    return Comparison(tuple(metric.name for metric in metrics), scores, permutation_p(scores, drawn), drawn)


def compare_choices(names: Sequence[str], units: Sequence[Floats], *, draws: int, seed: Seed) -> Comparison:
    """Every pair of metrics by what their choices are worth [segments], higher is better."""
    values = np.array(units) if units else np.empty((0, 1))  # [metrics, segments]
    scores = values.mean(axis=1)
    drawn = permutations.choice_draws(values, draws=draws, seed=seed)
    return Comparison(tuple(names), scores, permutation_p(scores, drawn), drawn)


def _pairwise(first: Scores, second: Scores) -> bool:
    return first.differences is not None or second.differences is not None


def _score_draws(
    gold: Gold, metrics: Sequence[Scores], statistic: str, draws: int, seed: Seed, progress: Progress
) -> Floats32:
    if statistic == "spa":
        return permutations.spa_draws(gold, metrics, draws=draws, seed=seed, progress=progress)
    if statistic in OF_SYSTEMS:
        return permutations.system_draws(statistic, gold, metrics, draws=draws, seed=seed)
    return _PEARSON[statistic](gold, metrics, draws=draws, seed=seed)


def permutation_p(scores: Floats, draws: Floats32) -> Floats:
    """p [metrics, metrics] from scores and the differences [draws, pairs] that chance makes of them."""
    first, second = np.triu_indices(len(scores), k=1)
    observed = (scores[first] - scores[second]).astype(np.float32)
    slack = np.float32(1e-6)  # draws are rounded to float32; values this close are ties
    p = np.ones((len(scores), len(scores)))
    p[first, second] = (draws >= observed - slack).mean(axis=0)
    p[second, first] = (-draws >= -observed - slack).mean(axis=0)
    return p


def combine(comparisons: Sequence[Comparison], weights: Floats | None = None) -> Comparison:
    """The (weighted) mean of several statistics or language pairs: of scores, and of their draws.

    Only metrics that all of them have.
    """
    names = [name for name in comparisons[0].names if all(name in comparison.names for comparison in comparisons)]
    scores, drawn = [], []
    for comparison in comparisons:
        places = [comparison.names.index(name) for name in names]
        scores.append(comparison.scores[places])
        drawn.append(_of_pairs(comparison, places))
    share = np.ones(len(comparisons)) if weights is None or not weights.any() else weights
    share = share / share.sum()
    mean = np.tensordot(share, np.array(scores), 1)
    chance = np.tensordot(share, np.array(drawn), 1).astype(np.float32)
    return Comparison(tuple(names), mean, permutation_p(mean, chance), chance)


def _of_pairs(comparison: Comparison, places: Sequence[int]) -> Floats32:
    """The draws of pairs of these metrics, in this order."""
    many = len(comparison.names)
    number = np.zeros((many, many), np.int64)
    first, second = np.triu_indices(many, k=1)
    number[first, second] = number[second, first] = np.arange(len(first))
    a, b = (np.array(places, np.int64)[side] for side in np.triu_indices(len(places), k=1))
    return np.asarray(comparison.draws[:, number[a, b]] * np.where(a < b, 1, -1).astype(np.float32))


def _sign_tests(gold: Gold, metrics: Sequence[Scores], statistic: str, *, draws: int, seed: Seed) -> Comparison:
    from scipy.special import bdtrc

    rows, scores, names = [], [], []
    for metric in metrics:
        if metric.segments is None:
            continue
        values = measure(gold, metric, [statistic])
        if values[statistic] is None:
            continue
        differences = gold.metric_differences(metric)
        rows.append(_right(gold, differences, statistic, values.get("epsilon") or 0.0))
        scores.append(values[statistic])
        names.append(metric.name)
    if not rows:
        return Comparison((), np.empty(0), np.empty((0, 0)), np.empty((draws, 0), np.float32))
    groups = _groups(gold, statistic)
    first, second = np.triu_indices(len(rows), k=1)
    random = np.random.default_rng(seed)
    drawn = np.zeros((draws, len(first)), np.float32)
    ahead = [_wins(rows, cells) for cells, _ in groups]
    for wins, (_, weight) in zip(ahead, groups, strict=True):
        # Of the pairs they disagree on, each metric wins a binomial number; the difference is twice that, less all.
        disagreed = wins[first, second] + wins[second, first]
        drawn += (weight * (2 * random.binomial(disagreed, 0.5, (draws, len(first))) - disagreed)).astype(np.float32)
    observed = np.array(scores, np.float64)
    if len(groups) > 1:
        return Comparison(tuple(names), observed, permutation_p(observed, drawn), drawn)
    (wins,) = ahead
    p = np.where(wins > 0, bdtrc(np.maximum(wins, 1) - 1, wins + wins.T, 0.5), 1.0)
    np.fill_diagonal(p, 1.0)
    return Comparison(tuple(names), observed, p, drawn)


def _right(gold: Gold, differences: Floats, statistic: str, epsilon: float) -> NDArray[np.bool_]:
    """[pairs, segments]: whether the metric is right, as the statistic defines it."""
    ordered = gold.ordered(differences)
    if statistic == "kendall":
        return ordered
    called_ties = np.abs(differences) <= epsilon
    return np.asarray((ordered & ~called_ties) | (called_ties & gold.tied))


def _groups(gold: Gold, statistic: str) -> list[tuple[NDArray[np.bool_], float]]:
    """Cells [pairs, segments] of equal weight, and what one more right cell adds to the statistic."""
    if statistic == "kendall":
        decided = gold.paired & ~gold.tied
        return [(decided, 2.0 / max(int(decided.sum()), 1))]
    weights = [weight for weight in np.unique(gold.pair_weight) if weight > 0]
    return [(gold.paired & (gold.pair_weight == weight), float(weight)) for weight in weights]


def _wins(rows: Sequence[NDArray[np.bool_]], cells: NDArray[np.bool_]) -> NDArray[np.int64]:
    """[metrics, metrics]: the number of these cells that the first has right and the second wrong."""
    right: NDArray[Any] = np.array([row[cells] for row in rows], np.float32 if cells.sum() < 2**24 else np.float64)
    both = np.rint(right @ right.T).astype(np.int64)
    return np.asarray(both.diagonal()[:, None] - both)
