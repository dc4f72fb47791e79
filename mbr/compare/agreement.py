"""How far do settings agree? Same choice, rank correlation, and the regret of one setting's choice under another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mbr.compare.study import regret_of
from mbr.decide import Decision

Floats = NDArray[np.float64]
FEWEST_CANDIDATES = 3  # for a correlation of ranks


@dataclass(frozen=True)
class Agreement:
    """Agreement of `rows`, and of the `settings` among them, which have a score for every choice.

    `same` [rows, rows]: share of segments with the same text. `correlation` [settings, settings]: mean Spearman
    correlation of scores over the candidates that both settings scored. `regret` [rows, settings]: what the choice of
    a row loses under a setting, as a share of the setting's own choice minus the mean. `regrets` [rows, settings,
    segments]: the same segment by segment. NaN where a setting did not score the candidate.
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
    """Compare rows with each other. Quadratic in the number of rows.

    Args:
        chosen: by row, the place of its choice in each list.
        texts: by row, the text of each choice.
        decided: by setting, its decisions.
    """
    rows, settings = tuple(chosen), tuple(decided)
    segments = len(next(iter(chosen.values()), ()))
    same = np.array([[np.mean([x == y for x, y in zip(texts[a], texts[b], strict=True)]) for b in rows] for a in rows])
    regrets = np.full((len(rows), len(settings), segments), np.nan)
    for row, name in enumerate(rows):
        for column, other in enumerate(settings):
            for place, (choice, decision) in enumerate(zip(chosen[name], decided[other], strict=True)):
                if "single" in decision.flags:
                    regrets[row, column, place] = 0.0
                elif (regret := regret_of(decision.scores, choice, decision.ranking[0])) is not None:
                    regrets[row, column, place] = regret
    correlation = np.eye(len(settings))
    for i, j in zip(*np.tril_indices(len(settings), -1), strict=True):
        correlation[i, j] = correlation[j, i] = _correlation(decided[settings[i]], decided[settings[j]])
    return Agreement(rows, settings, same, correlation, _means(regrets), regrets)


def _correlation(first: Sequence[Decision], second: Sequence[Decision]) -> float:
    from scipy.stats import rankdata

    correlations = []
    for decisions in zip(first, second, strict=True):
        scores = [decision.scores for decision in decisions]
        if len(scores[0]) != len(scores[1]) or not len(scores[0]):
            continue
        both = np.isfinite(scores[0]) & np.isfinite(scores[1])
        if both.sum() < FEWEST_CANDIDATES:
            continue
        ranks = [rankdata(values[both]) for values in scores]
        if all(values.std() > 0 for values in ranks):
            correlations.append(float(np.corrcoef(*ranks)[0, 1]))
    return float(np.mean(correlations)) if correlations else np.nan


def _means(values: Floats) -> Floats:
    """Over the last axis, without NaN; NaN where there is nothing else."""
    finite = np.isfinite(values)
    counts = finite.sum(axis=-1)
    sums = np.where(finite, values, 0).sum(axis=-1)
    return np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)
