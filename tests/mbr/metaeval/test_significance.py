"""Permutations and sign tests against loops over the same masks, and ranks by hand."""

from __future__ import annotations

from collections.abc import Callable
from math import comb

import numpy as np
import pytest

from mbr.metaeval import permutations
from mbr.metaeval.significance import Comparison, clusters, combine, compare_metrics, permutation_p
from mbr.metaeval.statistics import Gold, measure
from mbr.metaeval.values import Floats, Scores
from tests.mbr.metaeval import plain
from tests.mbr.metaeval.test_statistics import made

pytestmark = pytest.mark.one_world

DRAWS = 70  # more than one block


def trio(missing: float = 0.0) -> tuple[Floats, list[Scores]]:
    gold, metric = made(5, 14, seed=3, missing=missing)
    random = np.random.default_rng(4)
    others = [np.nan_to_num(gold) + random.normal(0, spread, gold.shape) for spread in (1.0, 4.0)]
    return gold, [Scores("a", metric), Scores("b", others[0]), Scores("c", others[1])]


def masks(shape: tuple[int, ...], seed: int = 1) -> list[Floats]:
    return [mask for block in permutations.masks(shape, DRAWS, seed) for mask in block]


PLAIN: dict[str, Callable[[Floats, Floats], float]] = {
    "global_pearson": plain.global_pearson,
    "segment_pearson": plain.segment_pearson,
    "pdp": lambda gold, metric: plain.pdp(gold, lambda i, j, s: metric[i, s] - metric[j, s]),
}


@pytest.mark.parametrize("missing", [0.0, 0.25])
@pytest.mark.parametrize("statistic", PLAIN)
def test_permutations_equal_a_loop_over_the_same_masks(statistic: str, missing: float) -> None:
    gold, metrics = trio(missing)
    found = compare_metrics(Gold(gold), metrics, statistic, draws=DRAWS)
    for place, (a, b) in enumerate([(0, 1), (0, 2), (1, 2)]):
        assert metrics[a].segments is not None
        assert metrics[b].segments is not None
        null, p = plain.permutation_p(
            gold, metrics[a].segments, metrics[b].segments, PLAIN[statistic], masks(gold.shape)
        )
        np.testing.assert_allclose(found.draws[:, place], null, atol=1e-6)
        assert found.p[a, b] == pytest.approx(p, abs=1e-9)
        assert found.p[b, a] >= 1 - p - 1e-9


def test_permutations_of_spa_equal_a_loop_over_the_same_masks() -> None:
    gold, metrics = trio()

    def statistic(gold: Floats, metric: Floats) -> float:
        value = measure(Gold(gold), Scores("m", metric), ["spa"])["spa"]
        assert value is not None
        return value

    found = compare_metrics(Gold(gold), metrics, "spa", draws=DRAWS)
    for place, (a, b) in enumerate([(0, 1), (0, 2), (1, 2)]):
        assert metrics[a].segments is not None
        assert metrics[b].segments is not None
        null, p = plain.permutation_p(gold, metrics[a].segments, metrics[b].segments, statistic, masks(gold.shape))
        # float32 may round one of the 1000 x 10 comparisons of a draw the other way.
        np.testing.assert_allclose(found.draws[:, place], null, atol=5e-4)
        assert found.p[a, b] == pytest.approx(p, abs=0.03)


@pytest.mark.parametrize("statistic", ["pairwise_accuracy", "system_pearson"])
def test_permutations_of_systems_equal_a_loop(statistic: str) -> None:
    gold, metrics = trio()
    whole = Gold(gold)
    found = compare_metrics(whole, metrics, statistic, draws=DRAWS)
    means = [one.system_scores()[:, None] for one in metrics]

    def plainly(_: Floats, scores: Floats) -> float:
        value = measure(whole, Scores("m", None, systems=scores[:, 0]), [statistic])[statistic]
        assert value is not None
        return value

    for place, (a, b) in enumerate([(0, 1), (0, 2), (1, 2)]):
        null, p = plain.permutation_p(gold.mean(axis=1)[:, None], means[a], means[b], plainly, masks((5, 1)))
        np.testing.assert_allclose(found.draws[:, place], null, atol=1e-6)
        assert found.p[a, b] == pytest.approx(p, abs=1e-9)


