"""Errors that XCOMET finds, on the command line: JSON, JSON lines, marked text; and options of single judges."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from candidates.common.errors import UsageError
from mbr.cli.evaluate.spans import marked
from mbr.evaluate import evaluate
from mbr.evaluate.judges import parse_judges, with_options
from mbr.metrics import get_metric
from mbr.metrics.xcomet import Span
from tests.conftest import Run
from tests.mbr.evaluate.made import ALL, FAST, REFERENCES, SOURCES, SYSTEMS
from tests.support.random_comet import write_random_comet
from tests.support.random_metrics import write_random_encoder

pytestmark = [pytest.mark.one_world, pytest.mark.usefixtures("files")]


@pytest.fixture(scope="module")
def xcomet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_random_comet(tmp_path_factory.mktemp("spans") / "xcomet", kind="xcomet_metric")


def same(made: list[dict[str, Any]], expected: list[dict[str, Any]]) -> None:
    """Equal records; scores and confidences as near as batches of other rows leave them."""

    def rounded(record: dict[str, Any]) -> dict[str, Any]:
        spans = [{**span, "confidence": round(span["confidence"], 4)} for span in record["spans"]]
        return {**record, "score": round(float(record["score"]), 4), "spans": spans}

    assert list(map(rounded, made)) == list(map(rounded, expected))


def test_spans_are_those_of_the_metric_in_every_form(warm: Run, tmp_path: Path, xcomet: Path) -> None:
    words = [*ALL, *FAST, "--judge", "chrf", f"xcomet={xcomet}", "--device", "cpu", "--quiet"]
    whole = json.loads(warm("mbr-evaluate", *words, "--spans", "--format", "json").stdout)
    lines = tmp_path / "spans.jsonl"
    plain = warm("mbr-evaluate", *words, "--spans", str(lines)).stdout
    records = [json.loads(line) for line in lines.read_text(encoding="utf-8").splitlines()]
    same(whole["spans"], records)
    assert len(records) == 5 * 3
    with get_metric("xcomet", model=xcomet, device="cpu") as metric:
        rows = [(SOURCES[r["segment"] - 1], r["output"], REFERENCES[r["segment"] - 1]) for r in records]
        scores, spans = metric.score_with_spans(rows)
        found = [[vars(span) for span in own] for own in spans]
        same([{**r, "score": s, "spans": f} for r, s, f in zip(records, scores, found, strict=True)], records)
    table = warm("mbr-evaluate", *words, "--spans").stdout
    assert table.startswith(plain)
    good = next(r for r in records if r["system"] == "good" and r["spans"])
    shown = marked(good["output"], [Span(**span) for span in good["spans"]])
    assert f"{good['segment']}  {shown}\n" in table
    wrong = sum(bool(r["spans"]) for r in records if r["system"] == "good")
    assert f"errors by xcomet in good: {wrong} of 5 segments\n" in table
    text = tmp_path / "spans.txt"
    warm("mbr-evaluate", *words, "--spans", str(text))
    assert table == plain + "\n" + text.read_text(encoding="utf-8")


def test_spans_need_no_second_pass_and_come_without_the_cached_scores_too(
    xcomet: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from mbr.cache.judgements import Cache
    from mbr.metrics.joint import JointEncoder

    passes: list[int] = []
    run = JointEncoder.run

    def counted(self: JointEncoder, inputs: list[tuple[str, ...]], **options: object) -> object:
        passes.append(len(inputs))
        return run(self, inputs, **options)

    monkeypatch.setattr(JointEncoder, "run", counted)
    outputs = {"good": SYSTEMS["good"]}
    found = []
    with Cache(tmp_path / "judgements.sqlite") as cache:
        for spans in (True, False, True):
            passes.clear()
            result = evaluate(
                outputs,
                [f"xcomet={xcomet}"],
                sources=SOURCES,
                references=[REFERENCES],
                draws=0,
                trials=0,
                options={"device": "cpu"},
                spans=spans,
                cache=cache,
            )
            found.append((sum(passes), result.judges[0].spans))
    assert [count for count, _ in found] == [3 * len(SOURCES), 0, 3 * len(SOURCES)]
    assert found[0][1] == found[2][1]
    assert found[1][1] == {}


def test_marks_stand_around_the_words_and_nothing_escapes() -> None:
    text = "Der Hund\tläuft [schnell]."
    spans = [Span(3, 8, "major", 0.9, "Hund"), Span(9, 14, "minor", 0.5, "läuft")]
    assert marked(text, spans) == r"Der [Hund](major)\t[läuft](minor) [schnell]."
    assert marked(text, spans, colour=True) == ("Der \x1b[37;41mHund\x1b[0m\\t\x1b[30;43mläuft\x1b[0m [schnell].")
    assert marked("a\x1b[31mb", []) == r"a\x1b[31mb"
    assert marked("abc", [Span(0, 3, "critical", 0.9, "abc"), Span(1, 3, "minor", 0.9, "bc")]) == (
        "[abc](critical)[](minor)"
    )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--spans", "--judge", "chrf"], "no judge here finds errors and their places (--spans); add --judge xcomet"),
        (["--spans", "--format", "tsv"], "--spans has no place in --format tsv"),
        (["--judge", "chrf", "--judge-option", "chrf:layer=2"], "judge chrf takes no options of its own"),
        (["--judge", "bleurt", "--judge-option", "bleurt:layer=2"], "judge bleurt has no option 'layer'"),
        (["--judge", "bleurt", "--judge-option", "comet:backend=library"], "no judge 'comet' was given"),
        (["--judge", "bleurt", "--judge-option", "backend=library"], "is not a NAME:KEY=VALUE"),
    ],
)
def test_a_wrong_request_is_refused(warm: Run, words: list[str], message: str) -> None:
    result = warm("mbr-evaluate", *ALL, *FAST, *words)
    assert result.returncode == UsageError.exit_code
    assert message in result.stderr


def test_options_of_a_judge_reach_it(warm: Run, tmp_path: Path) -> None:
    encoder = write_random_encoder(tmp_path / "encoder", "bert")
    words = [*ALL, *FAST, "--judge", f"bertscore={encoder}", "--device", "cpu"]
    failed = warm("mbr-evaluate", *words)
    assert "bertscore knows no layer for the encoder encoder; give one from 1 to 3 (layer=N)" in failed.stderr
    scores = {}
    for layer in (1, 2):
        result = warm("mbr-evaluate", *words, "--judge-option", f"bertscore:layer={layer}", "--format", "json")
        (judge,) = json.loads(result.stdout)["judges"]
        assert f"|layer:{layer}|measure:f1|" in judge["identity"] + "|"
        scores[layer] = judge["scores"]["good"]["score"]
    assert scores[1] != scores[2]
    spec, other = with_options(
        parse_judges(["bertscore=a/x", "bertscore=b/y"]), ["bertscore=x:layer=2", "bertscore=y:idf=c:d"]
    )
    assert (spec.options, other.options) == ({"layer": 2}, {"idf": "c:d"})
