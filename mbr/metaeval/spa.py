"""Soft pairwise accuracy (SPA, Thompson et al. 2024): does a metric know which systems differ, and how surely?

For each pair of systems a paired permutation test gives the p-value of "the first is better", by people and by the
metric; SPA is 1 minus the mean difference of the two. The official value compares one-sided with >=, over pairs of the
upper triangle, so that it depends on the order of the systems; here that is the order of the rows. The symmetric
variant counts half of the draws that equal the observation (mid-p): then p(j, i) = 1 - p(i, j), and no order matters.

    >>> gold = np.array([[1.0, 2.0, 3.0], [1.0, 1.0, 1.0]])
    >>> float(spa(pair_p_values(gold), pair_p_values(2 * gold + 5)))
    1.0
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mbr.metaeval.values import Floats, Scores

Floats32 = NDArray[np.float32]

DRAWS = 1000
SEED = 4  # that of the official toolkit: the same draws, the same digits
LANE_WORDS = 255  # of a sum of bytes that cannot overflow
TIE = 1e-10  # sums in another order differ in the last digits; what is equal but for that is a tie


def sign_vectors(segments: int, draws: int = DRAWS) -> Floats32:
    """[draws, segments] of -1 and +1, those that the official toolkit draws."""
    signs = np.rint(np.random.default_rng(SEED).random((draws, segments), dtype=np.float32))
    return np.asarray(signs * np.float32(2) - np.float32(1))


def pair_p_values(scores: Scores | Floats, *, signs: Floats32 | None = None, symmetric: bool = False) -> Floats:
    """p [pairs of systems] of "the first is better", pairs (i, j) with i < j row by row. O(K N M + K N^2).

    `scores` [systems, segments], or of a pairwise metric, whose differences take the place of x_i - x_j.
    """
    if isinstance(scores, Scores):
        if scores.differences is not None:
            return _of_differences(scores.differences, signs, symmetric)
        assert scores.segments is not None
        scores = scores.segments
    signs = sign_vectors(scores.shape[1]) if signs is None else signs
    values: NDArray[Any] = scores.astype(np.float64 if symmetric else np.float32)
    totals = values.sum(axis=1)  # [systems]
    drawn = np.ascontiguousarray((signs @ values.T).T)  # [systems, draws]
    found = []
    for i in range(len(values) - 1):
        null = drawn[i] - drawn[i + 1 :]
        observed = (totals[i] - totals[i + 1 :])[:, None]
        found.append(_share(null, observed, symmetric))
    return np.concatenate([np.empty(0), *found])


def spa(gold: Floats, metric: Floats) -> float:
    """Of p-values [pairs] by people and by the metric."""
    return float(1.0 - np.abs(gold - metric).mean()) if len(gold) else float("nan")


def spa_range(gold: Scores | Floats, metric: Scores | Floats, *, signs: Floats32 | None = None) -> tuple[float, float]:
    """Between which values the official SPA lies, whatever the order of the systems.

    Each pair counts in one of its two orders; the worst and the best order of each pair bound every order of all.
    """
    errors = []
    for turn in (1.0, -1.0):
        # p(j, i) is p(i, j) of the negated scores: turning both signs turns the question round.
        errors.append(
            np.abs(
                pair_p_values(_negated(gold, turn), signs=signs) - pair_p_values(_negated(metric, turn), signs=signs)
            )
        )
    both = np.stack(errors)
    return float(1 - both.max(axis=0).mean()), float(1 - both.min(axis=0).mean())


def is_constant(scores: Scores) -> bool:
    """Whether a metric cannot tell any two systems apart; its official SPA means nothing (0 >= 0 is always true)."""
    if scores.differences is not None:
        return not scores.differences.any()
    assert scores.segments is not None
    return bool((scores.segments == scores.segments[:1]).all())


def count_at_most(values: Floats32, slack: float = 0.0) -> NDArray[np.int64]:
    """[pairs]: in how many draws values[i] <= values[j] + slack, for i < j, of values [systems, draws].

    The flags of 8 draws are summed as one 64-bit word, byte beside byte, which no sum of up to 255 words overflows.
    """
    systems, draws = values.shape
    words = -(-draws // 8)
    flags = np.zeros((systems * (systems - 1) // 2, words * 8), np.bool_)
    begin = 0
    for i in range(systems - 1):
        end = begin + systems - 1 - i
        np.less_equal(values[i] - np.float32(slack), values[i + 1 :], out=flags[begin:end, :draws])
        begin = end
    together = flags.view(np.uint64)  # [pairs, words]
    counts = np.zeros(len(flags), np.int64)
    for start in range(0, words, LANE_WORDS):
        sums = np.add.reduce(together[:, start : start + LANE_WORDS], axis=1)
        counts += sums.view(np.uint8).reshape(-1, 8).sum(axis=1, dtype=np.int64)
    return counts


def _of_differences(differences: Floats, signs: Floats32 | None, symmetric: bool) -> Floats:
    signs = sign_vectors(differences.shape[2]) if signs is None else signs
    first, second = np.triu_indices(len(differences), k=1)
    values: NDArray[Any] = differences[first, second].astype(
        np.float64 if symmetric else np.float32
    )  # [pairs, segments]
    null = (signs @ values.T).T  # [pairs, draws]
    return _share(null, values.sum(axis=1)[:, None], symmetric)


def _share(null: NDArray[Any], observed: NDArray[Any], symmetric: bool) -> Floats:
    """Of draws that reach the observation. The official comparison is exact, in float32; mid-p wants true ties."""
    if not symmetric:
        return np.asarray((null >= observed).mean(axis=1))
    slack = TIE * max(float(np.abs(null).max(initial=0.0)), float(np.abs(observed).max(initial=0.0)))
    return np.asarray(((null > observed + slack).mean(axis=1) + (null >= observed - slack).mean(axis=1)) / 2)


def _negated(scores: Scores | Floats, sign: float) -> Floats | Scores:
    if isinstance(scores, Scores):
        if scores.differences is not None:
            return Scores(scores.name, None, differences=sign * scores.differences)
        assert scores.segments is not None
        scores = scores.segments
    return sign * scores
