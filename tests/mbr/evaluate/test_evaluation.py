from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from candidates.common.errors import InputError, ModelError, UsageError
from mbr.cache.judgements import Cache
from mbr.evaluate import evaluate
from mbr.evaluate.evaluation import SystemScore, reason_of, same_family
from mbr.evaluate.judges import JudgeSpec
from tests.mbr.evaluate.made import REFERENCES, SOURCES, SYSTEMS, Count

GIVEN: dict[str, Any] = {"sources": SOURCES, "references": [REFERENCES], "draws": 50, "trials": 50}


def test_scores_of_all_judges_and_systems(counting: type[Count]) -> None:
    from sacrebleu.metrics import CHRF, TER

    done = evaluate(SYSTEMS, ["chrf", "ter", "count", "errors"], baseline="middle", **GIVEN)
    assert (done.systems, done.segments, done.baseline) == (("good", "poor", "middle"), 5, "middle")
    chrf, ter, count, errors = done.judges
    for name, outputs in SYSTEMS.items():
        assert chrf.scores[name].score == CHRF().corpus_score(outputs, [REFERENCES]).score
        assert ter.scores[name].score == TER().corpus_score(outputs, [REFERENCES]).score
        assert count.scores[name].score == pytest.approx(count.segments[name].mean())
        assert errors.scores[name].score == pytest.approx(1 - count.scores[name].score)
        for judge in done.judges:
            score = judge.scores[name]
            assert score.low is not None
            assert score.high is not None
            assert score.low <= score.score <= score.high
            assert score.difference == pytest.approx(score.score - judge.scores["middle"].score)
    assert done.ranking() == ["good", "middle", "poor"]
    assert done.exit_code() == 0
    assert [judge.lower_is_better for judge in done.judges] == [False, True, False, True]


def test_systems_are_ranked_by_the_first_judge_lower_first_where_that_is_better(counting: type[Count]) -> None:
    for judge in ("errors", "ter", "chrf"):
        assert evaluate(SYSTEMS, [judge], **GIVEN).ranking() == ["good", "middle", "poor"]


def test_judges_are_open_one_at_a_time(counting: type[Count]) -> None:
    judges = [JudgeSpec("count", model, model) for model in ("one", "two")]
    evaluate(SYSTEMS, judges, **GIVEN)
    assert counting.events == ["open one", "score one", "close one", "open two", "score two", "close two"]


def test_two_models_of_one_name_have_two_labels(counting: type[Count]) -> None:
    done = evaluate(SYSTEMS, ["count=a/one", "chrf", "count=b/two"], **GIVEN)
    assert [judge.label for judge in done.judges] == ["count=one", "chrf", "count=two"]


def test_a_second_run_scores_nothing(tmp_path: Path, counting: type[Count]) -> None:
    with Cache(tmp_path / "c.sqlite") as cache:
        first = evaluate(SYSTEMS, ["chrf", "count"], baseline="good", cache=cache, **GIVEN)
        rows = counting.rows_scored
        again = evaluate(SYSTEMS, ["chrf", "count"], baseline="good", cache=cache, **GIVEN)
    assert counting.rows_scored == rows > 0
    for one, two in zip(first.judges, again.judges, strict=True):
        assert one.scores == two.scores
        assert {name: flags.tolist() for name, flags in one.truncated.items()} == {
            name: flags.tolist() for name, flags in two.truncated.items()
        }


@pytest.mark.parametrize(("model", "code"), [("broken", 5), ("nan", 4)])
def test_a_judge_that_fails_leaves_the_others_alone(model: str, code: int, counting: type[Count]) -> None:
    warnings: list[str] = []
    judges = [JudgeSpec("count", model, "bad"), *map(JudgeSpec, ("chrf", "count"))]
    done = evaluate(SYSTEMS, judges, warn=warnings.append, **GIVEN)
    bad, chrf, count = done.judges
    assert bad.error is not None
    assert not bad.scores
    assert f"close {model}" in counting.events
    assert set(chrf.scores) == set(count.scores) == set(SYSTEMS)
    assert done.exit_code() == code
    assert done.ranking() == ["good", "middle", "poor"]
    assert len(warnings) == 1
    assert warnings[0].startswith("bad failed: ")