def outcomes(gold: Floats, metric: Floats, epsilon: float) -> dict[tuple[int, int, int], bool]:
    found = {}
    for segment, pairs in plain.pairs_of_segments(gold):
        for i, j in pairs:
            g, d = gold[i, segment] - gold[j, segment], metric[i, segment] - metric[j, segment]
            found[segment, i, j] = abs(d) <= epsilon if g == 0 else abs(d) > epsilon and g * d > 0
    return found


def test_the_sign_test_of_acc_eq_is_exact() -> None:
    gold, metrics = trio()
    found = compare_metrics(Gold(gold), metrics, "acc_eq", draws=2000)
    rights = []
    for one in metrics:
        assert one.segments is not None
        epsilon = measure(Gold(gold), one, ["acc_eq"])["epsilon"]
        assert epsilon is not None
        rights.append(outcomes(gold, one.segments, epsilon))
    for place, (a, b) in enumerate([(0, 1), (0, 2), (1, 2)]):
        won = sum(int(rights[a][key] and not rights[b][key]) for key in rights[a])
        lost = sum(int(rights[b][key] and not rights[a][key]) for key in rights[a])
        exact = sum(comb(won + lost, k) for k in range(won, won + lost + 1)) / 2 ** (won + lost)
        assert found.p[a, b] == pytest.approx(exact, abs=1e-9)
        drawn = np.mean(found.draws[:, place] >= found.scores[a] - found.scores[b] - 1e-6)
        assert drawn == pytest.approx(exact, abs=0.04)


def test_segments_that_weigh_differently_are_drawn_by_weight() -> None:
    """Against swaps of single outcomes, in a set where some segments have few annotations."""
    gold, metrics = trio(0.25)
    found = compare_metrics(Gold(gold), metrics, "acc_eq", draws=4000)
    random = np.random.default_rng(9)
    weight = Gold(gold).pair_weight
    a, b = 0, 2
    right = []
    for one in (metrics[a], metrics[b]):
        assert one.segments is not None
        epsilon = measure(Gold(gold), one, ["acc_eq"])["epsilon"]
        assert epsilon is not None
        right.append(outcomes(gold, one.segments, epsilon))
    gaps = np.array([weight[key[0]] * (int(right[0][key]) - int(right[1][key])) for key in right[0]])
    assert gaps.sum() == pytest.approx(found.scores[a] - found.scores[b], abs=1e-9)
    null = (random.choice([-1, 1], (4000, len(gaps))) * gaps).sum(axis=1)
    assert found.p[a, b] == pytest.approx(np.mean(null >= gaps.sum() - 1e-9), abs=0.04)
    assert np.std(found.draws[:, 1]) == pytest.approx(np.std(null), rel=0.1)


def test_a_metric_is_never_better_than_itself() -> None:
    gold, (metric, *_) = trio()
    twice = [Scores("a", metric.segments), Scores("b", metric.segments)]
    for statistic in ("global_pearson", "pdp", "segment_pearson", "acc_eq", "kendall", "spa", "pairwise_accuracy"):
        found = compare_metrics(Gold(gold), twice, statistic, draws=50)
        assert found.p.min() == 1, statistic
        assert set(found.ranks().values()) == {1}


def test_constant_metrics_and_pairwise_ones_can_be_compared() -> None:
    gold, metrics = trio()
    assert metrics[0].segments is not None
    constant = Scores("constant", np.ones_like(gold))
    pairwise = Scores.pairwise("pairwise", metrics[0].segments[:, None] - metrics[0].segments[None])
    for statistic in ("global_pearson", "pdp", "segment_pearson", "acc_eq", "kendall", "spa", "system_pearson"):
        found = compare_metrics(Gold(gold), [metrics[0], constant, pairwise], statistic, draws=40)
        assert np.isfinite(found.draws).all()
        assert np.isfinite(found.p).all()
    systems_only = Scores("whole", None, systems=gold.mean(axis=1))
    found = compare_metrics(Gold(gold), [*metrics, systems_only], "pdp", draws=40)
    assert found.names == ("a", "b", "c")


