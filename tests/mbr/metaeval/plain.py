"""The statistics once more: loops and definitions, no closed forms, nothing shared with the package."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import combinations, permutations

import numpy as np
import scipy.stats
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def pairs_of_segments(gold: Floats) -> Iterator[tuple[int, list[tuple[int, int]]]]:
    """Each segment with its pairs of annotated systems."""
    for segment in range(gold.shape[1]):
        scored = [i for i in range(len(gold)) if not np.isnan(gold[i, segment])]
        yield segment, list(combinations(scored, 2))


def acc_eq_at(gold: Floats, difference: Callable[[int, int, int], float], epsilon: float) -> float:
    means = []
    for segment, pairs in pairs_of_segments(gold):
        if not pairs:
            continue
        right = 0
        for i, j in pairs:
            g, d = gold[i, segment] - gold[j, segment], difference(i, j, segment)
            tie = abs(d) <= epsilon
            right += (g == 0 and tie) or (not tie and ((g > 0 and d > 0) or (g < 0 and d < 0)))
        means.append(right / len(pairs))
    return float(np.mean(means))


def acc_eq(gold: Floats, difference: Callable[[int, int, int], float]) -> tuple[float, float]:
    """Every threshold that could matter, tried."""
    tried = {0.0}
    for segment, pairs in pairs_of_segments(gold):
        tried |= {abs(difference(i, j, segment)) for i, j in pairs}
    results = [(acc_eq_at(gold, difference, epsilon), epsilon) for epsilon in sorted(tried)]
    best = max(value for value, _ in results)
    return next((value, epsilon) for value, epsilon in results if value >= best - 1e-12)


def pdp(gold: Floats, difference: Callable[[int, int, int], float]) -> float:
    """The explicit vectors of all differences, in both orders."""
    x, y = [], []
    for segment in range(gold.shape[1]):
        scored = [i for i in range(len(gold)) if not np.isnan(gold[i, segment])]
        for i, j in permutations(scored, 2):
            x.append(difference(i, j, segment))
            y.append(gold[i, segment] - gold[j, segment])
    return pearson(x, y)


def segment_pearson(gold: Floats, metric: Floats) -> float:
    found = []
    for segment in range(gold.shape[1]):
        scored = ~np.isnan(gold[:, segment])
        x, y = metric[scored, segment], gold[scored, segment]
        if len(x) > 1 and len(set(x)) > 1 and len(set(y)) > 1:
            found.append(np.corrcoef(x, y)[0, 1])
    return float(np.mean(found)) if found else 0.0


def global_pearson(gold: Floats, metric: Floats) -> float:
    scored = ~np.isnan(gold)
    return pearson(metric[scored], gold[scored])


def pearson(x: Sequence[float] | Floats, y: Sequence[float] | Floats) -> float:
    return float(scipy.stats.pearsonr(x, y)[0]) if len(set(x)) > 1 and len(set(y)) > 1 else 0.0


def kendall(gold: Floats, difference: Callable[[int, int, int], float]) -> float:
    concordant = discordant = 0
    for segment, pairs in pairs_of_segments(gold):
        for i, j in pairs:
            g, d = gold[i, segment] - gold[j, segment], difference(i, j, segment)
            if g:
                concordant += g * d > 0
                discordant += not g * d > 0
    return (concordant - discordant) / (concordant + discordant)


def p_values(difference: Callable[[int, int], Floats], systems: int, *, middle: bool = False) -> list[float]:
    """One test for each pair of systems, on its own differences."""
    found = []
    for i, j in combinations(range(systems), 2):
        d = difference(i, j).astype(np.float32).astype(np.float64)
        coins = np.random.default_rng(4).random((1000, len(d)), dtype=np.float32)
        null = np.where(coins > 0.5, d, -d).sum(axis=1)
        reached = (null > d.sum()).sum() + 0.5 * (null == d.sum()).sum() if middle else (null >= d.sum()).sum()
        found.append(float(reached) / 1000)
    return found


def spa(gold: Floats, metric: Floats, *, middle: bool = False) -> float:
    shared = ~np.isnan(gold).any(axis=0)
    g, x = gold[:, shared], metric[:, shared]
    of_gold = p_values(lambda i, j: g[i] - g[j], len(g), middle=middle)
    of_metric = p_values(lambda i, j: x[i] - x[j], len(x), middle=middle)
    return 1 - float(np.mean(np.abs(np.array(of_gold) - np.array(of_metric))))


def permutation_p(
    gold: Floats, one: Floats, two: Floats, statistic: Callable[[Floats, Floats], float], masks: Sequence[Floats]
) -> tuple[list[float], float]:
    """What chance makes of statistic(one) - statistic(two), by these masks, and the share that reaches the observed."""
    scored = ~np.isnan(gold)

    def z(x: Floats) -> Floats:
        spread = x[scored].std()
        return (x - x[scored].mean()) / spread if spread else x * 0

    a, b = z(one), z(two)
    observed = statistic(gold, a) - statistic(gold, b)
    found = []
    for mask in masks:
        found.append(statistic(gold, np.where(mask, a, b)) - statistic(gold, np.where(mask, b, a)))
    return found, float(np.mean([value >= observed - 1e-6 for value in found]))
