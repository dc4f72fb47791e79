from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sacrebleu

from candidates.common.errors import EnvironmentProblem, ModelError, UsageError
from mbr import rerank, utility_matrix
from mbr.utilities import get_utility, utility_class, utility_names
from tests.conftest import Run, write_jsonl
from tests.support.tiny import by_hand, tiny_model


def plain(hypothesis: str, reference: str) -> float:
    return float(sacrebleu.sentence_chrf(hypothesis, [reference]).score)


def test_names_and_what_they_can_do() -> None:
    assert utility_names()[0] == "pear"
    assert utility_class("pear").capabilities() == ("pairwise", "antisymmetric", "referenceless")
    assert utility_class("chrf").capabilities() == ("aggregate", "lexical")


def test_unknown_names_and_options_are_usage_errors() -> None:
    with pytest.raises(UsageError, match="pear, comet, "):
        get_utility("rouge")
    with pytest.raises(UsageError, match="'chrf' has no option 'model'"):
        get_utility("chrf", model="x")


PLUG_IN = """
import numpy as np
from mbr import MatrixUtility

class Shorter(MatrixUtility):
    name = "shorter"
    summary = "prefers short texts"

    def matrix(self, source, hypotheses, references):
        return np.array([[len(r) - len(h) for r in references] for h in hypotheses], np.float32)
"""


def plug_in(folder: Path, target: str) -> None:
    (folder / "shorter.py").write_text(PLUG_IN)
    info = folder / "shorter-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: shorter\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[mbr_decode.utilities]\nshorter = {target}\n")


def test_an_installed_plug_in_is_a_utility_like_ours(tmp_path: Path) -> None:
    plug_in(tmp_path, "shorter:Shorter")
    program = 'import mbr; print(mbr.rerank("s", ["abc", "a", "ab"], utility="shorter").text)'
    result = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": str(tmp_path)},
    )
    assert result.stdout == "a\n"


@pytest.mark.parametrize(
    ("target", "words"),
    [("nowhere:X", "cannot be loaded"), ("shorter:np", "no subclass of PairUtility, MatrixUtility or QualityUtility")],
)
def test_a_broken_plug_in_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, target: str, words: str) -> None:
    plug_in(tmp_path, target)
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(EnvironmentProblem, match=words):
        utility_class("shorter")


TEXTS = ["Ein Hund rennt.", "Ein Hund läuft.", "Der Hund läuft.", "Hund"]
LISTS: list[dict[str, Any]] = [
    {"source": "A dog runs.", "candidates": TEXTS},
    {"source": "Good morning", "candidates": ["Guten Morgen", "Guten Morgen!", "Gute Nacht"]},
]


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("models")
    return {kind: tiny_model(root, kind) for kind in ("single", "resume", "sentinel-cand", "sentinel-src")}


def test_single_scores_each_candidate_once_and_decides_by_it(models: dict[str, Path]) -> None:
    with get_utility("single", model=models["single"], device="cpu") as utility:
        expected = by_hand(models["single"], [("A dog runs.", text) for text in TEXTS])
        decision = rerank("A dog runs.", [*TEXTS, TEXTS[1]], utility, keep_matrix=True)
        assert decision.passes == len(TEXTS)
        assert decision.matrix is not None
        np.testing.assert_allclose(decision.matrix.values, np.column_stack([expected] * len(TEXTS)), atol=1e-5)
        assert decision.text == TEXTS[int(np.argmax(expected))]
        np.testing.assert_allclose(decision.expected, expected, atol=1e-5)
        assert not utility.truncates("A dog runs.", TEXTS)
        assert utility.truncates("A dog runs." * 20, TEXTS)
        assert utility.capabilities() == ("referenceless",)


def test_single_takes_the_sentinel_that_sees_candidates_and_no_other(models: dict[str, Path], ours: Path) -> None:
    with get_utility("single", model=models["sentinel-cand"], device="cpu") as utility:
        scores = rerank("A dog runs.", TEXTS, utility).expected
        np.testing.assert_allclose(scores, by_hand(models["sentinel-cand"], [("", t) for t in TEXTS]), atol=1e-5)
        assert utility.settings()["kind"] == "sentinel-cand"
    with pytest.raises(ModelError, match="a sentinel-src, which gives all candidates of a source the same score"):
        get_utility("single", model=models["sentinel-src"])
    with pytest.raises(ModelError, match="a model of kind pear; expected one of kind single or sentinel-cand"):
        get_utility("single", model=ours)
    with pytest.raises(UsageError, match="--model FOLDER"):
        get_utility("single")


