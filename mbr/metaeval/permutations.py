"""How large can the difference of two metrics be by chance? Permutations (PERM-BOTH, Deutsch et al. 2021).

If two metrics were equally good, it would not matter whose score a translation gets. So both metrics are standardised
over all annotated translations, each translation's two scores are swapped with probability 1/2, and the statistic of
both mixtures is computed; the distribution of their difference is that of chance.

With a mask W of 0 and 1 the mixture of a and b is b + W (a - b), and every sum a Pearson correlation needs is linear in
W: sums of W a, W a^2 and W a y for each metric serve all pairs of metrics, and one mask serves all metrics. Where a
statistic needs squares of sums within segments (PDP), their products for all metrics are a Gram matrix for each draw.
SPA of a mixture is made of the metrics' signed sums in the same way; only the comparisons of its systems, draw by draw
and sign vector by sign vector, have to be made for every pair of metrics: 2 K^2 N^2 / 2 of them, K = 1000.

Every function returns differences [draws, pairs of metrics], the first metric minus the second, pairs (a, b) with
a < b row by row. `seed` decides the masks.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mbr.metaeval.spa import Floats32, count_at_most
from mbr.metaeval.statistics import Gold, system_signs
from mbr.metaeval.values import Floats, Scores

BLOCK = 64  # draws at once
CACHED = 2**20  # numbers that are compared at once: 4 MB, which fit in the cache of the processor
SLACK = 5e-4  # standard deviations: float32 sums that are equal but for this are a tie
Seed = int | Sequence[int]
Progress = Callable[[Iterable[int]], Iterable[int]]


def standardised(values: Floats, valid: NDArray[np.bool_]) -> Floats:
    """[metrics, systems, segments] with mean 0 and variance 1 over valid cells, 0 elsewhere; a constant is all 0."""
    within = values[:, valid]
    within = within - within[:, :1]
    within = within - within.mean(axis=1, keepdims=True)
    spread = np.sqrt((within**2).mean(axis=1, keepdims=True))
    scaled = np.zeros_like(values)
    scaled[:, valid] = within / np.where(spread > 0, spread, 1)
    return scaled


def global_pearson_draws(gold: Gold, metrics: Sequence[Scores], *, draws: int, seed: Seed) -> Floats32:
    z = standardised(_cells(metrics), gold.valid)[:, gold.valid]  # [metrics, cells]
    y = standardised(gold.scores[None], gold.valid)[0, gold.valid]
    count = z.shape[1]
    features = np.concatenate([z, z**2, z * y]).T  # [cells, 3 metrics]
    whole = features.sum(axis=0)
    differences = []
    for mask in masks(gold.scores.shape, draws, seed):
        parts = mask[:, gold.valid].astype(np.float64) @ features  # [block, 3 metrics]
        correlations = []
        for sums, squares, products in _mixtures(parts, whole, len(metrics)):
            variance = count * squares - sums**2
            correlations.append(divided(products, np.sqrt(np.maximum(variance, 0))))
        differences.append((correlations[0] - correlations[1]).astype(np.float32))
    return np.concatenate(differences)


def pdp_draws(gold: Gold, metrics: Sequence[Scores], *, draws: int, seed: Seed) -> Floats32:
    z = standardised(_cells(metrics), gold.valid)
    many = len(metrics)
    first, second = np.triu_indices(many, k=1)
    # Sums over segments of n_s x (sum of squares) and n_s x (sum of products) are linear in the mask ...
    linear = np.concatenate([gold.counts * z**2, gold.counts * (z * gold.centred)])
    flat = linear.reshape(2 * many, -1).T
    whole = flat.sum(axis=0)
    scale = np.sqrt((gold.counts * (gold.centred**2).sum(axis=0)).sum())
    # ... and sum_s (sum of scores)^2 is a quadratic form of the sums within segments.
    full = z.sum(axis=1)  # [metrics, segments]
    full_full = full @ full.T
    by_segment = np.ascontiguousarray(z.transpose(2, 1, 0))  # [segments, systems, metrics]
    differences = []
    for mask in masks(gold.scores.shape, draws, seed):
        parts = mask.reshape(len(mask), -1).astype(np.float64) @ flat  # [block, 2 metrics]
        sums = _segment_sums(mask, by_segment)  # [block, metrics, segments]
        masked = sums @ sums.transpose(0, 2, 1)  # [block, metrics, metrics]
        crossed = full @ sums.transpose(0, 2, 1)
        squares_a, squares_b = _both(parts[:, :many], whole[:many])
        products_a, products_b = _both(parts[:, many:], whole[many:])
        # mixture of a and b: full_b + masked_a - masked_b, and the other way round
        apart = masked[:, first, first] + masked[:, second, second] - 2 * masked[:, first, second]
        of_a = full_full[second, second] + apart + 2 * (crossed[:, second, first] - crossed[:, second, second])
        of_b = full_full[first, first] + apart - 2 * (crossed[:, first, first] - crossed[:, first, second])
        pdp_a = divided(products_a, np.sqrt(np.maximum(squares_a - of_a, 0)) * scale)
        pdp_b = divided(products_b, np.sqrt(np.maximum(squares_b - of_b, 0)) * scale)
        differences.append((pdp_a - pdp_b).astype(np.float32))
    return np.concatenate(differences)


def segment_pearson_draws(gold: Gold, metrics: Sequence[Scores], *, draws: int, seed: Seed) -> Floats32:
    """A segment in which a mixture is constant drops out of its mean."""
    z = standardised(_cells(metrics), gold.valid)
    many = len(metrics)
    size = np.sqrt((gold.centred**2).sum(axis=0))
    varied = size > 0  # segments in which human scores differ
    counts = gold.counts[varied].astype(np.float64)
    y = gold.centred[:, varied] / size[varied]
    z = z[:, :, varied]
    features = np.concatenate([z, z**2, z * y])  # [3 metrics, systems, segments]
    whole = features.sum(axis=1)  # [3 metrics, segments]
    by_segment = np.ascontiguousarray(features.transpose(2, 1, 0))
    pairs = list(zip(*np.triu_indices(many, k=1), strict=True))
    differences = []
    for mask in masks(gold.scores.shape, draws, seed):
        parts = _segment_sums(mask[:, :, varied], by_segment)  # [block, 3 metrics, segments]
        block = np.empty((len(mask), len(pairs)), np.float32)
        for place, (a, b) in enumerate(pairs):
            moved = parts[:, a::many] - parts[:, b::many]  # [block, 3, segments]
            first = _mean_correlation(whole[b::many] + moved, counts)
            second = _mean_correlation(whole[a::many] - moved, counts)
            block[:, place] = first - second
        differences.append(block)
    return np.concatenate(differences)


def spa_draws(
    gold: Gold, metrics: Sequence[Scores], *, draws: int, seed: Seed, progress: Progress = lambda steps: steps
) -> Floats32:
    """Over the segments that every system has. p(i, j) counts sign vectors with H m_i <= H m_j, where H is 1 for a -.

    This is equivalent to S m_i - S m_j >= sum m_i - sum m_j, as S = 1 - 2 H, and needs one number per system and sign
    vector instead of two.
    """
    values = _cells(metrics)[:, :, gold.shared]
    z = standardised(values, np.ones(values.shape[1:], np.bool_)).astype(np.float32)
    many, systems, segments = z.shape
    chosen = np.ascontiguousarray((1 - gold.signs.T) / 2, np.float32)  # [segments, K]
    vectors = chosen.shape[1]
    full = (z.reshape(-1, segments) @ chosen).reshape(many, systems, vectors)
    expected = gold.p_values * vectors  # [pairs of systems]
    scale = vectors * max(len(expected), 1)
    differences = np.empty((draws, many * (many - 1) // 2), np.float32)
    step = max(CACHED // (systems * vectors), 1)

    def one_draw(mask: NDArray[np.bool_]) -> list[Floats]:
        drawn = ((z * mask).reshape(-1, segments) @ chosen).reshape(many, systems, vectors)
        rest = full - drawn
        leads = []
        for a in range(many - 1):
            for b in range(a + 1, many, step):
                # the mixtures of a with the next metrics b: drawn_a + rest_b, and the other way round
                others = slice(b, b + step)
                errors_a = _spa_errors(drawn[a] + rest[others], expected, gold.symmetric)
                errors_b = _spa_errors(drawn[others] + rest[a], expected, gold.symmetric)
                leads.append(errors_b - errors_a)
        return leads

    # numpy lets other threads run while it computes.
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        done = (leads for block in masks((systems, segments), draws, seed) for leads in pool.map(one_draw, block))
        for draw, leads in zip(progress(range(draws)), done, strict=True):
            differences[draw] = np.concatenate(leads) / scale
    return differences


def _spa_errors(values: Floats32, expected: Floats, symmetric: bool) -> Floats:
    """[mixtures]: how far the counts of their pairs of systems are from people's, of values [mixtures, systems, K]."""
    counts: NDArray[Any] = count_at_most(values, SLACK)
    if symmetric:
        counts = (counts + count_at_most(values, -SLACK)) / 2
    return np.asarray(np.abs(counts - expected).sum(axis=1))


