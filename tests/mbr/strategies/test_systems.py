"""Systems on the graph of comparisons: elimination and conjugate gradients against the plain dense matrix."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mbr.strategies import systems
from mbr.strategies.comparisons import Comparisons
from mbr.strategies.posterior import standardised
from mbr.strategies.systems import PRECISION, Features, System

pytestmark = pytest.mark.one_world


def system_of(size: int, count: int, sign: int, kinds: int, seed: int, ridge: float = 0.3) -> tuple[System, np.ndarray]:
    """Random pairs among some of the candidates, many of them with one comparison, and right-hand sides."""
    draw = np.random.default_rng(seed)
    chosen = {(min(a, b), max(a, b)) for a, b in draw.integers(0, size, (count, 2)).tolist() if a != b} or {(0, 1)}
    pairs = Comparisons.of(np.array(sorted(chosen)), draw.normal(size=len(chosen)), size)
    features = Features(standardised(draw.normal(size=(size, kinds)), size))
    weights = np.exp(2 * draw.normal(size=len(pairs)))
    return System(pairs, weights, sign, ridge, features), draw.normal(size=(size, 3))


@given(st.integers(3, 40), st.integers(1, 90), st.sampled_from([-1, 1]), st.integers(0, 3), st.integers(0, 10**6))
@settings(deadline=None, max_examples=60)
def test_elimination_and_conjugate_gradients_solve_the_dense_system(
    size: int, count: int, sign: int, kinds: int, seed: int
) -> None:
    system, right = system_of(size, count, sign, kinds, seed)
    plain = np.linalg.solve(system.dense(), right)
    scale = np.abs(plain).max()
    np.testing.assert_allclose(system.solve(right), plain, atol=1e-9 * scale)
    log, solution = system.log_determinant(right)
    np.testing.assert_array_equal(solution, system.solve(right))
    assert log == pytest.approx(float(np.linalg.slogdet(system.dense())[1]), abs=1e-8 * size)
    np.testing.assert_allclose(system.conjugate_gradients(right), plain, atol=1e3 * PRECISION * scale)
    np.testing.assert_allclose(system.times(plain), right, atol=1e-8 * np.abs(right).max() * system.weights.max())


def test_a_large_core_is_solved_by_conjugate_gradients(monkeypatch: pytest.MonkeyPatch) -> None:
    system, right = system_of(300, 900, -1, 2, 1)
    direct = system.solve(right)
    monkeypatch.setattr(systems, "DENSE", 10)
    np.testing.assert_allclose(system.solve(right), direct, atol=1e3 * PRECISION * np.abs(direct).max())
    assert not np.array_equal(system.solve(right), direct)


def test_a_noise_free_system_keeps_its_precision() -> None:
    """Weights of a trillion: differences of solutions follow the scores, though the level is hardly determined."""
    system, _ = system_of(30, 40, -1, 0, 5)
    pairs = system.pairs
    exact = np.random.default_rng(1).normal(size=(30, 1))
    sharp = System(pairs, np.full(len(pairs), 1e12), -1, 1.0, system.features)
    along = 1e12 * pairs.minus(exact)
    found = sharp.solve(pairs.collect(along, -along))
    np.testing.assert_allclose(pairs.minus(found), pairs.minus(exact), atol=1e-4)
