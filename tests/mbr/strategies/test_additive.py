"""How certain a choice is: the two-way model against plain least squares, and rho and tau on known matrices."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from benchmarks.support.replay import replay, segment_of, structured
from mbr.strategies import Segment, get_strategy
from mbr.strategies.additive import Fit, certainty_of, fit
from mbr.strategies.base import PairScores

pytestmark = pytest.mark.one_world


def some_segment(size: int, relation: Any, draw: np.random.Generator, **more: Any) -> Segment:
    weights = np.exp(draw.normal(size=size))
    own = weights * draw.random(size)
    return Segment(1 - draw.random(size), weights, own, relation, np.zeros(size, np.bool_), **more)


def two_way_scores(values: np.ndarray, met: np.ndarray, segment: Segment) -> PairScores:
    scores = PairScores(segment)
    pairs = np.argwhere(met)
    scores.write(pairs, values[tuple(pairs.T)].astype(np.float32))
    return scores


@given(st.integers(4, 12), st.floats(0.2, 0.9), st.integers(0, 10**6))
@settings(deadline=None, max_examples=60)
def test_other_utilities_have_an_effect_of_the_reference(size: int, share: float, seed: int) -> None:
    draw = np.random.default_rng(seed)
    values = draw.normal(size=(size, size)).astype(np.float32)
    met = (draw.random((size, size)) < share) & (draw.random(size) < 0.7)
    np.fill_diagonal(met, False)
    used = np.flatnonzero(met.any(axis=0))
    design = np.array(
        [np.eye(size + len(used))[[i, size + np.searchsorted(used, j)]].sum(0) for i, j in np.argwhere(met)]
    )
    assume(met.any(axis=1).all())
    rank = size + len(used) - 1
    assume(np.linalg.matrix_rank(design) == rank and met.sum() > rank)
    solution = np.linalg.lstsq(design, values[met], rcond=None)[0]
    effects = np.full(size, solution[size:].mean())
    effects[used] = solution[size:]
    predicted = np.where(met, values, solution[:size, None] + effects)
    segment = some_segment(size, "none", draw)
    found = fit(two_way_scores(values, met, segment), segment)
    assert found is not None
    np.testing.assert_allclose(found.expected, (segment.shares() * predicted).sum(axis=1), atol=1e-5)
    noise = ((values[met] - design @ solution) ** 2).sum() / (met.sum() - rank)
    assert found.noise == pytest.approx(float(noise), rel=1e-4)


def standardised(found: Fit, errors: np.ndarray, sigma: float) -> np.ndarray:
    """Errors [draws, N] that should have unit covariance, if the fit's covariance is right up to its noise."""
    everyone = np.arange(errors.shape[1])
    scales, basis = np.linalg.eigh(found.covariance(everyone) * sigma**2 / found.noise)
    kept = scales > 1e-9 * scales.max()
    return np.asarray(errors @ basis[:, kept] / np.sqrt(scales[kept]))


def test_errors_are_as_large_as_the_covariance_says() -> None:
    """Many draws of the remainders of the same pairs: errors have the covariance, and the noise is without bias."""
    size, sigma = 10, 0.7
    draw = np.random.default_rng(5)
    segment = some_segment(size, "none", draw)
    quality, other = draw.normal(size=(2, size))
    met = draw.random((size, size)) < 0.5
    np.fill_diagonal(met, False)
    assert met.any(axis=0).all()
    errors, noises = [], []
    for _ in range(1500):
        values = quality[:, None] + other + sigma * draw.normal(size=(size, size))
        found = fit(two_way_scores(values, met, segment), segment)
        assert found is not None
        errors.append(found.expected - (segment.shares() * values).sum(axis=1))
        noises.append(found.noise)
    assert np.mean(noises) == pytest.approx(sigma**2, rel=0.05)
    z = standardised(found, np.array(errors), sigma)
    assert z.shape[1] >= size - 1
    covariance = z.T @ z / len(z)
    assert covariance.diagonal() == pytest.approx(np.ones(z.shape[1]), abs=0.15)
    assert np.abs(covariance - np.diag(covariance.diagonal())).max() < 0.15


def test_too_few_scores_are_no_estimate() -> None:
    values = structured(0, 6)
    segment = segment_of(values, 0)
    scores = PairScores(segment)
    draw = np.random.default_rng(0)
    for pairs in ([(0, 1)], [(1, 2), (2, 3), (3, 4), (4, 5)], [(5, 0)]):
        scores.write(np.array(pairs), values[tuple(np.array(pairs).T)].astype(np.float32))
        certainty = certainty_of(scores, segment, 0, draw)
        assert (certainty.estimated_regret, certainty.contenders) == (None, None)


STRATEGIES_THAT_MEASURE: dict[str, dict[str, Any]] = {
    "full": {},
    "both": {},
    "race": {"tolerance": 0.01},
    "halving": {"budget": 500},
    "prune": {},
}


