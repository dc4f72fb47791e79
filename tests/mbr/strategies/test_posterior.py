"""The sampler behind `race`: its sums against plain matrices, its draws against the exact posterior, its honesty."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.support.families import rough, slot_biased, student
from benchmarks.support.replay import segment_of, structured, truth
from mbr.strategies import Segment
from mbr.strategies.comparisons import Comparisons, ExpectedUtility
from mbr.strategies.posterior import COLUMNS, Chain
from mbr.strategies.standing import Standing, standing_of

pytestmark = pytest.mark.one_world


def graph(size: int, cycles: int, draw: np.random.Generator) -> np.ndarray:
    """Random cycles, each pair once; a few pairs in both orders."""
    chosen: dict[tuple[int, int], tuple[int, int]] = {}
    for _ in range(cycles):
        path = draw.permutation(size)
        for a, b in zip(path.tolist(), np.roll(path, -1).tolist(), strict=True):
            chosen.setdefault((min(a, b), max(a, b)), (a, b))
    once = list(chosen.values())
    return np.array([*once, *((b, a) for a, b in once[: max(len(once) // 20, 1)])])


def stand(values: np.ndarray, pairs: np.ndarray, segment: Segment, seed: int = 0) -> Standing:
    comparisons = Comparisons.of(pairs, values[tuple(pairs.T)].astype(np.float32), segment.size)
    draw = np.random.default_rng(seed)
    met = np.zeros(values.shape, np.bool_)
    met[tuple(pairs.T)] = met[tuple(pairs.T[::-1])] = True
    everyone = range(segment.size)
    return standing_of(Chain(segment, draw).run(comparisons), comparisons, segment, met, draw, include=everyone)


def weighted_segment(size: int, draw: np.random.Generator) -> Segment:
    weights = np.exp(draw.normal(size=size))
    return Segment(
        1 - draw.random(size), weights, weights * draw.random(size), "antisymmetric", np.zeros(size, np.bool_)
    )


def test_pairs_in_both_orders_are_a_difference_and_a_bias() -> None:
    pairs = np.array([(0, 1), (2, 1), (1, 0), (3, 2)])
    found = Comparisons.of(pairs, np.array([3.0, 5.0, -1.0, 7.0]), 4)
    known = dict(zip(zip(found.first.tolist(), found.second.tolist(), strict=True), found.differences, strict=True))
    assert known == {(2, 1): 5, (3, 2): 7, (0, 1): 2}
    assert found.biases.tolist() == [1]
    assert (found.once, found.degrees.tolist(), found.freedom) == (2, [1, 2, 2, 1], 0)
    assert found.order_matters


@given(st.integers(3, 20), st.integers(1, 3), st.integers(0, 10**6))
@settings(deadline=None, max_examples=40)
def test_sums_over_pairs_are_those_of_the_whole_matrix(size: int, cycles: int, seed: int) -> None:
    draw = np.random.default_rng(seed)
    segment, pairs = weighted_segment(size, draw), graph(size, cycles, draw)
    comparisons = Comparisons.of(pairs, draw.normal(size=len(pairs)), size)
    qualities, scales = draw.normal(size=(size, 1)), np.exp(draw.normal(size=size))
    whole, met = qualities - qualities.T, np.eye(size, dtype=np.bool_)
    for a, b, value in zip(comparisons.first, comparisons.second, comparisons.differences, strict=True):
        whole[a, b], whole[b, a] = value, -value
        met[a, b] = met[b, a] = True
    target = ExpectedUtility(comparisons, segment)
    plain = (segment.shares() * whole).sum(axis=1)
    np.testing.assert_allclose(target(comparisons.differences[:, None], qualities)[:, 0], plain, atol=1e-12)
    variances = np.where(met, 0, segment.shares() ** 2 * np.outer(scales, scales)).sum(axis=1)
    np.testing.assert_allclose(target.remainder_variances(scales), variances, atol=1e-12)


@pytest.mark.parametrize("kinds", [0, 2])
def test_draws_of_qualities_have_the_exact_mean_and_covariance(kinds: int) -> None:
    """Given the variances, the posterior of the qualities is normal, and plain algebra knows it."""
    size, draw = 12, np.random.default_rng(3)
    values = structured(1, size, rho=0.5, tau=0)
    hints = draw.normal(size=(size, kinds))
    segment, pairs = segment_of(values, 1, hints=hints if kinds else None), graph(size, 1, draw)
    comparisons = Comparisons.of(pairs, values[tuple(pairs.T)], size)
    chain = Chain(segment, draw)
    chain.run(comparisons, 1)
    state: Any = chain._state
    state.spread = 0.8
    weights = np.exp(draw.normal(size=len(comparisons)))
    design = np.zeros((len(comparisons), size))
    places = np.arange(len(comparisons))
    design[places, comparisons.first], design[places, comparisons.second] = 1, -1
    features = chain._features.values
    prior = 0.8 * (np.eye(size) + features @ features.T)
    covariance = np.linalg.inv(np.linalg.inv(prior) + design.T * weights @ design)
    mean = covariance @ design.T @ (weights * comparisons.differences)
    drawn = np.concatenate([chain._draw_qualities(comparisons, weights)[1] for _ in range(400)], axis=1)
    np.testing.assert_allclose(drawn[:, :COLUMNS].mean(axis=1), mean, atol=1e-9)  # mirrored draws: exactly
    np.testing.assert_allclose(np.cov(drawn), covariance, atol=0.06)


@pytest.mark.parametrize("tails", [3.0, math.inf])
def test_draws_of_candidates_with_one_comparison_have_the_exact_density(tails: float) -> None:
    """Scale, weight of the pair and quality, given the others: prior draws weighted by the likelihood know it."""
    size, draw = 9, np.random.default_rng(4)
    pairs = np.array([(0, k) if k % 2 else (k, 0) for k in range(1, size)])
    comparisons = Comparisons.of(pairs, 1.5 * draw.normal(size=len(pairs)), size)
    chain = Chain(segment_of(np.zeros((size, size)), 1, hints=draw.normal(size=size)), draw)
    chain.run(comparisons, 1)
    state: Any = chain._state
    state.qualities[0], state.scales[0], state.noise, state.spread = 0.4, 1.3, 0.5, 0.8
    state.tails, state.roughness = tails, 2.0
    slopes = np.array([0.3])
    chain._draw_slopes = lambda pairs: slopes  # type: ignore[method-assign]
    found = []
    for _ in range(6000):
        chain._draw_leaves(comparisons)
        found.append(np.stack([np.log(state.scales), state.qualities]))
    means = np.mean(found, axis=0)
    values = dict(
        zip(np.max(pairs, axis=1).tolist(), np.where(pairs[:, 0], 1, -1) * comparisons.differences, strict=True)
    )
    for leaf, value in values.items():
        scales = 2 / draw.standard_gamma(2.0, size=200_000)
        weights = np.ones(200_000) if math.isinf(tails) else draw.standard_gamma(1.5, size=200_000) / 1.5
        variances = 0.5 * 1.3 * scales / weights
        explained = float(chain._features.values[leaf] @ slopes)
        score = value + 0.4 - explained
        chances = np.exp(-(score**2) / (0.8 + variances) / 2) / np.sqrt(0.8 + variances)
        chances /= chances.sum()
        quality = explained + score * 0.8 / (0.8 + variances)
        assert means[0, leaf] == pytest.approx(float(chances @ np.log(scales)), abs=0.1)
        assert means[1, leaf] == pytest.approx(float(chances @ quality), abs=0.1)


@given(st.integers(4, 15), st.integers(0, 10**6))
@settings(deadline=None, max_examples=15)
def test_a_candidate_that_met_everybody_is_exact(size: int, seed: int) -> None:
    draw = np.random.default_rng(seed)
    values = structured(seed, size, rho=2, tau=0).astype(np.float32)
    values = np.triu(values) - np.triu(values).T
    segment, done = weighted_segment(size, draw), int(draw.integers(size))
    row = [(done, j) for j in range(size) if j != done]
    known = {frozenset(pair) for pair in row}
    pairs = np.array([*row, *(pair for pair in graph(size, 1, draw).tolist() if frozenset(pair) not in known)])
    found = stand(values, pairs, segment)
    exact = (segment.shares() * values).sum(axis=1)
    assert found.expected[done] == pytest.approx(exact[done], abs=1e-9)
    assert found.samples[:, done] == pytest.approx(np.full(len(found.samples), exact[done]), abs=1e-9)


FAMILIES: dict[str, Any] = {
    "normal": lambda seed: structured(seed, 40, rho=0.5, tau=0.1),
    "heavy tails": lambda seed: student(seed, 40, 1.0),
    "rough candidates": lambda seed: rough(seed, 40, 0.5),
    "slots": lambda seed: slot_biased(seed, 40, 0.3),
}


@pytest.mark.parametrize("family", FAMILIES)
def test_errors_are_as_large_as_the_samples_say(family: str) -> None:
    """Of all candidates of 20 lists: errors over deviations have a variance near one, whatever the remainder."""
    errors = []
    for seed in range(20):
        values = FAMILIES[family](seed)
        found = stand(values, graph(40, 2, np.random.default_rng(seed)), segment_of(values, seed), seed)
        errors.append((truth(values) - found.expected) / found.samples.std(axis=0))
    assert 0.8 < float(np.std(errors)) < 1.25


def test_hints_count_as_far_as_they_explain_the_scores() -> None:
    """Good hints make a sparse graph's estimates better, hints that say nothing leave them about as they were."""
    errors: dict[str, list[float]] = {"none": [], "good": [], "useless": [], "constant": []}
    for seed in range(20):
        values = structured(seed, 40, rho=1.5, tau=0)
        draw = np.random.default_rng(seed)
        exact = values.mean(axis=1)
        noise = draw.normal(size=(40, 2))
        hints = {"none": None, "good": np.column_stack([50 + 9 * exact, noise]), "useless": noise}
        pairs = graph(40, 1, draw)
        for name, known in {**hints, "constant": np.ones((40, 2))}.items():
            found = stand(values, pairs, segment_of(values, seed, hints=known))
            errors[name].append(float(((found.expected - found.expected.mean() - exact) ** 2).mean()))
    means = {name: float(np.mean(some)) for name, some in errors.items()}
    assert means["good"] < 0.6 * means["none"]
    assert means["useless"] < 1.2 * means["none"]
    assert means["constant"] == means["none"]


