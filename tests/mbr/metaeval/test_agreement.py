"""Tables: ranks, averages over language pairs, sanity rows, people among metrics."""

from __future__ import annotations

import numpy as np
import pytest

from candidates.common.errors import InputError, UsageError
from mbr.metaeval import Scores, ScoreSet, Texts, human_parity, meta_evaluate
from mbr.metaeval.agreement import parse_statistics
from mbr.metaeval.parity import common_segments
from mbr.metaeval.sanity import sanity_rows
from tests.mbr.metaeval.test_statistics import made

pytestmark = pytest.mark.one_world


def score_set(lp: str = "en-de", *, systems: int = 5, seed: int = 1, missing: float = 0.0) -> ScoreSet:
    gold, metric = made(systems, 12, seed=seed, missing=missing)
    random = np.random.default_rng(seed)
    others = [
        Scores(name, np.nan_to_num(gold) + random.normal(0, spread, gold.shape))
        for name, spread in (("near", 0.5), ("far", 9))
    ]
    return ScoreSet(
        "set",
        lp,
        Scores("mqm", gold, kind="human"),
        tuple(f"system{number}" for number in range(systems)),
        tuple(str(number + 1) for number in range(12)),
        (Scores("m", metric), *others),
    )


def test_rows_are_ranked_by_the_average_and_sanity_rows_follow() -> None:
    table = meta_evaluate([score_set()])
    assert [row.metric for row in table.rows] == ["near", "m", "far", "constant", "random"]
    assert [row.rank for row in table.rows] == [1, 2, 3, None, None]
    assert table.ranked_by == "average"
    near = table.row("near").values
    assert near["average"] == pytest.approx(((near["spa"] or 0) + (near["acc_eq"] or 0)) / 2)
    by_pdp = meta_evaluate([score_set()], ("pdp", "acc_eq"), sanity=False)
    assert (by_pdp.ranked_by, len(by_pdp.rows)) == ("pdp", 3)
    assert "average" not in by_pdp.rows[0].values
    assert meta_evaluate([score_set()], rank_by="global-pearson").ranked_by == "global_pearson"


def test_equal_scores_share_a_rank() -> None:
    scores = score_set()
    twin = scores.with_metrics(Scores("twin", scores.metric("near").segments))
    ranks = {row.metric: row.rank for row in meta_evaluate([twin], ("pdp",), sanity=False).rows}
    assert ranks == {"near": 1, "twin": 1, "m": 3, "far": 4}


def test_significance_gives_clusters_for_every_statistic() -> None:
    table = meta_evaluate([score_set()], ("spa", "acc_eq", "pdp"), significance=True, draws=60)
    near = table.row("near")
    assert near.ranks == {"spa": 1, "acc_eq": 1, "pdp": 1, "average": 1}
    assert near.rank == 1
    assert set(table.comparisons) == {"spa", "acc_eq", "pdp", "average"}
    far = table.row("far").ranks
    assert far["pdp"] > 1


def test_language_pairs_are_averaged_and_pairs_of_systems_pooled() -> None:
    one, two = score_set("en-de"), score_set("he-en", systems=4, seed=2)
    two = two.with_metrics(Scores("only here", two.gold + 1))
    both = meta_evaluate([one, two], significance=True, draws=40)
    parts = [meta_evaluate([one]), meta_evaluate([two])]
    assert both.lps == ("en-de", "he-en")
    assert {row.metric for row in both.rows if row.kind == "metric"} == {"m", "near", "far"}
    for name in ("m", "near", "far"):
        values, (a, b) = both.row(name).values, (part.row(name).values for part in parts)
        for statistic in ("spa", "acc_eq", "pdp", "segment_pearson", "global_pearson", "kendall"):
            assert values[statistic] == pytest.approx(((a[statistic] or 0) + (b[statistic] or 0)) / 2)
        pooled = ((a["pairwise_accuracy"] or 0) * 10 + (b["pairwise_accuracy"] or 0) * 6) / 16
        assert values["pairwise_accuracy"] == pytest.approx(pooled)
        assert values["epsilon"] is None
    assert [part.row("m").values for part in both.parts] == [part.row("m").values for part in parts]
    assert set(both.comparisons) == {"average", *both.statistics}
    with pytest.raises(InputError, match="no metric scored all of en-de, he-en"):
        meta_evaluate([one, ScoreSet(**{**vars(two), "metrics": two.metrics[-1:]})])


