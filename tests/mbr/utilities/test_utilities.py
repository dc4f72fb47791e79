from __future__ import annotations

import json
import random
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sacrebleu
from mbr.utilities.resume import WithResume, pairs_of_matrices

from candidates.common.errors import EnvironmentProblem, ModelError, UsageError
from mbr import rerank, utility_matrix
from mbr.utilities import get_utility, utility_class, utility_names
from mbr.utilities.chrf import ChrF
from pear import ResumeMetric
from tests.conftest import Run, write_jsonl
from tests.support.tiny import by_hand, tiny_model


def plain(hypothesis: str, reference: str) -> float:
    return float(sacrebleu.sentence_chrf(hypothesis, [reference]).score)


def test_names_and_what_they_can_do() -> None:
    assert utility_names()[0] == "pear"
    assert utility_class("pear").capabilities() == ("pairwise", "antisymmetric", "referenceless")
    assert utility_class("chrf").capabilities() == ("aggregate", "lexical")


def test_unknown_names_and_options_are_usage_errors() -> None:
    with pytest.raises(UsageError, match="pear, comet, xcomet"):
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


@pytest.mark.parametrize(("target", "words"), [("nowhere:X", "cannot be loaded"), ("shorter:np", "is no PairUtility")])
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
    with pytest.raises(ModelError, match="a model of kind pear; expected single"):
        get_utility("single", model=ours)
    with pytest.raises(UsageError, match="--model FOLDER"):
        get_utility("single")


@pytest.mark.parametrize(("strategy", "budget", "passes"), [("full", None, 12), ("halving", 7, 7)])
@pytest.mark.parametrize("name", ["chrf", "pear"])
def test_with_resume_is_the_sum_on_every_pair(
    models: dict[str, Path], ours: Path, engine: Any, name: str, strategy: str, budget: int | None, passes: int
) -> None:
    options = {"model": ours, "device": "cpu"} if name == "pear" else {}
    with WithResume(get_utility(name, **options), models["resume"], 20, device="cpu") as utility:
        made = utility_matrix("A dog runs.", TEXTS, utility, strategy=strategy, budget=budget)
    pairs = [(i, j) for i in range(4) for j in range(4) if made.scored[i, j]]
    assert len(pairs) == made.passes == passes
    if name == "chrf":
        base = np.array([plain(TEXTS[i], TEXTS[j]) for i, j in pairs])
    else:
        base = engine.score([("A dog runs.", TEXTS[i], TEXTS[j]) for i, j in pairs])
    residuals = by_hand(models["resume"], [("A dog runs.", TEXTS[j], TEXTS[i]) for i, j in pairs])
    np.testing.assert_allclose([made.values[pair] for pair in pairs], base + 20 * residuals, atol=1e-3)
    assert (made.utility, made.relation) == (f"{name}+resume", "none")


def test_pairs_of_a_matrix_utility_keep_their_sources_and_their_order() -> None:
    draw = random.Random(5)
    triples = [(draw.choice("st"), draw.choice(TEXTS), draw.choice(TEXTS[1:])) for _ in range(40)]
    scores = pairs_of_matrices(ChrF(), triples)
    np.testing.assert_allclose(scores, [plain(h, r) for _, h, r in triples], atol=1e-4)


def test_with_resume_tells_everything_in_its_settings(models: dict[str, Path]) -> None:
    with WithResume(get_utility("bleu"), models["resume"], device="cpu") as utility:
        settings = utility.settings()
        assert list(settings) == ["tok", "resume", "resume-weight", "resume-dtype", "resume-trunc"]
        assert str(settings["resume"]).startswith("resume@")
        assert utility.notes() == ["RESUME adds from -0.2 to 0.2 to each bleu score"]
        assert utility.truncates("A dog runs." * 20, TEXTS)
        assert set(utility.cost([("s", "a", "b")])) == {"tokens", "memory_bytes"}
        with pytest.raises(UsageError, match="needs an antisymmetric utility"):
            rerank("A dog runs.", TEXTS, utility, strategy="balanced")


def test_with_resume_says_what_is_wrong(models: dict[str, Path], tmp_path: Path) -> None:
    for weight in (-1.0, float("nan"), float("inf")):
        with pytest.raises(UsageError, match="weight of RESUME"):
            WithResume(ChrF(), models["resume"], weight)
    with pytest.raises(ModelError, match="a model of kind single; expected resume"):
        WithResume(ChrF(), models["single"])
    with pytest.raises(ModelError, match="nowhere is not a PEAR checkpoint"):
        WithResume(ChrF(), tmp_path / "nowhere")
    with ResumeMetric.load(models["resume"], device="cpu") as resume, pytest.raises(UsageError, match="loaded already"):
        WithResume(ChrF(), resume, device="cpu")


def test_the_command_adds_resume_to_a_utility(run: Run, tmp_path: Path, models: dict[str, Path]) -> None:
    write_jsonl(tmp_path / "l.jsonl", LISTS)
    words = ("--utility", "chrf", "--candidates", "l.jsonl", "--add-resume", models["resume"], "--resume-weight", "20")
    result = run("mbr-decode", *words, "--device", "cpu", "--format", "jsonl", "-o", "out.jsonl")
    assert result.returncode == 0, result.stderr
    assert "RESUME adds from -20 to 20 to each chrf score" in result.stderr
    assert re.search(
        r"MBR\|utility:chrf\+resume\|resume:resume@\w{12}\|resume-weight:20.0\|resume-dtype:float32\|resume-trunc:48"
        r"\|strategy:full\|",
        result.stderr,
    )
    with WithResume(ChrF(), models["resume"], 20, device="cpu") as utility:
        expected = [rerank(item["source"], item["candidates"], utility) for item in LISTS]
    records = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert [record["text"] for record in records] == [decision.text for decision in expected]
    assert [record["passes"] for record in records] == [12, 6]
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


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("--resume-weight", "1"), 2, "--resume-weight goes with --add-resume"),
        (("--add-resume", "x", "--resume-weight", "-1"), 2, "the weight of RESUME is -1.0"),
        (("--add-resume", "x", "--resume-weight", "nan"), 2, "the weight of RESUME is nan"),
        (("--add-resume", "x", "--strategy", "half"), 2, "which 'chrf+resume' is not"),
        (("--add-resume", "./nowhere"), 4, "nowhere is not a PEAR checkpoint"),
    ],
)
def test_trouble_with_resume_has_a_message_and_an_exit_code(
    run: Run, tmp_path: Path, words: tuple[str, ...], code: int, message: str
) -> None:
    write_jsonl(tmp_path / "l.jsonl", LISTS)
    result = run("mbr-decode", "--utility", "chrf", "--candidates", "l.jsonl", *words)
    assert (result.returncode, result.stdout) == (code, "")
    assert message in result.stderr