@pytest.mark.parametrize("name", STRATEGIES_THAT_MEASURE)
@pytest.mark.parametrize(("rho", "tau"), [(0.5, 0.15), (2.0, 0.5)])
def test_rho_and_tau_are_found(name: str, rho: float, tau: float) -> None:
    """On the average of ten lists: rho within a fifth, tau (six reversed pairs a list) within three tenths."""
    strategy = get_strategy(name, **STRATEGIES_THAT_MEASURE[name])
    found = []
    for seed in range(10):
        values = structured(seed, 100, rho, tau)
        found.append(replay(values, strategy, segment_of(values, seed)).outcome.certainty)
    assert np.mean([one.rho for one in found]) == pytest.approx(rho, rel=0.2)  # type: ignore[arg-type]
    assert np.mean([one.tau for one in found]) == pytest.approx(tau, rel=0.3)  # type: ignore[arg-type]


def test_with_all_scores_rho_is_that_of_the_matrix() -> None:
    values = structured(1, 30, rho=1, tau=0.4).astype(np.float32)
    found = replay(values, get_strategy("full"), segment_of(values, 1)).outcome.certainty
    exact = (values - values.T).astype(np.float64) / 2
    quality = exact.mean(axis=1)
    off = ~np.eye(30, dtype=np.bool_)
    differences = ((quality[:, None] - quality)[off] ** 2).mean()
    assert found.rho == pytest.approx(((exact - quality[:, None] + quality)[off] ** 2).mean() ** 0.5 / differences**0.5)
    assert found.tau == pytest.approx((((values + values.T)[off] / 2) ** 2).mean() ** 0.5 / differences**0.5)
    assert (found.estimated_regret, found.contenders) == (0, 1)


@pytest.mark.parametrize("size", [3, 4, 9])
def test_with_all_scores_rho_of_other_utilities_is_that_of_the_two_way_residual(size: int) -> None:
    values = np.random.default_rng(size).normal(size=(size, size)).astype(np.float32)
    found = replay(values, get_strategy("full"), segment_of(values, 1, "none")).outcome.certainty
    off = np.argwhere(~np.eye(size, dtype=np.bool_))
    design = np.array([np.eye(2 * size)[[i, size + j]].sum(axis=0) for i, j in off])
    targets = values[tuple(off.T)].astype(np.float64)
    solution = np.linalg.lstsq(design, targets, rcond=None)[0]
    quality = solution[:size]
    differences = np.mean([(quality[i] - quality[j]) ** 2 for i, j in off])
    assert found.rho == pytest.approx((((targets - design @ solution) ** 2).mean() / differences) ** 0.5, rel=1e-4)
    assert found.tau is None


def test_rho_of_nearly_all_scores_agrees_with_that_of_all() -> None:
    for relation, everything in (("antisymmetric", 435), ("none", 870)):
        values = structured(4, 30, rho=1, tau=0)
        segment = segment_of(values, 4, relation)  # type: ignore[arg-type]
        most = replay(values, get_strategy("halving", budget=everything - 1), segment).outcome.certainty
        full = replay(values, get_strategy("full"), segment).outcome.certainty
        assert most.rho == pytest.approx(full.rho, rel=0.1)  # type: ignore[arg-type]


def test_the_regret_is_a_share_of_the_best_even_where_the_choice_is_no_better_than_the_mean() -> None:
    for seed in range(20):
        values = structured(seed, 30, rho=2)
        for name, budget in (("halving", 60), ("prune", 100)):
            found = replay(values, get_strategy(name, budget=budget), segment_of(values, seed)).outcome.certainty
            assert found.estimated_regret is not None
            assert found.estimated_regret < 10


@pytest.mark.parametrize("shift", [-200.0, 100.0])
@pytest.mark.parametrize("name", ["halving", "prune"])
def test_a_constant_added_to_a_utility_changes_nothing(name: str, shift: float) -> None:
    draw = np.random.default_rng(5)
    values = draw.normal(size=(60, 1)) + draw.normal(size=60) + 3 * draw.normal(size=(60, 60)) + 50
    strategy = get_strategy(name, budget=300)
    before, after = (replay(v, strategy, segment_of(v, 1, "none")).outcome for v in (values, values + shift))
    assert before.certainty.estimated_regret is not None
    assert 0.001 < before.certainty.estimated_regret < 1
    assert before.ranking == after.ranking
    assert after.certainty.estimated_regret == pytest.approx(before.certainty.estimated_regret, rel=1e-2)
    assert after.certainty.rho == pytest.approx(before.certainty.rho, rel=1e-2)


@pytest.mark.parametrize("name", ["halving", "prune", "race"])
def test_the_certainty_does_not_depend_on_the_order_of_the_list(name: str) -> None:
    values = structured(4, 50, rho=1)
    segment = segment_of(values, 9)
    places = np.random.default_rng(1).permutation(50)
    strategy = get_strategy(name, budget=200)
    one = replay(values, strategy, segment).outcome.certainty
    other = replay(values[np.ix_(places, places)], strategy, segment.take(places)).outcome.certainty
    assert one.estimated_regret == pytest.approx(other.estimated_regret, rel=1e-6)
    assert one.contenders == other.contenders


@pytest.mark.parametrize("name", ["halving", "prune", "race"])
def test_one_candidate_may_hold_nearly_all_the_weight(name: str) -> None:
    values = structured(2, 30)
    weights = np.full(30, 1e-17)
    weights[3] = 1.0
    outcome = replay(values, get_strategy(name, budget=100), segment_of(values, 1, weights=weights)).outcome
    assert outcome.ranking is not None
    assert outcome.expected is not None
    assert np.isfinite(outcome.expected[list(outcome.ranking)]).all()
