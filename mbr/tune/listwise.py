"""The listwise objective: expected quality of a choice that is drawn from a softmax over each list.

With features x(i) of the candidates (standardised), weights w and qualities y(i), each list contributes
sum_i softmax(w · x)_i y(i). Its maximum over w is found with L-BFGS; the scale of w is that of the softmax, so it is
learnt too. Unlike least squares on the qualities, only what decides the top of a list counts (Och 2003 and Smith and
Eisner 2006 for the minimum risk of n-best lists).

    problem = Problem.of([features of list 1, ...], [qualities of list 1, ...])
    weights = fit(problem, penalty=0.001)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

PENALTIES = (0.1, 0.01, 0.001)  # of the squared weights, from strong to weak
RANDOM_STARTS = 3


@dataclass(frozen=True)
class Problem:
    """Features [rows, features] and qualities [rows] of all candidates, list after list."""

    features: Floats
    qualities: Floats
    sizes: Ints  # [lists] candidates of each

    @classmethod
    def of(cls, features: Sequence[Floats], qualities: Sequence[Floats]) -> Problem:
        sizes = np.array([len(values) for values in qualities], np.int64)
        return cls(np.concatenate(features), np.concatenate(qualities), sizes)

    @property
    def starts(self) -> Ints:
        return np.asarray(np.cumsum(self.sizes) - self.sizes)

    def take(self, lists: Ints) -> Problem:
        """Some of the lists."""
        sizes = self.sizes[lists]
        rows = np.repeat(self.starts[lists] - (np.cumsum(sizes) - sizes), sizes) + np.arange(int(sizes.sum()))
        return Problem(self.features[rows], self.qualities[rows], sizes)

    def without(self, feature: int) -> Problem:
        return Problem(np.delete(self.features, feature, axis=1), self.qualities, self.sizes)

    def choices(self, weights: Floats) -> Ints:
        """The best candidate of each list [lists]; of equal ones the first."""
        scores = self.features @ weights
        best = np.repeat(np.maximum.reduceat(scores, self.starts), self.sizes)
        rows = np.flatnonzero(scores >= best)
        _, first = np.unique(np.searchsorted(self.starts, rows, side="right"), return_index=True)
        return np.asarray(rows[first] - self.starts)

    def quality(self, choices: Ints) -> Floats:
        """Qualities [lists] of choices [lists]."""
        return np.asarray(self.qualities[self.starts + choices])


def standardised(features: Sequence[Floats]) -> tuple[list[Floats], Floats]:
    """Features less their mean in each list, in units of their standard deviation within lists; and these [features].

    A feature that never differs within a list has a deviation of 0 and stays 0.
    """
    centred = [values - values.mean(axis=0) for values in features]
    deviations = np.sqrt(np.mean(np.concatenate(centred) ** 2, axis=0))
    scale = np.where(deviations > 0, deviations, 1.0)
    return [values / scale for values in centred], deviations


def fit(problem: Problem, penalty: float, *, positive: Sequence[int] = (), seed: int | None = None) -> Floats:
    """Weights [features] with the highest expected quality, less `penalty` times their squares.

    The penalty is weakened step by step, each step starting where the last one ended.

    Args:
        positive: features whose weights must not be negative.
        seed: of more starts, which are drawn; None for none.
    """
    weights = fit_path(problem, [value for value in PENALTIES if value > penalty] + [penalty], positive=positive)[-1]
    if seed is None:
        return weights
    drawn = np.random.default_rng(seed).normal(scale=2.0, size=(RANDOM_STARTS, problem.features.shape[1]))
    climbs = [_climb(problem, penalty, start, positive) for start in (weights, *drawn)]
    return np.asarray(min(climbs, key=lambda result: float(result.fun)).x, np.float64)


def fit_path(problem: Problem, penalties: Sequence[float], *, positive: Sequence[int] = ()) -> list[Floats]:
    """The weights for each penalty, from strong to weak."""
    weights = np.zeros(problem.features.shape[1])
    path = []
    for penalty in penalties:
        weights = np.asarray(_climb(problem, penalty, weights, positive).x, np.float64)
        path.append(weights)
    return path


def _climb(problem: Problem, penalty: float, start: Floats, positive: Sequence[int]) -> Any:
    from scipy.optimize import minimize

    bounds = [(0.0, None) if place in positive else (None, None) for place in range(len(start))]
    inside = np.where([low is not None for low, _ in bounds], np.maximum(start, 0.0), start)
    return minimize(_loss, inside, (problem, penalty), "L-BFGS-B", jac=True, bounds=bounds)


def _loss(weights: Floats, problem: Problem, penalty: float) -> tuple[float, Floats]:
    """The negative objective and its gradient."""
    starts, sizes = problem.starts, problem.sizes
    scores = problem.features @ weights
    shares = np.exp(scores - np.repeat(np.maximum.reduceat(scores, starts), sizes))
    shares /= np.repeat(np.add.reduceat(shares, starts), sizes)
    expected = np.add.reduceat(shares * problem.qualities, starts)
    gradient = problem.features.T @ (shares * (problem.qualities - np.repeat(expected, sizes))) / len(sizes)
    return float(penalty * weights @ weights - expected.mean()), 2 * penalty * weights - gradient
