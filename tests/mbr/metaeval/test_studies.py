"""Noise, correlations, anchors, oracles, post-edits, and scores by name."""

from __future__ import annotations

import json
import re
import tarfile
import xml.etree.ElementTree as ET
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from candidates.common.errors import InputError, MbrError, UsageError
from mbr.drawing import Panel, heat_map, line_panels
from mbr.metaeval import Scores, ScoreSet, measure, meta_evaluate, read_folder
from mbr.metaeval.anchors import anchor_plot, anchor_stability
from mbr.metaeval.choice import choice_study
from mbr.metaeval.correlation import correlate
from mbr.metaeval.noise import KINDS, _disturbed, noise_study
from mbr.metaeval.oracle import oracle_study, read_mqm_errors, read_ratings, spearman
from mbr.metaeval.postedits import PostEdits, post_edit_rate, read_post_edits
from mbr.metaeval.reranking import rerank_by_utility
from mbr.metaeval.scoring import check_names, metric_by_name, score_by_name
from mbr.metaeval.statistics import Gold
from mbr.metaeval.values import model_names
from pear.data.folders import EvalFolder
from tests.mbr.metaeval import plain
from tests.mbr.metaeval.made import OUTPUTS, SOURCES, write_set
from tests.mbr.metaeval.test_agreement import score_set
from tests.mbr.metaeval.test_statistics import made

pytestmark = pytest.mark.one_world


def test_noise_degrades_from_nothing_to_chance() -> None:
    gold, _ = made(6, 40, seed=1, missing=0.1, steps=8)
    study = noise_study(gold, repeats=4, levels=dict.fromkeys(KINDS, (1e-09, 0.5, 50.0)))
    assert set(study.sdp) == set(KINDS)
    random = study.sdp["random"]
    for name in study.statistics:
        assert random[name][1] > 0.05
        assert random[name][2] > 0.8
    assert random["pdp"][0] == pytest.approx(0, abs=1e-6)
    for name in ("pdp", "acc_eq", "segment_pearson"):
        assert max(map(abs, study.sdp["segment"][name])) < 1e-6, (
            name
        )  # only global Pearson minds the level of a segment
    assert study.sdp["segment"]["global_pearson"][2] > 0.5
    assert study.sdp["outlier"]["pdp"][2] > study.sdp["outlier"]["acc_eq"][2]
    again = noise_study(gold, repeats=4, levels=dict.fromkeys(KINDS, (1e-09, 0.5, 50.0)))
    assert again == study
    ET.fromstring(study.plot("noise <&>"))


def test_noise_degrades_the_regret_of_choices_as_it_degrades_choices() -> None:
    gold, _ = made(6, 40, seed=1, steps=8)
    study = noise_study(gold, ("choice", "choice_regret"), repeats=3, levels=dict.fromkeys(KINDS, (0.5, 50.0)))
    for lines in study.sdp.values():
        assert lines["choice_regret"] == pytest.approx(lines["choice"])
    assert study.sdp["random"]["choice_regret"][1] > 0.8


def test_noise_is_what_it_says() -> None:
    gold, _ = made(5, 30, seed=2, missing=0.2)
    random = np.random.default_rng(1)
    one = _disturbed(gold, "outlier", 77.0, random)
    assert (one == 77).sum() == 1
    shifted = _disturbed(gold, "system", 3.0, random) - gold
    assert sorted({tuple(np.unique(row[~np.isnan(row)])) for row in shifted}) == [(0.0,), (3.0,)]
    moved = _disturbed(gold, "segment", 3.0, random) - gold
    assert all(np.ptp(column[~np.isnan(column)]) < 1e-9 for column in moved.T if (~np.isnan(column)).any())
    assert np.nanstd(_disturbed(gold, "random", 3.0, random) - gold) == pytest.approx(3, rel=0.2)
    assert all((np.isnan(_disturbed(gold, kind, 1.0, random)) == np.isnan(gold)).all() for kind in KINDS)


def test_noise_needs_something_to_hide() -> None:
    with pytest.raises(InputError, match="all human scores are the same"):
        noise_study(np.zeros((3, 4)))
    with pytest.raises(UsageError, match="0 repeats"):
        noise_study(np.zeros((3, 4)), repeats=0)
    with pytest.raises(InputError, match="is not defined for these human scores"):
        noise_study(np.arange(4.0)[None])


