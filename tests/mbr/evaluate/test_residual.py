"""RESUME added to a judge: metric + weight * RESUME, the metric itself at weight 0, one word for all commands."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from candidates.common.errors import UsageError
from mbr.cache.judgements import Cache
from mbr.evaluate import evaluate, parse_judges
from mbr.evaluate.residual import Residual, split_residual
from mbr.tune.objective import parse_objective
from tests.mbr.evaluate.made import REFERENCES, SOURCES, SYSTEMS, Count
from tests.support.tiny import tiny_model

pytestmark = pytest.mark.one_world

OTHERS = [text.replace("Ein", "Der") for text in REFERENCES]
SAMPLED: dict[str, Any] = {"draws": 40, "trials": 40, "baseline": "poor", "options": {"device": "cpu"}}


@pytest.fixture(scope="module")
def resume(tmp_path_factory: pytest.TempPathFactory, quiet_machine: None) -> Path:
    return tiny_model(tmp_path_factory.mktemp("resume"), "resume")


def judged(*words: str, references: Any = (REFERENCES,), **changed: Any) -> list[Any]:
    request = {**SAMPLED, "sources": SOURCES, "references": references, **changed}
    results = list(evaluate(SYSTEMS, words, **request).judges)
    assert not any(result.error for result in results), results[0].error
    return results


@pytest.mark.parametrize("name", ["chrf", "bleu", "ter", "count", "errors", "pear-ref=en-de"])
def test_weight_0_is_the_metric_itself_to_the_last_digit(name: str, resume: Path, counting: type[Count]) -> None:
    alone, added = judged(name, f"{name}+resume-metric=0,model={resume}")
    assert added.scores == alone.scores  # intervals and tests too
    for system in SYSTEMS:
        assert added.segments[system].tolist() == alone.segments[system].tolist()
    assert added.lower_is_better == alone.lower_is_better


@pytest.mark.parametrize(
    ("name", "factor"), [("chrf", 20.0), ("bleu", 20.0), ("ter", -20.0), ("count", 0.2), ("errors", -0.2)]
)
def test_scores_are_those_of_the_metric_plus_the_weight_times_resume(
    name: str, factor: float, resume: Path, counting: type[Count]
) -> None:
    """The weight is for metrics from 0 to 1, and a better translation has a better score, which may be a lower one."""
    base, alone, added = judged(name, f"resume-metric={resume}", f"{name}+resume-metric=0.2,model={resume}")
    for system in SYSTEMS:
        expected = base.segments[system] + factor * alone.segments[system]
        np.testing.assert_allclose(added.segments[system], expected, rtol=1e-12)
        score = base.scores[system].score + factor * alone.scores[system].score
        assert added.scores[system].score == pytest.approx(score, rel=1e-12)
        assert added.scores[system].low <= score <= added.scores[system].high
    assert added.label == f"{name}+0.2*RESUME"
    assert added.family == ("lexical" if name in ("chrf", "bleu", "ter") else "counting") + "+pear"


def test_resume_alone_is_a_judge_of_source_reference_and_candidate(resume: Path) -> None:
    from pear import ResumeMetric

    (result,) = judged(f"resume-metric={resume}")
    with ResumeMetric.load(resume, device="cpu") as metric:
        expected = metric.score(list(zip(SOURCES, REFERENCES, SYSTEMS["good"], strict=True)))
    assert result.segments["good"] == pytest.approx(expected, abs=1e-5)


def test_the_metric_takes_all_references_and_resume_the_first(resume: Path) -> None:
    notes: list[str] = []
    both = (REFERENCES, OTHERS)
    base, added = judged("chrf", f"chrf+resume-metric=0.5,model={resume}", references=both, report=notes.append)
    (alone,) = judged(f"resume-metric={resume}")
    np.testing.assert_allclose(added.segments["good"], base.segments["good"] + 50 * alone.segments["good"], rtol=1e-12)
    assert notes == ["RESUME in chrf+0.5*RESUME takes one reference: the first of 2 is used"]


def test_another_weight_computes_nothing_anew(resume: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from mbr.metrics.resume_metric import Resume

    with Cache(tmp_path / "cache.sqlite") as cache:
        judged(f"chrf+resume-metric=0.2,model={resume}", cache=cache)
        monkeypatch.setattr(Resume, "__init__", lambda *words, **options: pytest.fail("a model was loaded"))
        judged(f"chrf+resume-metric=0.7,model={resume}", f"resume-metric={resume}", cache=cache)


def test_words_are_those_of_add_and_labels_are_distinct() -> None:
    words = ["chrf++", "chrf+++resume-metric=0.2,model=a/b", "chrf+++resume-metric=0.2,model=c/d", "xcomet=x,y"]
    specs = parse_judges(words)
    assert [spec.label for spec in specs] == ["chrf++", "chrf+++0.2*RESUME=b", "chrf+++0.2*RESUME=d", "xcomet"]
    assert specs[3].model == "x,y"
    assert specs[1].residual == Residual(0.2, "a/b")
    assert (specs[1].needs_reference, specs[1].needs_source, specs[1].lexical) == (True, True, False)
    base, residual = split_residual("bleu+resume-metric=1,model=m,threads=1")
    assert (base, residual) == ("bleu", Residual(1.0, "m", {"threads": 1}))
    mix = parse_objective("chrf+++resume-metric=0.2,model=a:0.5+bleu+chrf+resume-metric=1,model=b")
    assert [(spec.title, weight) for spec, weight in mix] == [
        ("chrf+++0.2*RESUME", 0.5), ("bleu", 1.0), ("chrf+1*RESUME", 1.0),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("chrf+resume-metric=much,model=x", "^'chrf.resume-metric=much,model=x': 'much' is not a number"),
        ("chrf+resume-metric=0.2", "RESUME has no model; none is bundled, so name a checkpoint of kind resume"),
        ("chrf+resume-metric=-1,model=x", "weight of RESUME is -1"),
        ("chrf+resume-metric=0.2,colour=red", "has no option 'colour'"),
        ("pear+resume-metric=0.2,model=x", "compares with a reference; pear-ref does"),
        ("resume-metric=x+resume-metric=0.2,model=x", "give another judge before the"),
        ("blue+resume-metric=0.2,model=x", "judge 'blue' is unknown"),
    ],
)
def test_a_word_that_makes_no_sense_is_refused(word: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        parse_judges([word])


def test_a_candidate_has_no_baseline_to_tune_with() -> None:
    with pytest.raises(UsageError, match="candidates have none; give pear-ref"):
        parse_objective("chrf+pear")