def system_draws(statistic: str, gold: Gold, metrics: Sequence[Scores], *, draws: int, seed: Seed) -> Floats32:
    """Of `pairwise_accuracy` and `system_pearson`: systems' scores are swapped."""
    values = np.array([metric.system_scores() for metric in metrics])[:, :, None]  # [metrics, systems, 1]
    z = standardised(values, np.ones(values.shape[1:], np.bool_))[:, :, 0]
    swapped = np.concatenate(list(masks((z.shape[1], 1), draws, seed)))[:, :, 0]  # [draws, systems]
    differences = []
    if statistic == "system_pearson":
        y = gold.human.system_scores()
        y = y - y.mean()
        size = np.sqrt((y**2).sum())

        def correlation(mixed: Floats) -> Floats:
            mixed = mixed - mixed.mean(axis=1, keepdims=True)
            return divided(mixed @ y, np.sqrt((mixed**2).sum(axis=1)) * size)
    else:
        signs = system_signs(gold, gold.human)

        def correlation(mixed: Floats) -> Floats:
            return np.asarray((np.sign(mixed[:, gold.first] - mixed[:, gold.second]) == signs).mean(axis=1))

    for a, b in zip(*np.triu_indices(len(metrics), k=1), strict=True):
        mixed_a, mixed_b = np.where(swapped, z[a], z[b]), np.where(swapped, z[b], z[a])
        differences.append((correlation(mixed_a) - correlation(mixed_b)).astype(np.float32))
    return np.stack(differences, axis=1) if differences else np.empty((draws, 0), np.float32)


