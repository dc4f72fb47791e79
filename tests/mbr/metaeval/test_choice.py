"""Choices judged by people: by hand, against plain loops, and the figures of WMT23."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from candidates.common.errors import InputError, UsageError
from mbr.metaeval import Gold, Scores, ScoreSet, measure, meta_evaluate, read_folder
from mbr.metaeval.choice import choice_study, paired_bootstrap
from mbr.metaeval.reranking import check_utilities, rerank_by_utility
from mbr.metaeval.significance import compare_metrics
from mbr.metaeval.statistics import choices
from tests.mbr.metaeval.made import write_set
from tests.mbr.metaeval.test_agreement import score_set
from tests.mbr.metaeval.test_statistics import made

pytestmark = pytest.mark.one_world

CHOICES = ["choice", "choice_regret", "rrp"]
NAN = float("nan")


def test_choices_by_hand() -> None:
    """Segment 2 is tied between the first two, segment 3 lacks a score of the liked one, segment 4 has no choice."""
    gold = Gold(np.array([[0.0, -1.0, NAN, -9.0], [-5.0, -3.0, -2.0, NAN], [-1.0, 0.0, -4.0, NAN]]))
    metric = Scores("m", np.array([[0.1, 0.9, 9.0, 1.0], [0.9, 0.9, 0.2, 1.0], [0.5, 0.1, 0.1, 1.0]]))
    found, best = choices(gold, metric)
    assert found.tolist() == [-5.0, -2.0, -2.0]
    assert best.tolist() == [0.0, 0.0, 1.0]
    values = measure(gold, metric, CHOICES)
    assert values["choice"] == pytest.approx(-3)
    # The oracle has 0, 0 and -2; chance -2, -4/3 and -3.
    oracle, chance = -2 / 3, (-2 - 4 / 3 - 3) / 3
    assert values["choice_regret"] == pytest.approx((oracle + 3) / (oracle - chance))
    assert values["rrp"] == pytest.approx(1 / 3)
    first, _ = choices(gold, metric, order=np.array([1, 0, 2]))
    assert first.tolist() == [-5.0, -3.0, -2.0]


def plain(gold: Any, metric: Any) -> tuple[float, float, float]:
    """From the definitions, one segment after another."""
    chosen, best, mean, hits = [], [], [], []
    for column, scores in zip(gold.T, metric.T, strict=True):
        there = [i for i in range(len(column)) if not np.isnan(column[i])]
        if len(there) < 2:
            continue
        top = max(scores[i] for i in there)
        liked = [i for i in there if scores[i] == top]
        chosen.append(sum(column[i] for i in liked) / len(liked))
        best.append(max(column[i] for i in there))
        mean.append(sum(column[i] for i in there) / len(there))
        hits.append(sum(column[i] == best[-1] for i in liked) / len(liked))
    reached, oracle, chance = np.mean(chosen), np.mean(best), np.mean(mean)
    return float(reached), float((oracle - reached) / (oracle - chance)), float(np.mean(hits))


@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_statistics_equal_the_definitions(missing: float) -> None:
    for seed in range(4):
        gold, metric = made(6, 40, seed=seed, missing=missing, steps=5)
        metric = np.round(metric)  # so that there are ties
        assert tuple(measure(Gold(gold), Scores("m", metric), CHOICES).values()) == pytest.approx(plain(gold, metric))


def test_an_oracle_has_no_regret_and_a_constant_chooses_as_chance() -> None:
    gold, _ = made(5, 30, seed=3, missing=0.2)
    human = Gold(gold)
    assert measure(human, Scores("oracle", np.nan_to_num(gold)), CHOICES)["choice_regret"] == pytest.approx(0)
    assert measure(human, Scores("oracle", np.nan_to_num(gold)), CHOICES)["rrp"] == 1
    assert measure(human, Scores("flat", np.zeros_like(gold)), CHOICES)["choice_regret"] == pytest.approx(1)
    same = Gold(np.zeros((3, 4)))
    assert measure(same, Scores("flat", np.zeros((3, 4))), CHOICES) == {"choice": 0, "choice_regret": None, "rrp": 1}
    lonely = Gold(np.array([[1.0, NAN], [NAN, 2.0]]))
    assert set(measure(lonely, Scores("m", np.ones((2, 2))), CHOICES).values()) == {None}


def test_a_pairwise_metric_chooses_by_its_mean_differences() -> None:
    gold, metric = made(5, 30, seed=4, missing=0.2)
    pairwise = Scores.pairwise("pairs", metric[:, None] - metric[None])
    assert measure(Gold(gold), pairwise, CHOICES) == pytest.approx(measure(Gold(gold), Scores("m", metric), CHOICES))


def test_tables_rank_regret_the_other_way_round() -> None:
    table = meta_evaluate([score_set()], ("choice_regret", "choice", "rrp"), significance=True, draws=200)
    values = [row.values["choice_regret"] for row in table.rows if row.kind != "sanity"]
    assert values == sorted(values)  # type: ignore[type-var]
    best = table.rows[0]
    assert best.ranks["choice_regret"] == best.ranks["choice"] == 1
    several = meta_evaluate([score_set(), score_set("en-fr", seed=2)], ("choice_regret",), significance=True, draws=99)
    means = [row.values["choice_regret"] for row in several.rows if row.kind != "sanity"]
    assert means == sorted(means)  # type: ignore[type-var]


def test_p_values_are_those_of_swapped_segments() -> None:
    gold, metric = made(5, 14, seed=5)
    other = np.nan_to_num(gold) + np.random.default_rng(1).normal(0, 3, gold.shape)
    human = Gold(gold)
    metrics = [Scores("a", metric), Scores("b", other)]
    found = compare_metrics(human, metrics, "choice", draws=20_000, seed=7)
    a, b = (choices(human, one)[0] for one in metrics)
    every = np.array([[1 - 2 * ((number >> bit) & 1) for bit in range(14)] for number in range(2**14)])
    exact = float((every @ (a - b) / 14 >= (a - b).mean() - 1e-9).mean())  # all 2^14 swaps
    assert found.p[0, 1] == pytest.approx(exact, abs=0.012)
    regret = compare_metrics(human, metrics, "choice_regret", draws=20_000, seed=7)
    np.testing.assert_array_equal(regret.p, found.p)
    assert regret.scores == pytest.approx([-(measure(human, one, CHOICES)["choice_regret"] or 0) for one in metrics])


def test_bootstrap_intervals_agree_with_an_independent_computation() -> None:
    import scipy.stats

    random = np.random.default_rng(2)
    differences = random.normal(0.2, 1.0, (2, 120)) ** 3
    found = paired_bootstrap(differences, draws=8000, seed=3)
    for row, (low, high) in zip(differences, found, strict=True):
        theirs = scipy.stats.bootstrap(
            (row,), np.mean, n_resamples=8000, method="percentile", random_state=np.random.default_rng(5)
        ).confidence_interval
        spread = theirs.high - theirs.low
        assert (low, high) == pytest.approx((theirs.low, theirs.high), abs=0.04 * spread)
    # With gaps: a loop that draws segments, and leaves out those that were not compared.
    gappy = np.where(random.random(120) < 0.3, np.nan, differences[0])
    means = [np.nanmean(gappy[random.integers(120, size=120)]) for _ in range(8000)]
    low, high = np.percentile(means, [2.5, 97.5])
    assert paired_bootstrap(gappy[None], draws=8000, seed=1)[0] == pytest.approx((low, high), abs=0.04 * (high - low))


def test_a_study_by_hand() -> None:
    gold = np.array([[0.0, -2.0, 0.0, -1.0], [-1.0, 0.0, -5.0, 0.0], [-9.0, -9.0, -9.0, -9.0]])
    scores = ScoreSet(
        "set",
        "en-de",
        Scores("mqm", gold, kind="human"),
        ("a", "b", "c"),
        ("1", "2", "3", "4"),
        (
            Scores("oracle-like", gold, reference="refA"),
            Scores("blind", -gold, reference="src"),
            Scores("a-lover", np.eye(3, 4)[:, [0] * 4], reference="src"),
        ),
    )
    study = choice_study(scores, draws=300)
    assert study.best_system == "a"
    assert [row.metric for row in study.rows] == ["oracle-like", "a-lover", "blind"]
    rows = {row.metric: row for row in (*study.rows, *study.sanity)}
    assert (rows["oracle-like"].choice, rows["oracle-like"].regret, rows["oracle-like"].gain) == (0, 0, 0.75)
    assert (rows["a-lover"].choice, rows["a-lover"].gain, rows["a-lover"].low, rows["a-lover"].high) == (-0.75, 0, 0, 0)
    assert (rows["a"].choice, rows["a"].rrp) == (-0.75, 0.5)
    assert rows["random"].regret == pytest.approx(1)
    assert (rows["oracle"].rrp, "longest" in rows) == (1, False)  # there are no texts
    assert study.sentences == [
        "No metric without reference chooses better than always taking a.",
        "No metric with a reference chooses better than always taking a.",
    ]
    texts = [element.text for element in ET.fromstring(study.plot()).iter() if element.text]
    assert {"oracle-like", "random -3.75", "a -0.75", "oracle 0.00"} <= {text.strip() for text in texts}
    with pytest.raises(InputError, match="no segment has two translations"):
        choice_study(scores.choose(["a"]))


def test_an_own_metric_is_not_called_one_without_reference() -> None:
    gold, _ = made(5, 60, seed=6)
    base = score_set()
    names = tuple(map(str, range(60)))
    own = Scores("mine", np.nan_to_num(gold), kind="own")  # as good as an oracle, and nobody knows what it reads
    blind = Scores("blind", 0 * gold, reference="src")
    bound = Scores("bound", 0 * gold, reference="refA")
    scores = ScoreSet("set", "", Scores("esa", gold), base.systems, names, (own, blind, bound))
    study = choice_study(scores, draws=200, significance=False)
    taking = f"chooses better than always taking {study.best_system}."
    assert study.sentences == [
        f"No metric without reference {taking}",
        f"No metric with a reference {taking}",
        f"The only own metric, mine, {taking}",
    ]
    texts = {element.text for element in ET.fromstring(study.plot()).iter()}
    assert {"own metric", "no reference", "compares with a reference"} <= texts
    assert {row["metric"]: row["reference"] for row in study.record()["rows"][:3]} == {
        "mine": None,
        "blind": "src",
        "bound": "refA",
    }
    assert "|ref:refA|" in study.signature()
    table = ScoreSet("set", "", Scores("esa", gold), base.systems, names, (Scores("column", 0 * gold), blind))
    others = choice_study(table, draws=50, significance=False)
    assert others.sentences[1] == f"No other metric chooses better than always taking {others.best_system}."


def test_ranks_follow_the_rule_for_ties() -> None:
    """A metric that is tied everywhere chooses at random by the mean, and as an oracle if the best is first."""
    gold = np.array([[0.0] * 40, [-5.0] * 40, [-1.0] * 40])
    tied, second = Scores("tied", np.zeros((3, 40))), Scores("second", gold.clip(max=-1) * [[9], [1], [1]])
    names = tuple(map(str, range(40)))
    scores = ScoreSet("set", "", Scores("mqm", gold), ("a", "b", "c"), names, (tied, second))
    for ties, order in (("mean", ["second", "tied"]), ("first", ["tied", "second"])):
        study = choice_study(scores, ties=ties, draws=200)  # type: ignore[arg-type]
        assert [(row.metric, row.rank) for row in study.rows] == [(order[0], 1), (order[1], 2)]
        assert study.comparison is not None
        chosen = dict(zip(study.comparison.names, study.comparison.scores, strict=True))
        assert chosen == pytest.approx({row.metric: row.choice for row in study.rows})


def test_a_better_metric_is_named() -> None:
    gold, _ = made(5, 60, seed=6)
    good = Scores("good", np.nan_to_num(gold))
    base = score_set()
    scores = ScoreSet(
        "set", "", Scores("esa", gold), base.systems, tuple(map(str, range(60))), (good, Scores("flat", 0 * gold))
    )
    study = choice_study(scores, draws=200, significance=False)
    assert study.sentence == f"One of 2 metrics chooses better than always taking {study.best_system}: good."
    assert study.rows[0].rank is None
    assert study.record()["rows"][0]["choice_regret"] == 0


def test_mbr_over_the_outputs_of_systems(tmp_path: Path) -> None:
    known = read_folder(write_set(tmp_path) / "wmt99", "en-de")
    made_of = rerank_by_utility("chrf", known)
    assert (made_of.name, made_of.kind, made_of.reference) == ("MBR chrf", "own", "src")
    assert made_of.segments is not None
    assert np.isnan(made_of.segments[:, 2]).all()  # nobody scored it
    good, mid, poor = made_of.segments[:, 0]
    assert good == mid > poor  # the same text, and the text of two
    study = choice_study(known.with_metrics(made_of), draws=50)
    assert "MBR chrf" in [row.metric for row in study.rows]
    with pytest.raises(UsageError, match="MBR needs the systems' outputs"):
        rerank_by_utility("chrf", score_set())
    with pytest.raises(UsageError, match="'nonsense' is no utility"):
        check_utilities(["nonsense=x"])


@pytest.fixture(scope="module")
def figures(wmt23: Path) -> dict[str, ScoreSet]:
    """By language pair: the metrics that the specification names, and MBR with chrF and BLEU."""
    names = {
        "en-de": ["MetricX-23", "COMET", "MetricX-23-QE", "CometKiwi"],
        "he-en": ["BERTscore", "XCOMET-Ensemble-refA", "CometKiwi"],
    }
    sets = {lp: read_folder(wmt23, lp, metrics=metrics).annotated_only() for lp, metrics in names.items()}
    return {lp: one.with_metrics(*(rerank_by_utility(u, one) for u in ("chrf", "bleu"))) for lp, one in sets.items()}


# Random, best single system, oracle; then by metric what the first of tied gives (the specification), and their mean.
FIGURES = {
    "en-de": (
        (-7.47, -3.72, -1.21),
        {
            "MetricX-23": ("-3.47", "-3.47"),
            "COMET": ("-3.51", "-3.50"),
            "MetricX-23-QE": ("-3.58", "-3.58"),
            "CometKiwi": ("-4.35", "-4.33"),
            "MBR chrf": ("-6.19", "-6.15"),
            "MBR bleu": ("-6.08", "-6.04"),
        },
    ),
    "he-en": (
        (-2.45, -1.33, -0.15),
        {
            "BERTscore": ("-1.01", "-1.01"),
            "XCOMET-Ensemble-refA": ("-1.07", "-1.07"),
            "CometKiwi": ("-1.58", "-1.59"),
            "MBR chrf": ("-1.41", "-1.39"),
            "MBR bleu": ("-1.51", "-1.47"),
        },
    ),
}


@pytest.mark.parametrize("lp", FIGURES)
def test_figures_of_wmt23(lp: str, figures: dict[str, ScoreSet]) -> None:
    bounds, metrics = FIGURES[lp]
    by_first = choice_study(figures[lp], ties="first", draws=2000, significance=False)
    by_mean = choice_study(figures[lp], draws=2000)
    for study in (by_first, by_mean):
        rows = {row.metric: row for row in study.sanity}
        assert study.best_system == "GPT4-5shot"
        found = [rows[name].choice for name in ("random", "GPT4-5shot", "oracle")]
        assert found == pytest.approx(bounds, abs=0.0051)
        assert rows["longest"].choice < rows["random"].choice
        assert study.sentences[0] == "No metric without reference chooses better than always taking GPT4-5shot."
    first = {row.metric: row for row in by_first.rows}
    mean = {row.metric: row for row in by_mean.rows}
    assert {name: (f"{first[name].choice:.2f}", f"{mean[name].choice:.2f}") for name in metrics} == metrics
    if lp == "he-en":
        assert (first["BERTscore"].low, first["BERTscore"].high) == pytest.approx((0.16, 0.49), abs=0.02)
        assert mean["BERTscore"].rank == 1 < (mean["CometKiwi"].rank or 0)