@pytest.mark.parametrize("missing", [0.0, 0.2])
def test_correlations_are_those_of_explicit_differences(missing: float) -> None:
    scores = score_set(missing=missing)
    matrix = correlate(scores)
    assert matrix.names == ("mqm", "m", "near", "far")
    rows = {one.name: one.segments for one in (scores.human, *scores.metrics)}
    for i, a in enumerate(matrix.names):
        for j, b in enumerate(matrix.names):
            x, y = rows[a], rows[b]
            assert x is not None
            assert y is not None
            valid = np.where(np.isnan(scores.gold), np.nan, y)

            def difference(i: int, j: int, s: int, x: Any = x) -> float:
                return float(x[i, s] - x[j, s])

            assert matrix.values[i, j] == pytest.approx(plain.pdp(valid, difference), abs=1e-9)
    assert set(matrix.clustered().names) == set(matrix.names)
    ET.fromstring(matrix.plot("correlations"))


def test_a_pairwise_metric_correlates_by_its_differences() -> None:
    scores = score_set()
    values = scores.metric("m").segments
    assert values is not None
    pairwise = scores.with_metrics(Scores.pairwise("pairs", values[:, None] - values[None]))
    matrix = correlate(pairwise)
    place = matrix.names.index("pairs")
    np.testing.assert_allclose(matrix.values[place], matrix.values[matrix.names.index("m")], atol=1e-12)
    flat = scores.with_metrics(Scores("flat", np.zeros_like(scores.gold)))
    assert correlate(flat).values[-1].tolist() == [0, 0, 0, 0, 1]


def test_an_anchor_takes_its_system_out() -> None:
    scores = score_set()
    values = scores.metric("near").segments
    assert values is not None
    pairwise = scores.with_metrics(Scores.pairwise("pairs", values[:, None] - values[None], values - 1.0))
    found = anchor_stability([pairwise])
    assert [one.anchor for one in found] == ["reference", *scores.systems]
    assert [one.systems for one in found] == [5, 4, 4, 4, 4, 4]
    # The anchored score is near itself, but for a level of the segment that no statistic of ranks minds.
    usual = measure(Gold(scores.gold), scores.metric("near"), ["spa", "acc_eq"])
    assert (found[0].spa, found[0].acc_eq) == pytest.approx((usual["spa"], usual["acc_eq"]))
    less = scores.choose(without=["system0"])
    usual = measure(Gold(less.gold), less.metric("near"), ["acc_eq"])
    assert found[1].acc_eq == pytest.approx(usual["acc_eq"])
    assert all(one.rank == 1 and one.metrics == 4 for one in found)
    assert [one.anchor for one in anchor_stability([pairwise], ["system3"])] == ["system3"]
    with pytest.raises(UsageError, match="no anchor 'x'"):
        anchor_stability([pairwise], ["x"])
    with pytest.raises(UsageError, match="no pairwise metric"):
        anchor_stability([scores])
    without = scores.with_metrics(Scores.pairwise("pairs", values[:, None] - values[None]))
    with pytest.raises(UsageError, match="pairs was not scored against the reference"):
        anchor_stability([without], ["reference"])


def test_anchors_over_several_language_pairs_are_ranked_by_the_mean() -> None:
    sets = []
    for lp, seed, count in (("en-de", 1, 5), ("en-fr", 2, 4)):
        scores = score_set(lp, systems=count, seed=seed)
        values = scores.metric("near").segments
        assert values is not None
        pairs = Scores.pairwise("pairs", values[:, None] - values[None], values - 1.0)
        poor = Scores.pairwise("poor", values[None] - values[:, None], -values)
        sets.append(scores.with_metrics(pairs, poor))
    found = anchor_stability(sets)
    shared = [f"system{number}" for number in range(4)]  # system4 is in one of them
    assert [one.anchor for one in found if one.metric == "pairs"] == ["reference", *shared]
    single = [anchor_stability([scores], ["system2"])[0] for scores in sets]
    mean = next(one for one in found if (one.metric, one.anchor) == ("pairs", "system2"))
    assert mean.average == pytest.approx((single[0].average + single[1].average) / 2)
    assert mean.systems == 4 + 3
    ranks = {one.rank for one in found if one.metric == "poor"}
    assert ranks == {4}
    texts = [element.text for element in ET.fromstring(anchor_plot(found, "a < b")).iter() if element.text]
    assert {"a < b", "human reference", "system3", "pairs", "poor", "1", "4"} <= {text.strip() for text in texts}
    with pytest.raises(UsageError, match="no anchor 'system4'; there are reference, system0"):
        anchor_stability(sets, ["system4"])