@pytest.mark.parametrize("missing", [0.0, 0.25])
@pytest.mark.parametrize("statistic", ["pdp", "segment_pearson"])
def test_differences_of_pairwise_metrics_change_hands(statistic: str, missing: float) -> None:
    """Against a loop over the same masks; what is tested is what is shown."""
    gold, (ordinary, *_) = trio(missing)
    random = np.random.default_rng(5)
    pairwise = Scores.pairwise("p", random.normal(size=(5, 5, 14)))
    known = Gold(gold)
    found = compare_metrics(known, [ordinary, pairwise], statistic, draws=DRAWS)
    for place, one in enumerate((ordinary, pairwise)):
        assert found.scores[place] == pytest.approx(measure(known, one, [statistic])[statistic])
    one, two = (np.where(known.paired, known.metric_differences(metric), 0) for metric in (ordinary, pairwise))
    one, two = (d / np.sqrt((d**2).sum() / known.paired.sum()) for d in (one, two))
    judged = np.where(known.paired, known.differences, 0)

    def value(d: Floats) -> float:
        if statistic == "pdp":
            return float((d * judged).sum() / np.sqrt((d**2).sum() * (judged**2).sum()))
        cells = [
            (d[:, s] * judged[:, s]).sum() / np.sqrt((d[:, s] ** 2).sum() * (judged[:, s] ** 2).sum())
            for s in range(gold.shape[1])
            if judged[:, s].any() and d[:, s].any()
        ]
        return float(np.mean(cells))

    null = [value(np.where(m, one, two)) - value(np.where(m, two, one)) for m in masks(known.paired.shape)]
    np.testing.assert_allclose(found.draws[:, 0], null, atol=1e-6)


def test_a_pairwise_metric_changes_no_test_of_others() -> None:
    gold, metrics = trio()
    pairwise = Scores.pairwise("p", np.random.default_rng(5).normal(size=(5, 5, 14)))
    for statistic in ("pdp", "segment_pearson", "spa", "acc_eq", "global_pearson", "pairwise_accuracy"):
        alone = compare_metrics(Gold(gold), metrics, statistic, draws=40)
        beside = compare_metrics(Gold(gold), [metrics[0], pairwise, *metrics[1:]], statistic, draws=40)
        places = [beside.names.index(name) for name in alone.names]
        if statistic in ("acc_eq", "pdp", "segment_pearson", "spa"):
            np.testing.assert_array_equal(beside.p[np.ix_(places, places)], alone.p)
        assert np.isfinite(beside.draws).all()


def test_spa_of_an_additive_pairwise_metric_is_not_better_than_its_scores() -> None:
    gold, (metric, *_) = trio()
    assert metric.segments is not None
    additive = Scores.pairwise("p", metric.segments[:, None] - metric.segments[None])
    for symmetric in (False, True):
        found = compare_metrics(Gold(gold, symmetric=symmetric), [metric, additive], "spa", draws=60)
        assert found.scores[0] == pytest.approx(found.scores[1], abs=1e-9)
        assert found.p.min() > 0.3
        usual = measure(Gold(gold, symmetric=symmetric), metric, ["spa"])["spa"]
        assert found.scores[0] == usual


def test_gold_without_differences_makes_nothing_significant() -> None:
    _, metrics = trio()
    for statistic in ("segment_pearson", "pdp", "global_pearson", "acc_eq"):
        found = compare_metrics(Gold(np.zeros((5, 14))), metrics, statistic, draws=20)
        assert set(found.ranks().values()) <= {1, 2, 3}
        if statistic != "acc_eq":
            assert found.p.min() == 1


def test_a_rank_begins_where_one_of_the_present_rank_wins() -> None:
    p = np.ones((5, 5))
    p[0, 2] = p[2, 4] = 0.05  # the first beats the third, the third the fifth
    p[0, 3] = 0.01  # of another rank already
    assert clusters(p) == [1, 1, 2, 2, 3]
    assert clusters(np.ones((1, 1))) == [1]
    assert clusters(np.ones((0, 0))) == []


def test_ranks_follow_scores_and_names() -> None:
    scores = np.array([0.1, 0.5, 0.5])
    found = Comparison(
        ("z", "b", "a"), scores, permutation_p(scores, np.zeros((10, 3), np.float32)), np.zeros((10, 3), np.float32)
    )
    assert list(found.ranks().items()) == [("a", 1), ("b", 1), ("z", 2)]


def test_means_of_language_pairs_keep_the_metrics_that_all_have() -> None:
    gold, metrics = trio()
    one = compare_metrics(Gold(gold), metrics, "pdp", draws=DRAWS)
    other = compare_metrics(Gold(gold), [metrics[2], metrics[0]], "segment_pearson", draws=DRAWS)
    both = combine([one, other])
    assert both.names == ("a", "c")
    np.testing.assert_allclose(
        both.scores, [(one.scores[0] + other.scores[1]) / 2, (one.scores[2] + other.scores[0]) / 2]
    )
    np.testing.assert_allclose(both.draws[:, 0], (one.draws[:, 1] - other.draws[:, 0]) / 2, atol=1e-6)
