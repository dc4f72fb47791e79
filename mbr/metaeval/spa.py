"""Soft pairwise accuracy (SPA, Thompson et al. 2024): does a metric separate systems as certainly as people do?

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
TIE = 1e-10  # sums in another order differ in the last digits; such values are ties


def sign_vectors(segments: int, draws: int = DRAWS) -> Floats32:
    """Signs [draws, segments], -1 and +1, the same that the official toolkit draws."""
    signs = np.rint(np.random.default_rng(SEED).random((draws, segments), dtype=np.float32))
    return np.asarray(signs * np.float32(2) - np.float32(1))


def pair_p_values(scores: Scores | Floats, *, signs: Floats32 | None = None, symmetric: bool = False) -> Floats:
    """p [pairs of systems] of "the first is better", pairs (i, j) with i < j row by row. O(K N M + K N^2).

    `scores` [systems, segments], or of a pairwise metric, whose differences take the place of x_i - x_j.
    """
    return _reached(scores, signs, 0.5 if symmetric else None)


def spa(gold: Floats, metric: Floats) -> float:
    """Of p-values [pairs] by people and by the metric."""
    return float(1.0 - np.abs(gold - metric).mean()) if len(gold) else float("nan")


def spa_range(gold: Scores | Floats, metric: Scores | Floats, *, signs: Floats32 | None = None) -> tuple[float, float]:
    """Between which values the official SPA lies, whatever the order of systems and however float32 rounds ties.

    A draw that equals the observation counts in one order of a pair and not in the other, or is rounded to either
    side; the worst and the best of these for each pair bound them all.
    """
    bounds = [
        [_reached(scores, signs, ties) for ties in (0.0, 1.0)]  # without draws that are equal, and with them
        for scores in (gold, metric)
    ]
    errors = np.stack([np.abs(by_people - by_metric) for by_people in bounds[0] for by_metric in bounds[1]])
    return float(1 - errors.max(axis=0).mean()), float(1 - errors.min(axis=0).mean())


def is_constant(scores: Scores) -> bool:
    """Whether all systems have the same scores; the official SPA is then meaningless (0 >= 0 is always true)."""
    if scores.segments is not None and len(scores.segments) < 2:
        return False
    if scores.differences is not None:
        return not np.nan_to_num(scores.differences).any()
    assert scores.segments is not None
    return bool((scores.segments == scores.segments[:1]).all())


def count_at_most(values: Floats32, slack: float = 0.0) -> NDArray[np.int64]:
    """[..., pairs]: in how many draws values[i] <= values[j] + slack, for i < j, of values [..., systems, draws].

    The flags of 8 draws are summed as one 64-bit word, byte beside byte, which no sum of up to 255 words overflows.
    """
    *several, systems, draws = values.shape
    words = -(-draws // 8)
    flags = np.zeros((*several, systems * (systems - 1) // 2, words * 8), np.bool_)
    begin = 0
    for i in range(systems - 1):
        end = begin + systems - 1 - i
        lowered = values[..., i : i + 1, :] - np.float32(slack)
        np.less_equal(lowered, values[..., i + 1 :, :], out=flags[..., begin:end, :draws])
        begin = end
    together = flags.view(np.uint64)  # [..., pairs, words]
    counts = np.zeros(flags.shape[:-1], np.int64)
    for start in range(0, words, LANE_WORDS):
        sums = np.add.reduce(together[..., start : start + LANE_WORDS], axis=-1)
        counts += sums.view(np.uint8).reshape(*counts.shape, 8).sum(axis=-1, dtype=np.int64)
    return counts


def _reached(scores: Scores | Floats, signs: Floats32 | None, ties: float | None) -> Floats:
    """[pairs]: the share of draws that reach the observation; one that equals it counts `ties`.

    None is the official comparison, exact in float32, which rounds ties to either side.
    """
    dtype = np.float32 if ties is None else np.float64
    if isinstance(scores, Scores) and scores.differences is not None:
        first, second = np.triu_indices(len(scores.differences), k=1)
        values: NDArray[Any] = scores.differences[first, second].astype(dtype)  # [pairs, segments]
        signs = sign_vectors(values.shape[1]) if signs is None else signs
        return _share((signs @ values.T).T, values.sum(axis=1)[:, None], ties)
    if isinstance(scores, Scores):
        assert scores.segments is not None
        scores = scores.segments
    signs = sign_vectors(scores.shape[1]) if signs is None else signs
    values = scores.astype(dtype)
    totals = values.sum(axis=1)  # [systems]
    drawn = np.ascontiguousarray((signs @ values.T).T)  # [systems, draws]
    shares = [
        _share(drawn[i] - drawn[i + 1 :], (totals[i] - totals[i + 1 :])[:, None], ties) for i in range(len(values) - 1)
    ]
    return np.concatenate([np.empty(0), *shares])


def _share(null: NDArray[Any], observed: NDArray[Any], ties: float | None) -> Floats:
    if ties is None:
        return np.asarray((null >= observed).mean(axis=1))
    slack = TIE * max(float(np.abs(null).max(initial=0.0)), float(np.abs(observed).max(initial=0.0)))
    above, reached = (null > observed + slack).mean(axis=1), (null >= observed - slack).mean(axis=1)
    return np.asarray(above + ties * (reached - above))
