"""What weights are worth on lists that they were not tuned on: nested cross-validation.

The lists are dealt into folds by source. For each fold the weights are tuned on the others, with a penalty that inner
folds of these others choose, and choose on the fold itself. So no list has a part in the weights that choose for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mbr.tune.listwise import PENALTIES, Floats, Ints, Problem, fit, fit_path

FOLDS = 5
INNER_FOLDS = 4


@dataclass(frozen=True)
class Validated:
    """Choices [lists] of weights that were tuned on other lists: with all features, and without each of them."""

    choices: Ints
    without: tuple[Ints, ...]


def folds_of(sources: Sequence[str], count: int, seed: int) -> Ints:
    """The fold [lists] of each list; lists of one source share a fold."""
    numbers = {source: number for number, source in enumerate(dict.fromkeys(sources))}
    folds = np.random.default_rng(seed).permutation(len(numbers)) % count
    return np.asarray(folds[[numbers[source] for source in sources]], np.int64)


def validate(problem: Problem, sources: Sequence[str], *, positive: Sequence[int], seed: int) -> Validated:
    """Tune on all folds but one, choose on that one, for each fold; without each feature, too."""
    folds = folds_of(sources, FOLDS, seed)
    features = problem.features.shape[1]
    choices = np.zeros(len(problem.sizes), np.int64)
    without = [np.zeros(len(problem.sizes), np.int64) for _ in range(features)]
    for fold in range(FOLDS):
        others, held_out = np.flatnonzero(folds != fold), np.flatnonzero(folds == fold)
        training, test = problem.take(others), problem.take(held_out)
        penalty = best_penalty(training, [sources[int(place)] for place in others], positive=positive, seed=seed)
        choices[held_out] = test.choices(fit(training, penalty, positive=positive, seed=seed))
        for feature, row in enumerate(without):
            kept = [place - (place > feature) for place in positive if place != feature]
            weights = fit(training.without(feature), penalty, positive=kept, seed=seed)
            row[held_out] = test.without(feature).choices(weights)
    return Validated(choices, tuple(without))


def best_penalty(problem: Problem, sources: Sequence[str], *, positive: Sequence[int], seed: int) -> float:
    """The penalty whose weights choose best on lists that they were not tuned on; of equal ones the strongest."""
    folds = folds_of(sources, INNER_FOLDS, seed + 1)
    gained = np.zeros(len(PENALTIES))
    for fold in range(INNER_FOLDS):
        test = problem.take(np.flatnonzero(folds == fold))
        path = fit_path(problem.take(np.flatnonzero(folds != fold)), PENALTIES, positive=positive)
        gained += [_total(test, weights) for weights in path]
    return PENALTIES[int(np.argmax(gained))]


def _total(problem: Problem, weights: Floats) -> float:
    return float(problem.quality(problem.choices(weights)).sum())
