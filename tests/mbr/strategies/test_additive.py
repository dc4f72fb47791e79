"""The additive model against plain least squares, its errors against simulation, and rho and tau on known matrices."""

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


def graph(size: int, share: float, draw: np.random.Generator, both: float = 0.2) -> np.ndarray:
    """A cycle and random pairs in random orders, some of them in both."""
    path = draw.permutation(size)
    chosen = np.triu(draw.random((size, size)) < share, 1)
    for i, j in zip(path, np.roll(path, 1), strict=True):
        chosen[min(i, j), max(i, j)] = i != j
    pairs = np.argwhere(chosen)
    flip = draw.random(len(pairs)) < 0.5
    pairs[flip] = pairs[flip, ::-1]
    return np.concatenate([pairs, pairs[draw.random(len(pairs)) < both][:, ::-1]])


def plain_antisymmetric(values: np.ndarray, pairs: np.ndarray, segment: Segment) -> tuple[Any, Any, Any] | None:
    """Expected utilities, noise and their covariance, by the design matrix; None where the order is not identified."""
    size, shares = segment.size, segment.shares()
    scored = {(int(i), int(j)): float(values[i, j]) for i, j in pairs}
    met: dict[tuple[int, int], tuple[float, int]] = {}
    for i, j in scored:
        if (j, i) in scored:
            met[min(i, j), max(i, j)] = ((scored[min(i, j), max(i, j)] - scored[max(i, j), min(i, j)]) / 2, 0)
        else:
            met[i, j] = (scored[i, j], 1)
    design = np.zeros((len(met), size + 1))
    for row, ((i, j), (_, first)) in zip(design, met.items(), strict=True):
        row[i], row[j], row[size] = 1, -1, first
    targets = np.array([value for value, _ in met.values()])
    rank = size - 1 + int(design[:, size].any())
    if np.linalg.matrix_rank(design) < rank or len(met) <= rank:
        return None
    solution = np.linalg.lstsq(design, targets, rcond=None)[0]
    noise = float(((targets - design @ solution) ** 2).sum()) / (len(met) - rank)
    known = {**{(i, j): v for (i, j), (v, _) in met.items()}, **{(j, i): -v for (i, j), (v, _) in met.items()}}
    expected = np.zeros(size)
    errors = np.zeros((size, size + 1))
    unknown = np.zeros((size, size))
    for i in range(size):
        for j in range(size):
            if i != j:
                expected[i] += shares[i, j] * known.get((i, j), solution[i] - solution[j])
            if i != j and (i, j) not in known:
                errors[i, i] += shares[i, j]
                errors[i, j] -= shares[i, j]
                unknown[i, j] = shares[i, j]
    loose = noise * unknown**2
    twice = [(i, j) for i, j in scored if i < j and (j, i) in scored]
    if len(twice) >= 3:
        bias = np.var([(scored[i, j] + scored[j, i]) / 2 for i, j in twice], ddof=1)
        for i, j in scored:
            if (j, i) not in scored:
                loose[i, j] += min(bias, noise) * shares[i, j] ** 2
                loose[j, i] += min(bias, noise) * shares[j, i] ** 2
    covariance = noise * errors @ np.linalg.pinv(design.T @ design) @ errors.T
    covariance += np.diag(loose.sum(axis=1)) - np.sqrt(loose * loose.T)
    return expected, noise, covariance


@given(st.integers(4, 14), st.floats(0.1, 0.9), st.integers(0, 10**6))
@settings(deadline=None, max_examples=60)
def test_it_is_plain_least_squares_with_a_constant_for_the_order(size: int, share: float, seed: int) -> None:
    draw = np.random.default_rng(seed)
    values = structured(seed, size, rho=1, tau=0.5).astype(np.float32)
    segment, pairs = some_segment(size, "antisymmetric", draw), graph(size, share, draw)
    plain = plain_antisymmetric(values, pairs, segment)
    assume(plain is not None)
    assert plain is not None
    expected, noise, covariance = plain
    scores = PairScores(segment)
    scores.write(pairs, values[tuple(pairs.T)])
    found = fit(scores, segment)
    assert found is not None
    np.testing.assert_allclose(found.expected, expected, atol=1e-6 * np.abs(expected).max())
    assert found.noise == pytest.approx(noise, rel=1e-5, abs=1e-9)
    everyone = np.arange(size)
    np.testing.assert_allclose(found.covariance(everyone), covariance, atol=1e-5 * covariance.max() + 1e-12)
    np.testing.assert_allclose(found.deviations**2, covariance.diagonal(), atol=1e-5 * covariance.max() + 1e-12)


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


