"""What WMT's official results take, set by set; folders in the shape of WMT24 and WMT25; domains, documents, clips."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from candidates.common.errors import InputError, UsageError
from mbr.metaeval import Gold, Scores, measure, meta_evaluate, read_folder
from mbr.metaeval.clipping import Clip
from mbr.metaeval.documents import by_document, domain_names, in_domains
from mbr.metaeval.folders import document_scores
from mbr.metaeval.noise import noise_study
from pear.data.folders import EvalFolder
from pear.data.test_sets import main_result, official
from tests.conftest import Run
from tests.mbr.metaeval.made import HUMAN, METRICS, OUTPUTS, write_scores, write_set
from tests.mbr.metaeval.test_agreement import score_set
from tests.mbr.metaeval.test_statistics import made

pytestmark = pytest.mark.one_world

LINES = ["news\td1", "news\td1", "social\td2", "social\td3"]


def write_later(root: Path, name: str, lp: str, human: str = "mqm") -> Path:
    """A folder in the shape of WMT24 and later: an outlier MSLC, metrics for both references, documents."""
    folder = write_set(root, name, lp) / name
    for path in (folder / "human-scores").glob(f"{lp}.*"):
        path.unlink()
    mslc = {"MSLC": ["-1.0", "-2.0", "None", "-9.0"]}
    write_scores(folder / "human-scores" / f"{lp}.{human}.seg.score", {**HUMAN, **mslc})
    for metric in ("close-refA", "close-refB"):
        scores = {**METRICS[metric], "MSLC": [1, 1, 1, 1], "refA": [5, 5, 5, 5], "refB": [4, 4, 4, 4]}
        write_scores(folder / "metric-scores" / lp / f"{metric}.seg.score", scores)
    (folder / "system-outputs" / lp / "MSLC.txt").write_text("\n".join(OUTPUTS["poor"]) + "\n")
    (folder / "documents").mkdir(exist_ok=True)
    (folder / "documents" / f"{lp}.docs").write_text("\n".join(LINES) + "\n")
    return folder


@pytest.mark.parametrize(
    ("test_set", "lp", "reference", "gold", "outliers", "human_systems"),
    [
        ("wmt24", "en-de", "refB", "mqm", ("MSLC",), True),
        ("wmt24", "en-es", "refA", "mqm", ("MSLC",), False),
        ("wmt24", "ja-zh", "refA", "mqm", ("MSLC",), False),
        ("wmt24", "cs-uk", "refA", "esa", (), False),
        ("wmt24", "en-zh", "refA", "esa", (), False),
        ("wmt24pp", "en-fr_FR", "posteditA", None, (), False),
        ("wmt24pp", "en-fil_PH", "posteditA", None, (), False),
        ("wmt24pp", "en-de_DE", "posteditB", None, (), False),
        ("wmt24pp", "en-is_IS", "refA", None, (), False),
        ("wmt25", "ja-zh_CN", "refA", "mqm", (), False),
        ("wmt25", "en-ko_KR", "refA", "mqm", (), False),
        ("wmt25", "en-sr_Cyrl_RS", "refA", "esa-human1", (), False),
        ("wmt25", "en-mas_KE", "refA", "esa-human1", (), False),
        ("wmt23.sent", "en-de", "refA", "mqm", (), False),
        ("wmt23", "he-en", "refB", "mqm", (), False),
        ("wmt23", "en-de", "refA", "mqm", ("synthetic_ref",), False),
        ("wmt23", "cs-uk", "refA", "da-sqm", (), False),
        ("wmt22", "en-cs", "refB", "wmt-appraise", (), False),
        ("wmt21.news", "en-de", "refC", "mqm", (), False),
    ],
)
def test_official_set_ups(
    test_set: str, lp: str, reference: str, gold: str | None, outliers: tuple[str, ...], human_systems: bool
) -> None:
    found = official(test_set, lp)
    assert found is not None
    assert (found.reference, found.gold, found.outliers, found.human_systems) == (
        reference,
        gold,
        outliers,
        human_systems,
    )


def test_what_is_not_listed_is_not_official() -> None:
    assert [official(*pair) for pair in (("wmt99", "en-de"), ("wmt24", "en-fr"), ("wmt25", "en-de_DE"))] == [None] * 3
    assert official("wmt24pp", "de-en") is None
    assert (main_result("wmt24"), len(main_result("wmt25")), main_result("wmt23")) == (
        ("en-de", "en-es", "ja-zh"),
        16,
        (),
    )


def test_wmt24_en_de_takes_ref_b_leaves_mslc_out_and_scores_ref_a_as_a_system(tmp_path: Path) -> None:
    scores = read_folder(write_later(tmp_path, "wmt24", "en-de"), "en-de", metrics=["close"])
    assert (scores.reference, scores.human.name) == ("refB", "mqm")
    assert scores.systems == ("good", "mid", "poor", "refA")
    assert (scores.dropped, scores.official, scores.assumed) == (("MSLC", "refB"), True, ())
    assert scores.metric("close").reference == "refB"
    assert scores.metric("close").segments[3].tolist() == [5, 5, 5, 5]  # type: ignore[index]
    assert scores.texts is not None
    assert scores.texts.reference == OUTPUTS["refB"]
    folder = tmp_path / "wmt24"
    assert "refA" not in read_folder(folder, "en-de", metrics=["close"], human_systems=False).systems
    assert "MSLC" in read_folder(folder, "en-de", metrics=["close"], outliers=True).systems
    changed = read_folder(folder, "en-de", reference="refA", metrics=["close"])
    assert (changed.official, changed.systems[-1]) == (False, "refB")


def test_other_pairs_of_wmt24_and_wmt25(tmp_path: Path) -> None:
    spanish = read_folder(write_later(tmp_path, "wmt24", "en-es"), "en-es", metrics=["close"])
    assert (spanish.reference, spanish.systems, spanish.official) == ("refA", ("good", "mid", "poor"), True)
    czech = read_folder(write_later(tmp_path, "wmt24", "en-cs", "esa"), "en-cs", metrics=["close"])
    assert (czech.human.name, czech.systems) == ("esa", ("MSLC", "good", "mid", "poor"))  # no outlier there
    latest = read_folder(write_later(tmp_path, "wmt25", "en-it_IT", "esa-human1"), "en-it_IT", metrics=["close"])
    assert (latest.human.name, latest.reference, latest.official) == ("esa-human1", "refA", True)
    with pytest.raises(InputError, match="no human scores en-ko_KR.mqm.seg.score; found esa-human1"):
        read_folder(write_later(tmp_path, "wmt25", "en-ko_KR", "esa-human1"), "en-ko_KR")


def test_the_same_references_are_carried_along_in_training_data(tmp_path: Path) -> None:
    folder = write_later(tmp_path, "wmt24", "en-de")
    assert EvalFolder.open(folder, "en-de").reference() == "refB"


def test_an_unknown_set_says_what_was_assumed(tmp_path: Path) -> None:
    scores = read_folder(write_set(tmp_path) / "wmt99", "en-de")
    assert scores.assumed == (
        "wmt99 is not a known test set; assumed: reference refA (--reference), gold mqm (--human), no outliers "
        "(--exclude-systems)",
    )
    assert not scores.official
    pair = read_folder(write_later(tmp_path, "wmt24", "en-fr"), "en-fr", metrics=["close"])
    assert pair.assumed[0].startswith("wmt24 en-fr is not a known test set; assumed: ")
    folder = write_later(tmp_path / "gone", "wmt24", "en-de")
    (folder / "references" / "en-de.refB.txt").unlink()
    gone = read_folder(folder, "en-de", metrics=["close"])
    assert gone.assumed == ("the official reference refB of wmt24 en-de is not there; taken: refA",)
    assert not gone.official
    old = read_folder(write_set(tmp_path, "wmt20") / "wmt20", "en-de")
    assert old.assumed[-1] == "the official gold of wmt20 en-de is not listed here; taken: mqm (--human)"


def test_the_official_mean_is_named_and_only_where_it_is_one(tmp_path: Path, warm: Run) -> None:
    for lp in ("en-de", "en-es", "ja-zh"):
        write_later(tmp_path / "data", "wmt24", lp)
    words = ("mbr-metaeval", "--data", "data", "--metrics", "close", "--statistics", "spa,acc_eq", "--no-sanity")
    result = warm(*words, "--lp", "official")
    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith("wmt24: agreement with mqm, WMT's official mean of en-de, en-es, ja-zh\n")
    assert "|ref:en-de=refB,en-es=refA,ja-zh=refA|" in result.stdout
    other = warm(*words, "--lp", "en-de", "en-es")
    assert other.stdout.startswith("wmt24: agreement with mqm, mean of en-de, en-es\n")
    changed = warm(*words, "--lp", "official", "--reference", "en-de=refA")
    assert "agreement with mqm, mean of" in changed.stdout
    assert "ref:refA|" in changed.stdout
    for wrong, message in (
        (("--lp", "en-de", "--reference", "en-es=refA"), "en-es is not among the language pairs en-de"),
        (("--lp", "en-de", "--reference", "refA", "refB"), "there is refA already; give one"),
        (("--lp", "en-de", "--reference", "=refA"), "expected NAME or LP=NAME"),
        (("--lp", "official", "en-de"), "the official mean over language pairs stands alone"),
    ):
        refused = warm(*words, *wrong)
        assert (refused.returncode, message in refused.stderr) == (2, True), refused.stderr


def test_a_metric_with_and_without_reference_is_in_the_official_mean_twice(tmp_path: Path) -> None:
    """Its name must not depend on the reference, which is refB in en-de and refA in the others."""
    sets = []
    for lp in ("en-de", "en-es", "ja-zh"):
        folder = write_later(tmp_path, "wmt24", lp)
        blind = {**METRICS["close-refA"], "MSLC": [1, 1, 1, 1], "refA": [2, 2, 2, 2], "refB": [1, 2, 3, 4]}
        write_scores(folder / "metric-scores" / lp / "close-src.seg.score", blind)
        sets.append(read_folder(folder, lp, metrics=["close"]))
    assert [[(metric.name, metric.reference) for metric in scores.metrics] for scores in sets] == [
        [("close", "refB"), ("close-src", "src")],
        [("close", "refA"), ("close-src", "src")],
        [("close", "refA"), ("close-src", "src")],
    ]
    table = meta_evaluate(sets, ("spa", "acc_eq"), sanity=False)
    assert {row.metric: row.reference for row in table.rows} == {
        "close": "en-de=refB,en-es=refA,ja-zh=refA",
        "close-src": "src",
    }
    assert table.is_main_result
    assert not [note for note in table.notes if "mean" in note]
    assert "|ref:en-de=refB,en-es=refA,ja-zh=refA|" in table.signature()
    for path in (tmp_path / "wmt24" / "metric-scores" / "en-es").glob("close-ref*"):
        path.unlink()
    sets[1] = read_folder(tmp_path / "wmt24", "en-es", metrics=["close"])  # has the one without reference alone
    table = meta_evaluate(sets, ("spa", "acc_eq"), sanity=False)
    assert [row.metric for row in table.rows] == ["close-src"]
    assert "not in all language pairs, and not in the mean: close" in table.notes


def test_domains_and_documents(tmp_path: Path) -> None:
    scores = read_folder(write_later(tmp_path, "wmt24", "en-es"), "en-es", metrics=["close"])
    assert domain_names([scores]) == ["news", "social"]  # both have an annotated segment
    news = in_domains(scores, ["news"])
    assert (news.segments, news.settings, news.official) == (("1", "2"), {"domain": "news"}, False)
    assert news.gold.tolist() == [[0, 0], [0, -1], [-5, -6]]
    with pytest.raises(UsageError, match="no domain 'sports' in en-es; there are news, social"):
        in_domains(scores, ["sports"])
    documents = by_document(scores)
    assert (documents.segments, documents.domains) == (("d1", "d2", "d3"), ("news", "social", "social"))
    np.testing.assert_array_equal(documents.gold, [[0, np.nan, -1], [-0.5, np.nan, -5], [-5.5, np.nan, -25]])
    assert documents.metric("close").segments[0].tolist()[::2] == [4.5, 3.0]  # type: ignore[index]
    with pytest.raises(InputError, match="the documents of segments are not known"):
        by_document(score_set())
    with pytest.raises(InputError, match="the domains of segments are not known"):
        in_domains(score_set(), ["news"])


def test_scores_of_documents_come_from_their_files_where_there_are_any(tmp_path: Path) -> None:
    folder = write_later(tmp_path, "wmt24", "en-es")
    write_scores(folder / "human-scores" / "en-es.mqm.doc.score", {name: [1, 2, 3] for name in ("good", "mid", "poor")})
    own = {name: [7, 8, 9] for name in ("good", "mid", "poor")}
    write_scores(folder / "metric-scores" / "en-es" / "close-refA.doc.score", own)
    scores = read_folder(folder, "en-es", metrics=["close", "blind"])
    made_of = by_document(scores, *document_scores(folder, scores))
    assert made_of.gold.tolist() == [[1, 2, 3]] * 3
    assert made_of.metric("close").segments.tolist() == [[7, 8, 9]] * 3  # type: ignore[union-attr]
    assert made_of.metric("blind").segments[0].tolist() == [1.5, 3, 4]  # type: ignore[index]
    write_scores(folder / "human-scores" / "en-es.mqm.doc.score", {name: [1, 2] for name in ("good", "mid", "poor")})
    with pytest.raises(InputError, match="2 scores of good, but 3 documents; was it cut off?"):
        document_scores(folder, scores)


def test_pairwise_metrics_have_documents_too() -> None:
    scores = score_set(missing=0.2)
    values = scores.metric("near").segments
    assert values is not None
    scores = scores.with_metrics(Scores.pairwise("pairs", values[:, None] - values[None]))
    documents = tuple(f"d{number // 3}" for number in range(12))
    whole = by_document(type(scores)(**{**vars(scores), "documents": documents}))
    found = whole.metric("pairs").differences
    assert found is not None
    both = ~np.isnan(scores.gold[0, :3]) & ~np.isnan(scores.gold[1, :3])
    assert found[0, 1, 0] == pytest.approx((values[0, :3] - values[1, :3])[both].mean())


def test_clips() -> None:
    gold, metric = made(6, 50, seed=1, missing=0.1)
    broken = gold.copy()
    broken[tuple(np.argwhere(~np.isnan(gold))[7])] = -1e4  # one absurd score
    clean = measure(Gold(gold), Scores("m", metric), ["pdp"])["pdp"] or 0
    hurt = measure(Gold(broken), Scores("m", metric), ["pdp"])["pdp"] or 0
    clip = Clip.parse(f"{np.nanmin(gold)}:")
    cured = measure(Gold(clip.human(broken)), Scores("m", metric), ["pdp"])["pdp"] or 0
    assert abs(cured - clean) < abs(hurt - clean) / 3
    assert [str(Clip.parse(text)) for text in ("-10:0", "-10:", ":100", "1%", "2.5%")] == [
        "-10:0",
        "-10:",
        ":100",
        "1%",
        "2.5%",
    ]
    scores = Clip.parse("10%").apply(score_set(missing=0.2))
    near, plain = scores.metric("near").segments, score_set(missing=0.2).metric("near").segments
    assert near is not None
    assert plain is not None
    judged = ~np.isnan(scores.gold)
    low, high = np.percentile(plain[judged], [10, 90])
    np.testing.assert_allclose(near, plain.clip(low, high))
    assert (scores.settings, meta_evaluate([scores]).signature().count("clip:10%")) == ({"clip": "10%"}, 1)
    for wrong in ("5", "a:b", ":", "0:-10", "60%", "x%"):
        with pytest.raises(UsageError, match="expected LOW:HIGH"):
            Clip.parse(wrong)


def test_clipping_keeps_pdp_from_one_outlier_in_the_study_of_noise() -> None:
    """The open question of the summary of the PDP paper: robust to outliers, and what does it cost with noise?"""
    gold, _ = made(6, 40, seed=1, steps=8)
    levels = {"random": (0.5,), "outlier": (50.0,), "system": (1.0,), "segment": (1.0,)}
    plain = noise_study(gold, ("pdp",), repeats=5, levels=levels)
    clipped = noise_study(gold, ("pdp",), repeats=5, levels=levels, clip=Clip.parse(f"{gold.min()}:{gold.max()}"))
    assert clipped.sdp["outlier"]["pdp"][0] < 0.2 * plain.sdp["outlier"]["pdp"][0]
    assert clipped.sdp["random"]["pdp"][0] < 1.5 * plain.sdp["random"]["pdp"][0]


def test_real_domains(wmt23: Path) -> None:
    scores = read_folder(wmt23, "en-de", metrics=["COMET"])
    assert domain_names([scores]) == ["news", "social", "speech", "user_review"]
    parts = [in_domains(scores, [name]).annotated for name in domain_names([scores])]
    assert (parts, sum(parts)) == ([104, 206, 58, 92], scores.annotated)
    assert by_document(scores).annotated == 190