def test_what_the_anchor_was_not_compared_with_does_not_count() -> None:
    """A file with only the pairs that people scored gives what a file with all pairs gives on these."""
    scores = score_set(missing=0.2)
    values = scores.metric("near").segments
    assert values is not None
    differences = values[:, None] - values[None]
    judged = ~np.isnan(scores.gold)
    known = np.where(judged[:, None] & judged[None], differences, np.nan)
    some = anchor_stability([scores.with_metrics(Scores.pairwise("pairs", known))], ["system1"])[0]
    gold = np.where(judged[1], scores.gold, np.nan)  # segments that people scored the anchor in
    kept = [0, 2, 3, 4]
    usual = measure(Gold(gold[kept]), Scores("near", values[kept]), ["acc_eq"])
    assert some.acc_eq == pytest.approx(usual["acc_eq"])


ERRORS = """\
system\tdoc\tseg_id\trater\tsource\ttarget\tcategory\tseverity
a\td\t1\tr\ts\tt\tAccuracy/Mistranslation\tMajor
a\td\t1\tr\ts\tt\tFluency/Punctuation\tMinor
a\td\t2\tr\ts\tt\tNo-error\tNo-error
b\td\t1\tr\ts\tt\tNo-error\tNo-error
b\td\t2\tr\ts\tt\tFluency/Grammar\tMinor
b\td\t2\tq\ts\tt\tNo-error\tNo-error
c\td\t1\tr\ts\tt\tAccuracy/Mistranslation\tMinor
c\td\t2\tr\ts\tt\tNon-translation!\tMajor
c\td\t3\tr\ts\tt\tOther\tMajor
"""


def test_oracles_by_hand(tmp_path: Path) -> None:
    path = tmp_path / "mqm_ende.tsv"
    path.write_text(ERRORS)
    study = oracle_study(read_mqm_errors(path))
    assert (study.lp, study.systems, study.segments) == ("en-de", ("a", "b", "c"), 2)
    rows = {one.category: (one.importance, one.count, one.weight) for one in study.oracles}
    assert rows == {
        "non-translation!": (25, 1, 25),
        "accuracy/mistranslation": (6, 2, 3),
        "fluency/grammar": (1, 1, 1),
        "fluency/punctuation": (0.1, 1, 0.1),
    }
    gold = -np.array([[5.1, 0], [0, 0.5], [1, 25]])  # two raters of b's second segment, one of whom saw an error
    grammar = -np.array([[0, 0], [0, 0.5], [0, 0]])
    accuracy, _ = plain.acc_eq(gold, lambda i, j, s: grammar[i, s] - grammar[j, s])
    (found,) = [one for one in study.oracles if one.category == "fluency/grammar"]
    assert found.acc_eq == pytest.approx(accuracy)
    assert found.pdp == pytest.approx(plain.pdp(gold, lambda i, j, s: grammar[i, s] - grammar[j, s]))
    with pytest.raises(InputError, match="1 systems and 2 segments"):
        oracle_study(read_mqm_errors(path), without=["b", "c"])