def test_a_constant_metric_brings_a_warning() -> None:
    scores = score_set()
    told = meta_evaluate([scores.with_metrics(Scores("flat", np.zeros_like(scores.gold)))])
    assert told.row("flat").constant
    assert told.warnings == ("flat: all systems have the same scores, so that SPA is meaningless",)


def test_segments_without_all_systems_are_told() -> None:
    table = meta_evaluate([score_set(missing=0.1)])
    assert any(note.startswith("SPA uses the ") for note in table.notes)


@pytest.mark.parametrize(
    ("words", "message"), [(["rho"], "statistic 'rho' is unknown; expected some of spa, acc_eq"), ([], "no statistic")]
)
def test_unknown_statistics(words: list[str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        parse_statistics(words)


def test_what_cannot_be_asked() -> None:
    assert parse_statistics(["Segment-Pearson", "pdp", "pdp"]) == ("segment_pearson", "pdp")
    with pytest.raises(UsageError, match="cannot rank by 'average'; expected one of pdp"):
        meta_evaluate([score_set()], ("pdp",), rank_by="average")
    with pytest.raises(UsageError, match="no score set"):
        meta_evaluate([])
    with pytest.raises(UsageError, match="no row of 'x'"):
        meta_evaluate([score_set()]).row("x")
    with pytest.raises(UsageError, match="no system 'x'; there are system0"):
        score_set().choose(["x"])
    with pytest.raises(UsageError, match="no system is left"):
        score_set().choose(without=list(score_set().systems))
    with pytest.raises(UsageError, match="it cannot be chosen"):
        ScoreSet(**{**vars(score_set()), "dropped": ("refA",)}).choose(["refA"])


def test_systems_can_be_chosen_and_the_same_ones_give_the_same() -> None:
    scores = score_set()
    some = scores.choose(without=["system1"])
    assert some.systems == ("system0", "system2", "system3", "system4")
    np.testing.assert_array_equal(some.gold, scores.gold[[0, 2, 3, 4]])
    assert scores.choose(list(scores.systems)) is scores


def test_sanity_rows_know_the_texts_if_there_are_any() -> None:
    scores = score_set()
    assert [row.name for row in sanity_rows(scores)] == ["constant", "random"]
    texts = Texts(["ab"] * 12, [["x" * number] * 12 for number in range(5)])
    length, source = sanity_rows(ScoreSet(**{**vars(scores), "texts": texts}))[2:]
    assert length.segments is not None
    assert source.segments is not None
    assert length.segments[:, 0].tolist() == [0, 1, 2, 3, 4]
    assert source.segments.tolist() == [[2.0] * 12] * 5
    again = [row.segments for row in sanity_rows(scores, seed=1)]
    np.testing.assert_array_equal(again[1], sanity_rows(scores, seed=1)[1].segments)


def test_people_are_compared_where_all_of_them_annotated() -> None:
    scores = score_set()
    second = np.where(np.arange(12) < 8, scores.gold + 1, np.nan)
    third = np.where(np.arange(12) > 1, scores.gold, np.nan)
    third[0, 5] = np.nan  # one system is enough to lose the segment
    holes = np.where(np.arange(12) == 3, np.nan, scores.gold)
    known = ScoreSet(
        **{
            **vars(scores),
            "metrics": (*scores.metrics, Scores("second", second), Scores("third", third), Scores("holes", holes)),
        }
    )
    common = common_segments(known, ["second", "third"])
    assert common.segments == ("3", "4", "5", "7", "8")
    assert {one.name: one.kind for one in common.metrics} == {
        "m": "metric",
        "near": "metric",
        "far": "metric",
        "second": "human",
        "third": "human",
    }
    assert common.notes == ("holes is left out: it has no score of 5 translations in these segments",)
    table = human_parity(known, ["second", "third"], draws=30)
    assert table.segments == (5,)
    assert table.row("third").values["acc_eq"] == 1
    assert table.row("third").rank == 1
    with pytest.raises(UsageError, match="'mqm' is the gold"):
        human_parity(known, ["mqm"])
    with pytest.raises(UsageError, match="no human scores but the gold"):
        human_parity(scores, [])
    with pytest.raises(UsageError, match="no metric 'fourth'"):
        human_parity(known, ["fourth"])
    nothing = ScoreSet(**{**vars(scores), "metrics": (Scores("second", np.full_like(second, np.nan)),)})
    with pytest.raises(InputError, match="no segment was annotated by all of mqm, second"):
        human_parity(nothing, ["second"])
