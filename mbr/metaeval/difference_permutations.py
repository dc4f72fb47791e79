"""Permutations for pairwise metrics, which have no scores to swap, only differences.

As in `permutations.py`, but what is swapped with probability 1/2 is the difference between two translations of a
segment by two metrics; a metric of scores takes part with its differences. Both metrics' differences are scaled to
the same mean square. Only pairs of metrics in which one is pairwise are tested this way, so that a pairwise metric in a
table changes nothing for the others.

Every function returns differences of the statistic [draws, pairs of metrics] for the given pairs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from mbr.metaeval.permutations import SLACK, Progress, Seed, divided, masks
from mbr.metaeval.spa import Floats32
from mbr.metaeval.statistics import Gold
from mbr.metaeval.values import Floats, Scores

Pairs = Sequence[tuple[int, int]]
BLOCK_CELLS = 2**24  # of a mask at once


def pdp_draws(gold: Gold, metrics: Sequence[Scores], pairs: Pairs, *, draws: int, seed: Seed) -> Floats32:
    paired = gold.paired.ravel()
    scaled = _scaled(gold, metrics).reshape(len(metrics), -1)[:, paired]  # [metrics, cells]
    judged = gold.differences.ravel()[paired]
    features = np.concatenate([scaled**2, scaled * judged]).T  # [cells, 2 metrics]
    whole = features.sum(axis=0)
    size = np.sqrt((judged**2).sum())
    differences = np.empty((draws, len(pairs)), np.float32)
    for begin, mask in _blocks(gold.paired.shape, draws, seed):
        parts = mask.reshape(len(mask), -1)[:, paired].astype(np.float64) @ features
        for place, (a, b) in enumerate(pairs):
            values = []
            for other, sign in ((b, 1), (a, -1)):
                squares, products = (
                    whole[k + other] + sign * (parts[:, k + a] - parts[:, k + b]) for k in (0, len(metrics))
                )
                values.append(divided(products, np.sqrt(np.maximum(squares, 0)) * size))
            differences[begin : begin + len(mask), place] = values[0] - values[1]
    return differences


def segment_pearson_draws(gold: Gold, metrics: Sequence[Scores], pairs: Pairs, *, draws: int, seed: Seed) -> Floats32:
    judged = np.where(gold.paired, gold.differences, 0.0)
    size = np.sqrt((judged**2).sum(axis=0))
    varied = size > 0
    scaled = _scaled(gold, metrics)[:, :, varied]
    features = np.concatenate([scaled**2, scaled * (judged[:, varied] / size[varied])])  # [2 metrics, pairs, segments]
    whole = features.sum(axis=1)  # [2 metrics, segments]
    by_segment = np.ascontiguousarray(features.transpose(2, 1, 0))
    differences = np.zeros((draws, len(pairs)), np.float32)
    for begin, mask in _blocks(gold.paired.shape, draws, seed):
        turned = np.ascontiguousarray(mask[:, :, varied].transpose(2, 0, 1)).astype(np.float64)
        parts = np.ascontiguousarray((turned @ by_segment).transpose(1, 2, 0))  # [block, 2 metrics, segments]
        for place, (a, b) in enumerate(pairs):
            values = []
            for other, sign in ((b, 1), (a, -1)):
                squares, products = (
                    whole[k + other] + sign * (parts[:, k + a] - parts[:, k + b]) for k in (0, len(metrics))
                )
                varied = squares > 1e-12 * whole[[a, b]].max(axis=0)
                correlations = np.divide(
                    products, np.sqrt(squares, where=varied, out=squares), where=varied, out=products
                )
                values.append(
                    divided(np.where(varied, correlations, 0).sum(axis=1), varied.sum(axis=1).astype(np.float64))
                )
            differences[begin : begin + len(mask), place] = values[0] - values[1]
    return differences


def spa_draws(
    gold: Gold,
    metrics: Sequence[Scores],
    pairs: Pairs,
    *,
    draws: int,
    seed: Seed,
    progress: Progress = lambda steps: steps,
) -> Floats32:
    """p(i, j) counts sign vectors with H d_ij <= 0 (see `permutations.spa_draws`)."""
    scaled = _scaled(gold, metrics)[:, :, gold.shared].astype(np.float32)
    involved = sorted({place for pair in pairs for place in pair})
    chosen = np.ascontiguousarray((1 - gold.signs.T) / 2, np.float32)  # [segments, K]
    vectors = chosen.shape[1]
    full = {place: scaled[place] @ chosen for place in involved}  # [pairs of systems, K]
    expected = gold.p_values * vectors
    scale = vectors * max(len(expected), 1)
    differences = np.empty((draws, len(pairs)), np.float32)
    shape = (scaled.shape[1], scaled.shape[2])
    every = (mask for _, block in _blocks(shape, draws, seed) for mask in block)
    for draw, mask in zip(progress(range(draws)), every, strict=True):
        drawn = {place: (scaled[place] * mask) @ chosen for place in involved}
        for place, (a, b) in enumerate(pairs):
            moved = drawn[a] - drawn[b]
            errors_a, errors_b = (
                np.abs(_counts(values, gold.symmetric) - expected).sum()
                for values in (full[b] + moved, full[a] - moved)
            )
            differences[draw, place] = (errors_b - errors_a) / scale
    return differences


def _counts(values: Floats32, symmetric: bool) -> Floats:
    """[pairs of systems]: sign vectors that reach the observation; half of the equal ones, if symmetric."""
    reached = (values <= SLACK).sum(axis=1)
    return np.asarray((reached + (values < -SLACK).sum(axis=1)) / 2 if symmetric else reached, np.float64)


def _scaled(gold: Gold, metrics: Sequence[Scores]) -> Floats:
    """[metrics, pairs of systems, segments]: differences with mean square 1 over pairs that people scored, else 0."""
    rows = np.array([np.where(gold.paired, gold.metric_differences(metric), 0.0) for metric in metrics])
    size = np.sqrt((rows**2).sum(axis=(1, 2), keepdims=True) / max(int(gold.paired.sum()), 1))
    return np.asarray(rows / np.where(size > 0, size, 1))


def _blocks(shape: tuple[int, int], draws: int, seed: Seed) -> Iterator[tuple[int, NDArray[np.bool_]]]:
    begin = 0
    for mask in masks(shape, draws, seed, max(BLOCK_CELLS // max(shape[0] * shape[1], 1) // 32 * 32, 32)):
        yield begin, mask
        begin += len(mask)