def test_ratings_that_cannot_be_read(tmp_path: Path) -> None:
    files = EvalFolder.open(write_set(tmp_path) / "wmt99", "en-de")
    path = files.path / "human-scores" / "en-de.mqm.seg.rating"
    fine = json.dumps({"errors": [{"category": "Fluency/Grammar", "severity": "minor"}]})
    path.write_text("".join(f"good\t{text}\n" for text in (fine, "None", '{"errors": []}', fine)))
    assert read_ratings(files, "mqm").marked["good", "1"] == {"": [("fluency/grammar", 1.0)]}
    for broken, message in (
        ("{", "expected"),
        ('{"errors": [{"category": "x"}]}', "expected"),
        ('{"errors": [{"category": "x", "severity": "grave"}]}', "severity 'grave' is unknown"),
    ):
        path.write_text("".join(f"good\t{text}\n" for text in (broken, fine, fine, fine)))
        with pytest.raises(InputError, match=message):
            read_ratings(files, "mqm")


def test_spearman_of_ties_and_constants() -> None:
    import scipy.stats

    x, y = [1.0, 2.0, 2.0, 4.0, 5.0], [3.0, 1.0, 2.0, 2.0, 9.0]
    assert spearman(x, y) == pytest.approx(scipy.stats.spearmanr(x, y)[0])
    assert spearman([1, 1, 1], [1, 2, 3]) is None


def test_post_edits_are_read_from_an_archive_and_from_files(tmp_path: Path) -> None:
    columns = {"src": ["a", "b"], "mt": ["x y", "z"], "pe": ["x", "z"]}
    with tarfile.open(tmp_path / "pe.tar.gz", "w:gz") as archive:
        for suffix, texts in columns.items():
            content = ("\n".join(texts) + "\n").encode()
            entry = tarfile.TarInfo(f"set/test.{suffix}")
            entry.size = len(content)
            archive.addfile(entry, BytesIO(content))
            (tmp_path / suffix).write_bytes(content)
    edits = read_post_edits(tmp_path / "pe.tar.gz")
    assert edits == read_post_edits(files=[tmp_path / name for name in columns]) == PostEdits(*columns.values())
    rate = post_edit_rate("shorter", lambda s, r, c: [-len(text) for text in c], edits)
    assert (rate.rate, rate.ties, rate.items, rate.unchanged) == (1.0, 0.0, 1, 1)
    (tmp_path / "pe").write_text("x\n")
    with pytest.raises(InputError, match="pe has 1 line, but .*src has 2"):
        read_post_edits(files=[tmp_path / name for name in columns])
    with pytest.raises(InputError, match="expected a .tar.gz"):
        read_post_edits(tmp_path / "src")
    with pytest.raises(InputError, match="no item was changed"):
        post_edit_rate("any", lambda s, r, c: [0.0] * len(c), PostEdits(["a"], ["x"], ["x"]))
    with pytest.raises(InputError, match="is not a number"):
        post_edit_rate("any", lambda s, r, c: [float("nan")] * len(c), edits)


def test_a_judge_by_name_scores_the_outputs(tmp_path: Path) -> None:
    import sacrebleu

    known = read_folder(write_set(tmp_path) / "wmt99", "en-de")
    found = score_by_name("chrf", known)
    metric = sacrebleu.CHRF()
    assert found.segments is not None
    for row, system in zip(found.segments, known.systems, strict=True):
        expected = [metric.sentence_score(t, [r]).score for t, r in zip(OUTPUTS[system], OUTPUTS["refA"], strict=True)]
        assert row.tolist() == pytest.approx(expected)
    whole = metric.corpus_score(OUTPUTS["mid"], [OUTPUTS["refA"]]).score
    assert found.system_scores()[1] == pytest.approx(whole)
    assert (found.name, found.kind, found.reference) == ("chrf", "own", "refA")
    ter = score_by_name("ter", known)
    assert ter.segments is not None
    assert ter.segments.max() == 0  # turned round: higher is better
    np.testing.assert_allclose(metric_by_name("chrf")(SOURCES, OUTPUTS["refA"], OUTPUTS["mid"]), found.segments[1])
    with pytest.raises(UsageError, match="scoring needs the systems' outputs"):
        score_by_name("chrf", score_set())
    with pytest.raises(UsageError, match="'nonsense' is no judge or utility"):
        check_names(["chrf", "nonsense=x"])


def test_published_chrf_scores_are_those_of_the_judge(wmt23: Path) -> None:
    """WMT's chrF of two systems, scored here again."""
    known = read_folder(wmt23, "en-de", metrics=["chrF"]).choose(["ONLINE-B", "AIRC"])
    found, published = score_by_name("chrf", known), known.metric("chrF")
    assert found.segments is not None
    assert published.segments is not None
    np.testing.assert_allclose(found.segments, published.segments, atol=2e-4)