def test_neural_judges_take_the_first_reference_and_say_so(counting: type[Count]) -> None:
    notes: list[str] = []
    given = GIVEN | {"references": [REFERENCES, SOURCES]}
    done = evaluate(SYSTEMS, ["count", "chrf"], report=notes.append, **given)
    assert notes == ["count takes one reference: the first of 2 is used"]
    assert done.judges[0].scores == evaluate(SYSTEMS, ["count"], **GIVEN).judges[0].scores
    assert "nrefs:2" in done.judges[1].identity


def test_another_system_changes_no_number(counting: type[Count]) -> None:
    two = {name: SYSTEMS[name] for name in ("good", "middle")}
    few, all_three = (evaluate(one, ["bleu", "count"], baseline="middle", **GIVEN) for one in (two, SYSTEMS))
    for one, other in zip(few.judges, all_three.judges, strict=True):
        assert {name: one.scores[name] for name in two} == {name: other.scores[name] for name in two}


def test_statistics_can_be_left_out() -> None:
    done = evaluate(SYSTEMS, ["chrf"], baseline="good", references=[REFERENCES], draws=0, trials=0)
    score = done.judges[0].scores["poor"]
    assert (score.low, score.high, score.p_bootstrap, score.p_randomisation) == (None, None, None, None)
    assert score.difference is not None
    assert not score.significant


@pytest.mark.parametrize(
    ("ps", "expected"),
    [
        ((0.01, 0.01), True),
        ((0.01, 0.2), False),
        ((None, 0.01), True),
        ((0.01, None), False),
        ((None, None), False),
        ((0.05, 0.01), False),
        ((0.01, 0.05), False),
    ],
)
def test_significant_is_below_5_percent_by_randomisation_and_by_the_bootstrap_if_it_was_run(
    ps: tuple[float | None, float | None], expected: bool
) -> None:
    assert SystemScore(1.0, p_bootstrap=ps[0], p_randomisation=ps[1]).significant is expected


@pytest.mark.parametrize(
    ("utility", "judge", "expected"),
    [
        ("chrf", "chrf", True),
        ("bleu", "chrf", True),
        ("chrf++", "ter", True),
        ("resume-metric", "bleu", False),
        ("reverse", "bleu", False),
        ("logprob", "chrf", False),
        ("chrf", "comet", False),
        ("pear", "chrf", False),
        ("not-installed", "chrf", False),
        ("metricx", "metricx-qe", True),
        ("cometkiwi", "comet", True),
        ("logprob", "comet", False),
    ],
)
def test_utility_and_judge_of_one_family(utility: str, judge: str, expected: bool) -> None:
    assert same_family(utility, JudgeSpec(judge)) is expected


def test_every_stage_that_chose_flatters() -> None:
    chosen_by = {"good": ["pear", "chrf"], "poor": ["pear", "logprob"], "middle": ["pear"]}
    done = evaluate(SYSTEMS, ["bleu"], chosen_by=chosen_by, **GIVEN)
    assert {name: score.same_family for name, score in done.judges[0].scores.items()} == {
        "good": True,
        "poor": False,
        "middle": False,
    }


def test_a_reason_is_one_line() -> None:
    for error in (ModelError("one\ntwo\n  three"), ValueError("one\ntwo\n  three")):
        assert reason_of(error).endswith("one two three")