def test_a_single_outlier_counts_for_itself_and_not_for_other_pairs() -> None:
    """A candidate loses one of six comparisons by a wide margin: only that pair's share of its score is lost."""
    values = structured(2, 40, rho=0.05, tau=0)
    best = int(truth(values).argmax())
    pairs = graph(40, 3, np.random.default_rng(1))
    own = next((a, b) for a, b in pairs[::-1].tolist() if best in (a, b))
    values[own] -= (sign := 1 if own[0] == best else -1) * 30
    values[own[::-1]] += sign * 30
    found = stand(values, pairs, segment_of(values, 1))
    assert found.expected[best] == pytest.approx(truth(values)[best], abs=0.3)  # least squares: 4 less


def test_an_order_bias_of_certain_candidates_is_found() -> None:
    """It is subtracted from scores made in one order: estimates come closer to both orders of all pairs."""
    plain, fitted = [], []
    for seed in range(10):
        values = slot_biased(seed, 12, 0.05, tau=1.0)
        pairs = np.array([(i, j) for i in range(12) for j in range(i)])
        pairs = np.concatenate([pairs, pairs[::9, ::-1]])
        exact = truth(values)
        one_order = np.where(np.tri(12, k=-1) > 0, values, -values.T)
        np.fill_diagonal(one_order, 0)
        plain.append(np.abs(one_order.sum(axis=1) / 11 - exact).mean())
        fitted.append(np.abs(stand(values, pairs, segment_of(values, seed)).expected - exact).mean())
    assert np.mean(fitted) < np.mean(plain) / 4


def test_rho_and_tau_come_with_it() -> None:
    lists = [structured(seed, 60, rho=0.5) for seed in range(6)]
    found = [stand(v, graph(60, 4, np.random.default_rng(k)), segment_of(v, k)) for k, v in enumerate(lists)]
    assert np.mean([one.rho for one in found if one.rho is not None]) == pytest.approx(0.5, rel=0.2)
    assert all(one.tau is not None and math.isfinite(one.tau) for one in found)