def choice_draws(units: Floats, *, draws: int, seed: Seed) -> Floats32:
    """What two metrics chose in a segment is swapped (randomisation); `units` are what choices are worth.

    They are [metrics, segments], higher is better, and their means are the scores of the metrics.
    """
    shares = units / max(units.shape[1], 1)
    first, second = np.triu_indices(len(units), k=1)
    differences = []
    for mask in masks((units.shape[1],), draws, seed):
        signed = np.where(mask, -1.0, 1.0) @ shares.T  # [block, metrics]
        differences.append((signed[:, first] - signed[:, second]).astype(np.float32))
    return np.concatenate(differences)


def _cells(metrics: Sequence[Scores]) -> Floats:
    """[metrics, systems, segments]; a pairwise metric counts by its mean differences."""
    rows = []
    for metric in metrics:
        assert metric.segments is not None
        rows.append(np.nan_to_num(metric.segments))
    return np.array(rows)


def masks(shape: tuple[int, ...], draws: int, seed: Seed, block: int = BLOCK) -> Iterator[NDArray[np.bool_]]:
    """Blocks [draws, ...] of fair coins; the size of blocks, a multiple of 32, does not change what is drawn."""
    random = np.random.default_rng(seed)
    for begin in range(0, draws, block):
        yield random.integers(2, size=(block, *shape), dtype=np.bool_)[: draws - begin]


def _segment_sums(mask: NDArray[np.bool_], by_segment: Floats) -> Floats:
    """[block, features, segments]: sums over masked systems of features [segments, systems, features]."""
    drawn = np.ascontiguousarray(mask.transpose(2, 0, 1)).astype(np.float64) @ by_segment  # [segments, block, features]
    return np.ascontiguousarray(drawn.transpose(1, 2, 0))


def _mixtures(parts: Floats, whole: Floats, many: int) -> list[list[Floats]]:
    """For the mixture that begins as a, and for that which begins as b: each of the features' sums [block, pairs]."""
    features = [_both(parts[:, k : k + many], whole[k : k + many]) for k in range(0, len(whole), many)]
    return [[both[0] for both in features], [both[1] for both in features]]


def _both(parts: Floats, whole: Floats) -> tuple[Floats, Floats]:
    first, second = np.triu_indices(parts.shape[1], k=1)
    moved = parts[:, first] - parts[:, second]
    return whole[second] + moved, whole[first] - moved


def _mean_correlation(features: Floats, counts: Floats) -> Floats:
    """[block]: means over segments of products / sqrt(squares - sums^2 / n), where that is not 0 / 0.

    `features` [block, 3, segments] are sums, squares and products.
    """
    sums, squares, products = features[:, 0], features[:, 1], features[:, 2]
    if not len(counts):
        return np.zeros(len(features))
    variance = squares - sums * sums / counts
    varied = variance > 1e-12 * squares
    np.sqrt(variance, out=variance, where=varied)
    np.divide(products, variance, out=products, where=varied)
    if varied.all():
        return np.asarray(products.mean(axis=1))
    return divided(np.where(varied, products, 0).sum(axis=1), varied.sum(axis=1).astype(np.float64))


def divided(above: Floats, below: Floats) -> Floats:
    """0 where there is nothing to divide by."""
    return np.divide(above, below, out=np.zeros_like(above), where=below > 0)
