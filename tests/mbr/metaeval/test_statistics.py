"""Every statistic equals its plain definition, and has the properties it should have."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mbr.metaeval.spa import count_at_most, is_constant, pair_p_values, spa, spa_range
from mbr.metaeval.statistics import STATISTICS, Gold, measure
from mbr.metaeval.values import Floats, Scores, ScoreSet
from tests.mbr.metaeval import plain

pytestmark = pytest.mark.one_world


def made(systems: int, segments: int, *, seed: int, missing: float = 0.0, steps: int = 4) -> tuple[Floats, Floats]:
    """Human scores with many ties, and a metric with some; its steps of 1/8 keep sums exact."""
    random = np.random.default_rng(seed)
    gold = -random.integers(0, steps, (systems, segments)).astype(np.float64)
    metric = np.round(8 * (gold + random.normal(0, 2, gold.shape))) / 8
    gold[random.random(gold.shape) < missing] = np.nan
    return gold, metric


CASES = [
    pytest.param(*made(5, 12, seed=1), id="complete"),
    pytest.param(*made(6, 15, seed=2, missing=0.3), id="missing gold"),
    pytest.param(*made(4, 9, seed=3, missing=0.7), id="segments with one score or none"),
    pytest.param(*made(3, 8, seed=4, steps=1), id="people see only ties"),
    pytest.param(made(4, 8, seed=5)[0], np.full((4, 8), 0.3), id="a constant metric"),
    pytest.param(made(4, 8, seed=6)[0], np.tile(np.arange(8.0) / 3, (4, 1)), id="a metric of the source only"),
    pytest.param(*made(2, 6, seed=7), id="two systems"),
    pytest.param(*made(5, 1, seed=8), id="one segment"),
    pytest.param(made(5, 9, seed=9)[0], made(5, 9, seed=9)[0], id="people themselves"),
]


@pytest.mark.parametrize(("gold", "metric"), CASES)
def test_statistics_equal_their_definitions(gold: Floats, metric: Floats) -> None:
    def difference(i: int, j: int, s: int) -> float:
        return float(metric[i, s] - metric[j, s])

    found = measure(Gold(gold), Scores("m", metric))
    accuracy, epsilon = plain.acc_eq(gold, difference)
    assert found["acc_eq"] == pytest.approx(accuracy, abs=1e-12)
    assert found["epsilon"] == epsilon
    assert found["pdp"] == pytest.approx(plain.pdp(gold, difference), abs=1e-12)
    assert found["segment_pearson"] == pytest.approx(plain.segment_pearson(gold, metric), abs=1e-12)
    assert found["global_pearson"] == pytest.approx(plain.global_pearson(gold, metric), abs=1e-12)
    if (gold[~np.isnan(gold)] != 0).any():
        assert found["kendall"] == pytest.approx(plain.kendall(gold, difference), abs=1e-12)
    else:
        assert found["kendall"] is None
    if (~np.isnan(gold)).all(axis=0).any():
        assert found["spa"] == pytest.approx(plain.spa(gold, metric), abs=1e-9)
    else:
        assert found["spa"] is None


@pytest.mark.parametrize("seed", [1, 2])
def test_the_symmetric_spa_does_not_depend_on_the_order_and_the_official_one_stays_in_its_range(seed: int) -> None:
    gold, metric = made(5, 12, seed=seed)
    random = np.random.default_rng(1)
    low, high = spa_range(gold, metric)
    official, symmetric = set(), set()
    for _ in range(20):
        order = random.permutation(len(gold))
        official.add(spa(pair_p_values(gold[order]), pair_p_values(metric[order])))
        both = (pair_p_values(values[order], symmetric=True) for values in (gold, metric))
        symmetric.add(round(spa(*both), 9))
    assert len(official) > 1
    assert low - 1e-9 <= min(official) <= max(official) <= high + 1e-9
    assert len(symmetric) == 1
    assert symmetric.pop() == pytest.approx(plain.spa(gold, metric, middle=True), abs=1e-6)


def test_one_system_or_no_annotation_leaves_statistics_undefined() -> None:
    gold, metric = made(1, 5, seed=1)
    found = measure(Gold(gold), Scores("m", metric))
    assert {name for name, value in found.items() if value is not None} <= {"global_pearson"}
    nothing = measure(Gold(np.full((3, 4), np.nan)), Scores("m", np.ones((3, 4))))
    assert [name for name in STATISTICS if nothing[name] is not None] == ["pairwise_accuracy", "system_pearson"]


def test_a_metric_of_systems_only_has_only_statistics_of_systems() -> None:
    gold, _ = made(4, 6, seed=1)
    metric = Scores("m", None, systems=gold.mean(axis=1) * 3 + 1)
    found = measure(Gold(gold), metric)
    assert {name for name, value in found.items() if value is not None} == {"pairwise_accuracy", "system_pearson"}
    assert found["pairwise_accuracy"] == 1
    assert found["system_pearson"] == pytest.approx(1)


def test_scores_of_systems_that_are_given_take_the_place_of_means() -> None:
    gold = np.arange(24.0).reshape(4, 6)
    turned = Scores("m", gold, systems=-gold.mean(axis=1))
    assert measure(Gold(gold), turned, ["pairwise_accuracy"])["pairwise_accuracy"] == 0


matrices = st.integers(0, 10_000).map(lambda seed: made(4, 7, seed=seed, missing=0.15 * (seed % 3)))


@settings(max_examples=60, deadline=None)
@given(matrices, st.lists(st.floats(-50, 50), min_size=7, max_size=7))
def test_a_bias_of_segments_changes_no_comparison_within_segments(
    both: tuple[Floats, Floats], bias: list[float]
) -> None:
    gold, metric = both
    shift = np.round(np.array(bias) * 8) / 8
    names = ["acc_eq", "pdp", "segment_pearson", "kendall"]
    before = measure(Gold(gold), Scores("m", metric), names)
    after = measure(Gold(gold), Scores("m", metric + shift), names)
    for name in names:
        assert after[name] == pytest.approx(before[name], abs=1e-9) if before[name] is not None else after[name] is None


@settings(max_examples=60, deadline=None)
@given(matrices)
def test_additive_differences_give_the_usual_statistics(both: tuple[Floats, Floats]) -> None:
    gold, metric = both
    additive = Scores.pairwise("m", metric[:, None] - metric[None])
    usual, pairwise = (measure(Gold(gold), one) for one in (Scores("m", metric), additive))
    for name in (
        "acc_eq",
        "epsilon",
        "pdp",
        "segment_pearson",
        "kendall",
        "spa",
        "pairwise_accuracy",
        "system_pearson",
    ):
        if name == "pairwise_accuracy" and len(set(metric.mean(axis=1))) < len(metric):
            continue  # means and sums of differences may round a tie differently
        assert pairwise[name] == pytest.approx(usual[name], abs=1e-9) if usual[name] is not None else True, name
    centred = measure(Gold(gold), Scores("m", metric - metric.mean(axis=0)), ["global_pearson"])["global_pearson"]
    assert pairwise["global_pearson"] == pytest.approx(centred, abs=1e-9)


def test_a_pairwise_metric_equals_its_plain_definition() -> None:
    random = np.random.default_rng(3)
    gold, _ = made(5, 11, seed=2, missing=0.2)
    raw = random.normal(size=(5, 5, 11))
    averaged = (raw - raw.transpose(1, 0, 2)) / 2
    found = measure(Gold(gold), Scores.pairwise("m", raw))
    assert found["acc_eq"] == pytest.approx(plain.acc_eq(gold, lambda i, j, s: averaged[i, j, s])[0], abs=1e-12)
    assert found["pdp"] == pytest.approx(plain.pdp(gold, lambda i, j, s: averaged[i, j, s]), abs=1e-12)
    assert found["kendall"] == pytest.approx(plain.kendall(gold, lambda i, j, s: averaged[i, j, s]), abs=1e-12)
    shared = np.flatnonzero(~np.isnan(gold).any(axis=0))
    of_gold = plain.p_values(lambda i, j: gold[i, shared] - gold[j, shared], 5)
    of_metric = plain.p_values(lambda i, j: averaged[i, j, shared], 5)
    assert found["spa"] == pytest.approx(1 - np.abs(np.array(of_gold) - np.array(of_metric)).mean(), abs=1e-9)


def test_acc_eq_is_never_below_the_tie_rate_which_a_constant_gets() -> None:
    for seed in range(20):
        gold, metric = made(5, 9, seed=seed, missing=0.2)
        constant = measure(Gold(gold), Scores("c", np.zeros_like(gold)), ["acc_eq"])["acc_eq"]
        ties = [
            np.mean([gold[i, s] == gold[j, s] for i, j in pairs]) for s, pairs in plain.pairs_of_segments(gold) if pairs
        ]
        assert constant == pytest.approx(np.mean(ties), abs=1e-12)
        value = measure(Gold(gold), Scores("m", metric), ["acc_eq"])["acc_eq"]
        assert value is not None
        assert constant is not None
        assert value >= constant - 1e-12


def test_counts_of_draws_are_exact_beyond_a_byte() -> None:
    values = np.random.default_rng(1).integers(0, 3, (4, 5003)).astype(np.float32)
    plainly = [int((values[i] <= values[j]).sum()) for i in range(4) for j in range(i + 1, 4)]
    assert count_at_most(values).tolist() == plainly


def test_a_constant_metric_is_seen() -> None:
    assert is_constant(Scores("m", np.tile(np.arange(3.0), (2, 1))))
    assert not is_constant(Scores("m", np.arange(6.0).reshape(2, 3)))
    assert is_constant(Scores.pairwise("m", np.zeros((2, 2, 3))))


@pytest.mark.parametrize(
    ("metric", "message"),
    [
        (Scores("m", np.full((2, 3), np.nan)), "6 translations that people scored have no score"),
        (Scores("m", np.full((2, 3), np.inf)), "6 translations that people scored have no score"),
        (Scores("m", np.zeros((3, 3))), "scores of 3 systems and 3 segments, but people scored 2 and 3"),
        (Scores("m", None, systems=np.array([1.0, np.nan])), "a system's score is not a number"),
        (Scores("gold", np.zeros((2, 3))), "'gold' is the name of another metric or of the gold"),
    ],
)
def test_metrics_that_cannot_be_compared_are_refused(metric: Scores, message: str) -> None:
    human = Scores("mqm", np.zeros((2, 3)), kind="human")
    known = ScoreSet("set", "en-de", human, ("a", "b"), ("1", "2", "3"), (Scores("gold", np.zeros((2, 3))),))
    with pytest.raises(ValueError, match=message):
        known.with_metrics(metric)


def test_differences_of_another_shape_are_refused() -> None:
    with pytest.raises(ValueError, match=r"expected \[systems, systems, segments\]"):
        Scores.pairwise("m", np.zeros((2, 3, 4)))