@pytest.mark.parametrize("weights", ["uniform", "count"])
def test_resume_as_a_term_is_its_mean_over_the_pseudo_references(models: dict[str, Path], weights: Any) -> None:
    listed = [*TEXTS, TEXTS[1]]
    add = {"add": {"resume-metric": 20.0}, "add_model": {"resume-metric": str(models["resume"])}}
    decision = rerank("A dog runs.", listed, "chrf", weights=weights, device="cpu", **add)
    plain_scores = rerank("A dog runs.", listed, "chrf", weights=weights).expected
    entries = TEXTS if weights == "uniform" else listed
    for place, text in enumerate(TEXTS):
        others = list(entries)
        others.remove(text)
        residuals = by_hand(models["resume"], [("A dog runs.", other, text) for other in others])
        assert decision.terms["resume-metric"][place] == pytest.approx(residuals.mean(), abs=1e-5)
        assert decision.scores[place] == pytest.approx(plain_scores[place] + 20 * residuals.mean(), abs=1e-3)


def test_resume_is_a_utility_of_its_own(models: dict[str, Path]) -> None:
    with get_utility("resume-metric", model=models["resume"], device="cpu") as utility:
        made = utility_matrix("A dog runs.", TEXTS, utility)
        expected = by_hand(models["resume"], [("A dog runs.", TEXTS[0], TEXTS[1])])
        assert made.values[1, 0] == pytest.approx(float(expected[0]), abs=1e-5)
        assert str(utility.settings()["model"]).startswith("resume@")
        assert utility.truncates("A dog runs." * 20, TEXTS)
        assert set(utility.cost([("s", "a", "b")])) == {"tokens", "memory_bytes"}
        with pytest.raises(UsageError, match="needs an antisymmetric utility"):
            rerank("A dog runs.", TEXTS, utility, strategy="balanced")
    with pytest.raises(ModelError, match="a model of kind single; expected one of kind resume"):
        get_utility("resume-metric", model=models["single"])
    with pytest.raises(UsageError, match="needs a checkpoint of kind resume"):
        get_utility("resume-metric")


def test_the_command_adds_resume_to_a_utility(run: Run, tmp_path: Path, models: dict[str, Path]) -> None:
    write_jsonl(tmp_path / "l.jsonl", LISTS)
    words = ("--utility", "chrf", "--candidates", "l.jsonl", "--add", f"resume-metric=20,model={models['resume']}")
    result = run("mbr-decode", *words, "--device", "cpu", "--format", "jsonl", "-o", "out.jsonl")
    assert result.returncode == 0, result.stderr
    assert re.search(
        r"\|add.resume-metric:20.0\|add.resume-metric.model:resume@\w{12}\|add.resume-metric.dtype:float32"
        r"\|add.resume-metric.trunc:48\|",
        result.stderr,
    )
    settings = {"add": {"resume-metric": 20.0}, "add_model": {"resume-metric": str(models["resume"])}, "device": "cpu"}
    expected = [rerank(item["source"], item["candidates"], "chrf", **settings) for item in LISTS]
    records = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert [record["text"] for record in records] == [decision.text for decision in expected]
    again = run("mbr-decode", "--config", "out.jsonl.run.yaml", "--resume")
    assert (again.returncode, "nothing to resume" in again.stderr) == (0, True)


def test_the_command_reranks_with_a_single_model(run: Run, tmp_path: Path, models: dict[str, Path]) -> None:
    write_jsonl(tmp_path / "l.jsonl", LISTS)
    words = ("--utility", "single", "--model", models["single"], "--candidates", "l.jsonl", "--device", "cpu")
    result = run("mbr-decode", *words)
    scores = [by_hand(models["single"], [(item["source"], text) for text in item["candidates"]]) for item in LISTS]
    best = [item["candidates"][int(np.argmax(found))] for item, found in zip(LISTS, scores, strict=True)]
    assert (result.returncode, result.stdout) == (0, "".join(f"{text}\n" for text in best)), result.stderr
    assert "MBR|utility:single|model:single@" in result.stderr
    dry = run("mbr-decode", *words, "--dry-run")
    assert re.search(r"pairs +7 \(about \d+ tokens\)", dry.stdout), dry.stdout + dry.stderr
