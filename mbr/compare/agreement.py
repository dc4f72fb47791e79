"""How far do settings agree? Same choice, rank correlation, and what one's choice loses in another's eyes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mbr.compare.study import regret_of
from mbr.decide import Decision

Floats = NDArray[np.float64]
FEWEST = 3  # candidates whose ranks can be correlated


@dataclass(frozen=True)
class Agreement:
    """`rows` choose, `settings` (some of them) have scores and so an opinion on every choice.

    `same` [rows, rows]: share of segments with the same text. `correlation` [settings, settings]: mean Spearman
    correlation of scores over the candidates that both have looked at. `regret` [rows, settings]: what a
    row's choice loses under a setting, as a share of the setting's own choice minus the mean. `regrets` [rows,
    settings, segments]: the same segment by segment. NaN where nothing is known.
    """

    rows: tuple[str, ...]
    settings: tuple[str, ...]
    same: Floats
    correlation: Floats
    regret: Floats
    regrets: Floats


def agreement(
    chosen: Mapping[str, Sequence[int]], texts: Mapping[str, Sequence[str]], decided: Mapping[str, Sequence[Decision]]
) -> Agreement:
    """`chosen` and `texts` hold a choice of every row per segment, `decided` the decisions of those with a utility."""
    rows, settings = tuple(chosen), tuple(decided)
    segments = len(next(iter(chosen.values()), ()))
    same = np.array([[np.mean([x == y for x, y in zip(texts[a], texts[b], strict=True)]) for b in rows] for a in rows])
    regrets = np.full((len(rows), len(settings), segments), np.nan)
    for row, name in enumerate(rows):
        for column, other in enumerate(settings):
            for place, (choice, decision) in enumerate(zip(chosen[name], decided[other], strict=True)):
                if "single" in decision.flags:
                    regrets[row, column, place] = 0.0
                elif (found := regret_of(decision.scores, choice, decision.ranking[0])) is not None:
                    regrets[row, column, place] = found
    correlation = np.eye(len(settings))
    for i, j in zip(*np.tril_indices(len(settings), -1), strict=True):
        correlation[i, j] = correlation[j, i] = _correlation(decided[settings[i]], decided[settings[j]])
    return Agreement(rows, settings, same, correlation, _means(regrets), regrets)


def _correlation(first: Sequence[Decision], second: Sequence[Decision]) -> float:
    from scipy.stats import rankdata

    found = []
    for one, other in zip(first, second, strict=True):
        if len(one.scores) != len(other.scores) or not len(one.scores):
            continue
        known = np.isfinite(one.scores) & np.isfinite(other.scores)
        if known.sum() < FEWEST:
            continue
        ranks = [rankdata(values[known]) for values in (one.scores, other.scores)]
        if all(values.std() > 0 for values in ranks):
            found.append(float(np.corrcoef(*ranks)[0, 1]))
    return float(np.mean(found)) if found else np.nan


def _means(values: Floats) -> Floats:
    """Over the last axis, of what is known."""
    known = np.isfinite(values)
    counts = known.sum(axis=-1)
    sums = np.where(known, values, 0).sum(axis=-1)
    return np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)
