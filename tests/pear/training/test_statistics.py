"""Development statistics, against slow and plain computations."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from pear.training.statistics import Pairs, acc_eq, pdp, segment_pearson

pytestmark = pytest.mark.one_world


def random_lists(seed: int) -> tuple[list[list[float]], list[list[float]]]:
    """Predictions and judgments with many ties, segments of one translation, and constant ones."""
    draw = np.random.default_rng(seed)
    sizes = draw.integers(1, 7, 12)
    predicted = [(draw.integers(-4, 5, size) / 4).tolist() for size in sizes]
    judged_ = [(-draw.integers(0, 4, size)).astype(float).tolist() for size in sizes]
    predicted[3] = [0.5] * sizes[3]
    judged_[4] = [-1.0] * sizes[4]
    return predicted, judged_


def slow_acc_eq(predicted: list[list[float]], gold: list[list[float]]) -> float:
    def accuracy(threshold: float) -> float:
        shares = []
        for found, truth in zip(predicted, gold, strict=True):
            right = []
            for i, j in itertools.combinations(range(len(found)), 2):
                difference, wanted = found[i] - found[j], truth[i] - truth[j]
                if abs(difference) <= threshold:
                    right.append(wanted == 0)
                else:
                    right.append(difference * wanted > 0)
            if right:
                shares.append(sum(right) / len(right))
        return sum(shares) / len(shares)

    sizes = {abs(a - b) for found in predicted for a in found for b in found}
    return max(accuracy(threshold) for threshold in sizes)


@pytest.mark.parametrize("seed", range(20))
def test_statistics_equal_their_plain_definitions(seed: int) -> None:
    predicted, gold = random_lists(seed)
    pairs = Pairs.of(predicted, gold)
    assert acc_eq(pairs)[0] == pytest.approx(slow_acc_eq(predicted, gold))
    both = [
        (found[i] - found[j], truth[i] - truth[j])
        for found, truth in zip(predicted, gold, strict=True)
        for i, j in itertools.permutations(range(len(found)), 2)
    ]
    assert pdp(pairs) == pytest.approx(np.corrcoef(np.array(both).T)[0, 1])
    apart = [
        np.corrcoef(found, truth)[0, 1]
        for found, truth in zip(predicted, gold, strict=True)
        if len(set(found)) > 1 and len(set(truth)) > 1
    ]
    assert segment_pearson(predicted, gold) == pytest.approx(np.mean(apart))


@pytest.mark.parametrize("seed", range(5))
def test_a_constant_for_each_segment_changes_no_statistic(seed: int) -> None:
    predicted, gold = random_lists(seed)
    moved = [[value + 2.0**k for value in found] for k, found in enumerate(predicted)]
    assert acc_eq(Pairs.of(moved, gold)) == acc_eq(Pairs.of(predicted, gold))
    assert pdp(Pairs.of(moved, gold)) == pdp(Pairs.of(predicted, gold))
    assert segment_pearson(moved, gold) == pytest.approx(segment_pearson(predicted, gold))


@pytest.mark.parametrize("seed", range(5))
def test_a_matrix_of_differences_counts_as_the_scores_it_comes_from(seed: int) -> None:
    predicted, gold = random_lists(seed)
    matrices = [np.subtract.outer(found, found) for found in predicted]
    assert acc_eq(Pairs.of(matrices, gold)) == acc_eq(Pairs.of(predicted, gold))
    assert pdp(Pairs.of(matrices, gold)) == pdp(Pairs.of(predicted, gold))
    assert segment_pearson(matrices, gold) == pytest.approx(segment_pearson(predicted, gold))


def test_metrics_that_say_nothing_have_no_correlation_and_the_accuracy_of_all_ties() -> None:
    _, gold = random_lists(1)
    constant = [[1.0] * len(truth) for truth in gold]
    pairs = Pairs.of(constant, gold)
    ties = [
        np.mean([truth[i] == truth[j] for i, j in itertools.combinations(range(len(truth)), 2)])
        for truth in gold
        if len(truth) > 1
    ]
    assert acc_eq(pairs) == (pytest.approx(np.mean(ties)), 0.0)
    assert pdp(pairs) == segment_pearson(constant, gold) == 0.0
    nothing = Pairs.of([[1.0]], [[2.0]])
    assert acc_eq(nothing) == (0.0, 0.0)
    assert pdp(nothing) == 0.0