@pytest.mark.parametrize(
    ("changed", "error", "message"),
    [
        ({"systems": {}}, UsageError, "no system"),
        ({"judges": ["chrf", JudgeSpec("chrf")]}, UsageError, "same label: chrf, chrf"),
        ({"baseline": "bad"}, UsageError, "baseline 'bad' is not among the systems: good, poor, middle"),
        ({"references": None}, UsageError, "chrf needs references .* cometkiwi, .*metricx-qe"),
        ({"judges": ["comet"], "sources": None}, UsageError, "comet needs the sources"),
        ({"references": [REFERENCES[:3]]}, InputError, "reference set 1 3"),
        ({"sources": SOURCES[:3]}, InputError, "sources 3"),
        ({"systems": {"a": []}, "sources": [], "references": [[]]}, InputError, "no segment"),
        ({"draws": -1}, UsageError, "negative"),
    ],
)
def test_what_makes_no_sense_is_refused_before_any_work(changed: Any, error: type[Exception], message: str) -> None:
    given = {"systems": SYSTEMS, "judges": ["chrf"], **GIVEN} | changed
    with pytest.raises(error, match=message):
        evaluate(**given)


def test_every_neural_metric_is_a_judge_and_a_second_run_loads_none(
    tiny_metrics: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The real things with random weights."""
    from mbr import metrics

    names = ("comet", "cometkiwi", "xcomet", "xcomet-qe", "bleurt", "metricx", "metricx-qe")
    specs = [JudgeSpec(name, str(tiny_metrics[name.removesuffix("-qe")])) for name in names]
    settings: dict[str, Any] = {"options": {"device": "cpu"}, **GIVEN}
    with Cache(tmp_path / "c.sqlite") as cache:
        done = evaluate(SYSTEMS, specs, cache=cache, **settings)
    for judge in done.judges:
        assert judge.error is None
        metric_name = judge.name.removesuffix("-qe")
        with metrics.get_metric(metric_name, model=tiny_metrics[metric_name]) as metric:
            for name, outputs in SYSTEMS.items():
                triples = list(zip(SOURCES, outputs, REFERENCES, strict=True))
                with_reference = 3 in metric.takes and not judge.name.endswith("-qe")
                rows = triples if with_reference else [row[:2] for row in triples]
                assert judge.scores[name].score == pytest.approx(metric.score(rows).mean(), abs=1e-5)

    def refuse(*words: Any, **options: Any) -> Any:
        raise AssertionError("a model is loaded again")

    monkeypatch.setattr(metrics, "get_metric", refuse)
    with Cache(tmp_path / "c.sqlite") as cache:
        again = evaluate(SYSTEMS, specs, cache=cache, **settings)
    assert [judge.scores for judge in again.judges] == [judge.scores for judge in done.judges]
    assert [judge.identity for judge in again.judges] == [judge.identity for judge in done.judges]


def test_a_checkpoint_that_was_changed_is_another_judge(tmp_path: Path) -> None:
    from tests.support.random_comet import write_random_comet

    spec = JudgeSpec("comet", str(tmp_path / "comet"))
    scores = []
    with Cache(tmp_path / "c.sqlite") as cache:
        for seed in (1, 2):
            write_random_comet(tmp_path / "comet", layers=1, seed=seed)
            (judge,) = evaluate(SYSTEMS, [spec], cache=cache, options={"device": "cpu"}, **GIVEN).judges
            scores.append(judge.scores)
    assert scores[0] != scores[1]


def test_a_file_that_was_replaced_by_one_of_the_same_size_and_time_is_noticed(tmp_path: Path) -> None:
    from mbr.metrics.released import stamp_files

    file = tmp_path / "model.ckpt"
    file.write_bytes(b"first")
    before = stamp_files(tmp_path, "comet", {})
    assert before == stamp_files(tmp_path, "comet", {}) is not None
    times = file.stat().st_atime_ns, file.stat().st_mtime_ns
    file.write_bytes(b"other")  # in place: only the time of the change tells
    os.utime(file, ns=times)
    changed = stamp_files(tmp_path, "comet", {})
    assert changed != before
    other = tmp_path / "new"
    other.write_bytes(b"third")
    os.utime(other, ns=times)
    other.replace(file)
    assert stamp_files(tmp_path, "comet", {}) not in (before, changed)


def test_without_judges_outputs_are_checked_only() -> None:
    evaluation = evaluate(SYSTEMS, [], **GIVEN)
    assert evaluation.judges == ()
    assert set(evaluation.checks) == set(SYSTEMS)
    assert evaluation.exit_code() == 0