@pytest.mark.parametrize("relation", ["antisymmetric", "none"])
def test_errors_are_as_large_as_the_covariance_says(relation: Any) -> None:
    """Many draws of the remainders on one graph: errors have the covariance, and the noise is found without bias."""
    size, sigma = 10, 0.7
    draw = np.random.default_rng(5)
    segment = some_segment(size, relation, draw)
    quality, other = draw.normal(size=(2, size))
    pairs = graph(size, 0.2, draw, both=0)
    met = draw.random((size, size)) < 0.5
    np.fill_diagonal(met, False)
    errors, noises = [], []
    for _ in range(1500):
        remainder = sigma * draw.normal(size=(size, size))
        if relation == "antisymmetric":
            remainder = np.triu(remainder, 1) - np.triu(remainder, 1).T
            values = quality[:, None] - quality + remainder
        else:
            values = quality[:, None] + other + remainder
            assert met.any(axis=0).all()
        scores = PairScores(segment)
        asked = pairs if relation == "antisymmetric" else np.argwhere(met)
        scores.write(asked, values[tuple(asked.T)].astype(np.float32))
        found = fit(scores, segment)
        assert found is not None
        errors.append(found.expected - (segment.shares() * values).sum(axis=1))
        noises.append(found.noise)
    assert np.mean(noises) == pytest.approx(sigma**2, rel=0.05)
    z = standardised(found, np.array(errors), sigma)
    assert z.shape[1] >= size - 1
    covariance = z.T @ z / len(z)
    assert covariance.diagonal() == pytest.approx(np.ones(z.shape[1]), abs=0.15)
    assert np.abs(covariance - np.diag(covariance.diagonal())).max() < 0.15


@given(st.integers(3, 15), st.integers(0, 10**6), st.booleans())
@settings(deadline=None, max_examples=40)
def test_a_candidate_that_met_everybody_is_exact(size: int, seed: int, shrink: bool) -> None:
    draw = np.random.default_rng(seed)
    values = structured(seed, size, rho=2, tau=0).astype(np.float32)
    hints = draw.normal(size=size) if shrink else None
    segment = some_segment(size, "antisymmetric", draw, hints=hints)
    done = int(draw.integers(size))
    row = [(done, j) for j in range(size) if j != done]
    scores = PairScores(segment)
    for pairs in (np.array(row), graph(size, 0.2, draw)):
        scores.write(pairs, values[tuple(pairs.T)])
    found = fit(scores, segment, shrink=shrink)
    assume(found is not None)
    assert found is not None
    exact = (segment.shares() * values).sum(axis=1)
    assert found.expected[done] == pytest.approx(exact[done], abs=1e-5)
    complete = (scores.scored | scores.scored.T | np.eye(size, dtype=np.bool_)).all(axis=1)
    np.testing.assert_allclose(found.expected[complete], exact[complete], atol=1e-5)
    if found.order_bias is None:
        assert found.deviations[done] == pytest.approx(0, abs=1e-6)


def test_too_few_scores_are_no_estimate() -> None:
    values = structured(0, 6)
    segment = segment_of(values, 0)
    scores = PairScores(segment)
    draw = np.random.default_rng(0)
    for pairs in ([(0, 1)], [(1, 2), (2, 3), (3, 4), (4, 5)], [(5, 0)]):
        scores.write(np.array(pairs), values[tuple(np.array(pairs).T)].astype(np.float32))
        assert fit(scores, segment) is None
        certainty = certainty_of(scores, segment, 0, draw)
        assert (certainty.estimated_regret, certainty.contenders) == (None, None)


def test_hints_draw_the_estimates_to_what_they_predict() -> None:
    """Good hints make a sparse graph's estimates better, hints that say nothing leave them about as they were."""
    errors: dict[str, list[float]] = {"none": [], "good": [], "useless": [], "constant": []}
    for seed in range(30):
        values = structured(seed, 40, rho=1.5, tau=0)
        draw = np.random.default_rng(seed)
        exact = values.mean(axis=1)
        hints = {"none": None, "good": 50 + 9 * exact, "useless": draw.normal(size=40), "constant": np.ones(40)}
        pairs = graph(40, 0.04, draw)
        for name, known in hints.items():
            segment = segment_of(values, seed, hints=known)
            scores = PairScores(segment)
            scores.write(pairs, values[tuple(pairs.T)].astype(np.float32))
            found = fit(scores, segment, shrink=True)
            assert found is not None
            errors[name].append(float(((found.expected - found.expected.mean() - exact) ** 2).mean()))
    means = {name: float(np.mean(some)) for name, some in errors.items()}
    assert means["good"] < 0.6 * means["none"]
    assert means["useless"] < 1.1 * means["none"]
    assert means["constant"] == pytest.approx(means["none"], rel=1e-6)


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
