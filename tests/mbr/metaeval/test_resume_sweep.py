"""Weights of RESUME: chosen on one part of the segments, measured on the other; the metric itself at weight 0."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from candidates.common.errors import InputError, UsageError
from mbr.evaluate.residual import Residual
from mbr.metaeval import Gold, Scores, ScoreSet, measure, read_folder
from mbr.metaeval.resume_sweep import Base, EditScores, resume_sweep
from mbr.metaeval.scoring import score_by_name, with_resume
from tests.conftest import Run
from tests.mbr.metaeval.made import OUTPUTS, SOURCES, write_set
from tests.support.tiny import tiny_model

pytestmark = pytest.mark.one_world

WEIGHTS = (0.5, 1.0, 4.0)


@pytest.fixture(scope="module")
def resume(tmp_path_factory: pytest.TempPathFactory, quiet_machine: None) -> Path:
    return tiny_model(tmp_path_factory.mktemp("resume"), "resume")


def made(seed: int = 3) -> tuple[ScoreSet, Scores, Scores]:
    """People, a metric that is noise, and a RESUME that agrees with people."""
    random = np.random.default_rng(seed)
    gold = random.normal(size=(5, 60)) + np.arange(5)[:, None]
    gold[:, 7] = np.nan
    noise, helpful = random.normal(size=gold.shape), np.nan_to_num(gold) / 4 + random.normal(size=gold.shape) / 8
    human = ScoreSet("made", "en-de", Scores("mqm", gold), tuple("abcde"), tuple(map(str, range(60))))
    return human, Scores("noise", noise), Scores("resume-metric", helpful)


def test_the_weight_is_chosen_on_one_part_and_measured_on_the_other() -> None:
    human, metric, helpful = made()
    sweep = resume_sweep(human, [Base(metric)], helpful, weights=WEIGHTS, draws=200)
    (swept,) = sweep.metrics
    assert sweep.weights == (0.0, *WEIGHTS)
    assert sweep.segments == (30, 29)  # segment 7 was not annotated
    best = max(range(4), key=lambda place: swept.development["kendall"][place] or 0.0)
    assert swept.chosen == sweep.weights[best] > 0
    assert swept.gain == pytest.approx((swept.rest["kendall"][best] or 0) - (swept.rest["kendall"][0] or 0), abs=1e-12)
    assert 0 < swept.low < swept.gain < swept.high
    # Human scores of the rest do not change the choice.
    shuffled = np.sort(np.random.default_rng(1).permutation(np.delete(np.arange(60), 7))[30:])
    other = human.gold.copy()
    other[:, shuffled] = -other[:, shuffled]
    turned = ScoreSet("made", "en-de", Scores("mqm", other), human.systems, human.segments)
    assert resume_sweep(turned, [Base(metric)], helpful, weights=WEIGHTS, draws=0).metrics[0].chosen == swept.chosen
    harmful = Scores("resume-metric", -(helpful.segments if helpful.segments is not None else np.zeros(1)))
    assert resume_sweep(human, [Base(metric)], harmful, weights=WEIGHTS, draws=5).metrics[0].chosen == 0


def test_where_lower_is_better_the_weight_with_the_lowest_value_is_chosen() -> None:
    human, metric, helpful = made()
    regret, choice = (
        resume_sweep(human, [Base(metric)], helpful, weights=WEIGHTS, statistics=[name], draws=100).metrics[0]
        for name in ("choice_regret", "choice")
    )
    values = regret.development["choice_regret"]
    assert values[(0.0, *WEIGHTS).index(regret.chosen)] == min(value for value in values if value is not None)
    assert regret.chosen == choice.chosen > 0
    assert 0 < regret.low < regret.gain < regret.high


@pytest.mark.parametrize("family", ["other", "lexical", "metricx"])
def test_weight_0_is_the_metric_itself_to_the_last_digit(family: str) -> None:
    human, metric, helpful = made()
    added = with_resume(metric, helpful, Residual(0.0), family)
    assert added.segments is not None
    assert metric.segments is not None
    assert added.segments.tobytes() == metric.segments.tobytes()
    assert measure(Gold(human.gold), added) == measure(Gold(human.gold), metric)


def test_a_pairwise_metric_keeps_its_differences_consistent() -> None:
    _, metric, helpful = made()
    assert metric.segments is not None
    pairwise = Scores.pairwise("pear", metric.segments[:, None] - metric.segments[None], metric.segments)
    added, plain = (with_resume(base, helpful, Residual(2.0), "pear") for base in (pairwise, metric))
    assert added.differences is not None
    assert plain.segments is not None
    np.testing.assert_allclose(added.differences, plain.segments[:, None] - plain.segments[None], atol=1e-12)
    np.testing.assert_allclose(added.to_reference, plain.segments, atol=1e-12)


def test_the_post_edit_rate_is_counted_anew_for_every_weight() -> None:
    edits = EditScores(*map(np.array, ([0.4, 0.5, 0.9], [0.5, 0.6, 0.9], [0.3, 0.1, 0.0], [0.0, 0.0, 0.0])))
    assert [edits.rate(factor) for factor in (0.0, 0.4, 2.0)] == pytest.approx([0, 1 / 3, 2 / 3])
    human, metric, helpful = made()
    (swept,) = resume_sweep(human, [Base(metric, "other", edits)], helpful, weights=[0.4, 2], draws=0).metrics
    assert swept.post_edits == pytest.approx((0, 1 / 3, 2 / 3))


def test_what_makes_no_sense_is_refused() -> None:
    human, metric, helpful = made()
    bad: list[tuple[dict[str, Any], str]] = [
        ({"weights": [-1]}, "expected numbers from 0 on"),
        ({"dev_share": 1.0}, "expected a share between 0 and 1"),
        ({"select": "pdp"}, "not among the statistics kendall"),
    ]
    for changed, message in bad:
        with pytest.raises(UsageError, match=message):
            resume_sweep(human, [Base(metric)], helpful, **changed)
    few = human.columns(np.array([0]))
    with pytest.raises(InputError, match="1 annotated segments cannot be divided"):
        resume_sweep(few, [Base(metric.columns(np.array([0])))], helpful.columns(np.array([0])))


def test_the_word_of_a_judge_scores_a_test_set_too(tmp_path: Path, resume: Path) -> None:
    known = read_folder(write_set(tmp_path) / "wmt99", "en-de")
    options = {"options": {"device": "cpu"}}
    base, alone = (score_by_name(word, known, **options) for word in ("chrf", f"resume-metric={resume}"))
    added = score_by_name(f"chrf+resume-metric=0.2,model={resume}", known, **options)
    assert (added.name, added.reference, added.kind) == ("chrf+0.2*RESUME", "refA", "own")
    assert base.segments is not None
    assert alone.segments is not None
    np.testing.assert_allclose(added.segments, base.segments + 20 * alone.segments)
    np.testing.assert_allclose(added.system_scores(), base.system_scores() + 20 * alone.system_scores())
    same = score_by_name(f"chrf+resume-metric=0,model={resume}", known, **options)
    assert same.segments is not None
    assert same.segments.tobytes() == base.segments.tobytes()


def test_the_commands(warm: Run, tmp_path: Path, resume: Path) -> None:
    write_set(tmp_path / "data")
    for name, texts in (("test.src", SOURCES), ("test.mt", OUTPUTS["mid"]), ("test.pe", OUTPUTS["good"])):
        (tmp_path / name).write_text("\n".join(texts) + "\n", encoding="utf-8")
    import tarfile

    with tarfile.open(tmp_path / "edits.tar.gz", "w:gz") as archive:
        for name in ("test.src", "test.mt", "test.pe"):
            archive.add(tmp_path / name, name)
    words = (
        "--data",
        "data",
        "--test-set",
        "wmt99",
        "--lp",
        "en-de",
        "--model",
        resume,
        "--device",
        "cpu",
        "--draws",
        20,
    )
    words = ("mbr-metaeval", "resume-metric", *words, "--score", "chrf", "bleu", "--post-edits", "edits.tar.gz")
    shown = warm(*words, "--plot", "weights.svg")
    assert shown.returncode == 0, shown.stderr
    assert "wmt99 en-de: metric + weight * RESUME, measured on 1 segments" in shown.stdout
    assert {"chrf", "bleu"} <= {line.split()[0] for line in shown.stdout.splitlines() if line.strip()}
    signature = dict(entry.split(":", 1) for entry in shown.stdout.splitlines()[-1].split("|")[1:])
    assert (signature["ref"], signature["weights"]) == ("refA", "0,0.05,0.1,0.2,0.4,0.6,1,2,5,10")
    assert re.fullmatch(rf"{re.escape(resume.name)}@[0-9a-f]+,float32", signature["resume"])
    assert "few draws (--draws 20): intervals mean little" in shown.stderr
    drawn = ET.fromstring((tmp_path / "weights.svg").read_text())
    assert "post-edit rate" in [element.text for element in drawn.iter()]
    record = json.loads(warm(*words, "--format", "json", "--weights", "0.1").stdout)
    assert record["weights"] == [0.0, 0.1]
    table = [line.split("\t") for line in warm(*words, "--format", "tsv", "--weights", "0.1").stdout.splitlines()]
    assert table[0][:4] == ["metric", "weight", "chosen", "development_kendall"]
    assert len(table) == 5
    files = ("--sources", "test.src", "--before", "test.mt", "--after", "test.pe", "--device", "cpu")
    rates = warm(
        "mbr-metaeval", "post-edits", *files, "--score", "chrf", "--add", f"resume-metric=0.1,model={resume}",
        "--format", "json",
    )  # fmt: skip
    rows = {row["metric"]: row["rate"] for row in json.loads(rates.stdout)["rows"]}
    curve = {swept["metric"]: swept["post_edits"] for swept in record["metrics"]}["chrf"]
    assert rows == {"chrf": curve[0], "chrf+0.1*RESUME": curve[1]}
