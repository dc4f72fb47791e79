"""The likelihood of noise and spread: by one spectrum as by systems on the graph, and as plain algebra has it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.support.replay import replay, segment_of, structured
from mbr.strategies import get_strategy, likelihood
from mbr.strategies.comparisons import Comparisons
from mbr.strategies.likelihood import by_spectrum, by_systems
from mbr.strategies.posterior import standardised
from mbr.strategies.systems import Features

pytestmark = pytest.mark.one_world

LEVELS = [(0.3, 1.0), (1e-6, 2.0), (5.0, 1e-3)]  # of noise and spread


@given(st.integers(3, 30), st.integers(1, 80), st.integers(0, 3), st.integers(0, 10**6))
@settings(deadline=None, max_examples=40)
def test_the_spectrum_and_the_systems_give_the_density_of_the_scores(
    size: int, count: int, kinds: int, seed: int
) -> None:
    draw = np.random.default_rng(seed)
    chosen = {(min(a, b), max(a, b)) for a, b in draw.integers(0, size, (count, 2)).tolist() if a != b} or {(0, 1)}
    pairs = Comparisons.of(np.array(sorted(chosen)), draw.normal(size=len(chosen)), size)
    features = Features(standardised(draw.normal(size=(size, kinds)), size))
    variances = np.exp(draw.normal(size=len(pairs)))
    known = pairs, pairs.differences[:, None], variances, features
    prior = np.eye(size) + features.values @ features.values.T
    design = pairs.minus(np.eye(size))
    logs = []
    for noise, spread in LEVELS:
        covariance = noise * np.diag(variances) + spread * design @ prior @ design.T
        squares = pairs.differences @ np.linalg.solve(covariance, pairs.differences)
        logs.append(-(np.linalg.slogdet(covariance)[1] + squares) / 2)
    for way in (by_spectrum, by_systems):
        found = np.array([way(*known)(*level) for level in LEVELS])
        np.testing.assert_allclose(np.diff(found), np.diff(logs), rtol=1e-6, atol=1e-6)


def test_race_decides_the_same_by_the_spectrum_and_by_systems(monkeypatch: pytest.MonkeyPatch) -> None:
    values, draw = structured(3, 60, rho=0.3), np.random.default_rng(1)
    segment = segment_of(values, 3, hints=draw.normal(size=(60, 2)), terms=4 * draw.normal(size=60))
    fast = replay(values, get_strategy("race"), segment)
    assert fast.passes < likelihood.FEW
    monkeypatch.setattr(likelihood, "FEW", 0)
    plain = replay(values, get_strategy("race"), segment)
    assert (fast.passes, fast.ranking.tolist()) == (plain.passes, plain.ranking.tolist())
    found, expected = fast.outcome.certainty.estimated_regret, plain.outcome.certainty.estimated_regret
    assert found == pytest.approx(expected, rel=1e-6)