def test_pear_by_name_is_a_pairwise_metric(tmp_path: Path, ours: Path) -> None:
    from pear.scorer import Scorer

    known = read_folder(write_set(tmp_path) / "wmt99", "en-de")
    found = score_by_name(f"pear={ours}", known, anchored=True, options={"device": "cpu", "threads": 1})
    assert found.differences is not None
    assert found.to_reference is not None
    with Scorer.load(str(ours), device="cpu") as scorer:
        source, good, poor = SOURCES[3], OUTPUTS["good"][3], OUTPUTS["poor"][3]
        there, back, anchored, turned = scorer.engine.score(
            [
                (source, good, poor),
                (source, poor, good),
                (source, good, OUTPUTS["refA"][3]),
                (source, OUTPUTS["refA"][3], good),
            ]
        )
    assert found.differences[0, 2, 3] == pytest.approx((there - back) / 2, abs=1e-6)
    assert found.differences[2, 0, 3] == -found.differences[0, 2, 3]
    assert found.to_reference[0, 3] == pytest.approx((anchored - turned) / 2, abs=1e-6)
    assert np.isnan(found.differences[0, 1, 2])  # nobody annotated it, so it was not scored
    assert measure(Gold(known.gold), found)["acc_eq"] is not None
    mirrored = metric_by_name(f"pear={ours}", options={"device": "cpu"})([source], [poor], [good])
    assert mirrored[0] == pytest.approx((there - back) / 2, abs=1e-6)


def test_pictures_hold_what_they_are_given() -> None:
    panels = [
        Panel("one <b>", "x", (1, 2), {"a": (0.0, 0.5), "b & c": (0.1, 3.2)}),
        Panel("two", "x", (1,), {"a": (0.2,)}),
    ]
    drawn = ET.fromstring(line_panels("title", panels, "y"))
    texts = [element.text for element in drawn.iter() if element.tag.endswith("text")]
    assert {"title", "one <b>", "two", "b & c"} <= set(texts)
    assert len([element for element in drawn.iter() if element.tag.endswith("polyline")]) == 3
    ticks = sorted({float(text) for text in texts if text and text.replace(".", "", 1).isdigit()})
    assert ticks[0] == 0
    assert ticks[-1] >= 3.2
    cells = ET.fromstring(heat_map("heat", ["a", "b<"], [[1.0, -0.25], [-0.25, 1.0]]))
    shown = [element.text for element in cells.iter() if element.tag.endswith("text")]
    assert shown.count("-.25") == 2
    assert shown.count("b<") == 2


def test_errors_are_ours(tmp_path: Path) -> None:
    for make in (lambda: read_folder(tmp_path, "en-de"), lambda: read_post_edits(tmp_path / "no.tar.gz")):
        with pytest.raises(MbrError):
            make()


def test_score_sets_without_texts_or_metrics() -> None:
    scores = score_set()
    assert ScoreSet(**{**vars(scores), "metrics": ()}).annotated == 12
    with pytest.raises(UsageError, match="no metric has scores of segments"):
        correlate(ScoreSet(**{**vars(scores), "metrics": ()}))


def test_signatures_name_the_models_behind_metrics_of_this_package(tmp_path: Path) -> None:
    scores = read_folder(write_set(tmp_path) / "wmt99", "en-de", metrics=["close"])
    assert model_names(scores.metrics) == ""
    pear = score_by_name("pear=en-de", scores, options={"device": "cpu"})
    chrf = score_by_name("chrf", scores)
    named = model_names([chrf, pear, pear])
    assert re.fullmatch(r"en-de@[0-9a-f]+,float32", named), named
    both = scores.with_metrics(chrf, pear)
    assert f"|models:{named}|" in meta_evaluate([both], ["acc_eq"]).signature()
    assert f"|models:{named}|" in choice_study(both, draws=10, significance=False).signature()
    reranked = rerank_by_utility("pear=en-de", scores, options={"device": "cpu"})
    assert model_names([reranked]) == named
