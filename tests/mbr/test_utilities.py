from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sacrebleu

from benchmarks.random_pear import CORPUS
from candidates.errors import EnvironmentProblem, UsageError
from mbr.utilities import get_utility, ngrams, utility_class, utility_names


def texts() -> list[str]:
    draw = random.Random(1)
    words = ["the", "a", "cat", "dog", "sat", "on", "mat", ".", ",", "1,000", "don't"]
    made = [" ".join(draw.choices(words, k=draw.randint(1, 30))) for _ in range(25)]
    odd = [
        "",
        " ",
        "a",
        "aaaa aaaa aaaa",
        "Hello hello hello.",
        "ab",
        "é",
        "😀😀 x",
        "日本語 テキスト",
        "a\u2028b\tc\rd",
    ]
    return odd + CORPUS + made + ["very long " * 300]


def plain(name: str, hypothesis: str, reference: str) -> float:
    score = sacrebleu.sentence_chrf if name == "chrf" else sacrebleu.sentence_bleu
    return float(score(hypothesis, [reference]).score)


@pytest.mark.parametrize("name", ["chrf", "bleu"])
def test_matrix_has_the_sentence_scores_of_sacrebleu(name: str) -> None:
    sample = texts()
    matrix = get_utility(name).matrix("", sample, sample)  # type: ignore[attr-defined]
    expected = np.array([[plain(name, h, r) for r in sample] for h in sample])
    np.testing.assert_allclose(matrix, expected, rtol=1e-6, atol=1e-5)


@pytest.mark.parametrize("name", ["chrf", "bleu"])
def test_hypotheses_and_references_may_be_different_texts(name: str) -> None:
    sample = texts()
    utility: Any = get_utility(name)
    assert np.array_equal(utility.matrix("", sample[:7], sample[3:20]), utility.matrix("", sample, sample)[:7, 3:20])


@pytest.mark.parametrize("name", ["chrf", "bleu"])
def test_small_blocks_and_renumbered_ngrams_change_nothing(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    sample = texts()
    utility: Any = get_utility(name)
    expected = utility.matrix("", sample, sample)
    monkeypatch.setattr(ngrams, "BLOCK_CELLS", 100)
    monkeypatch.setattr(ngrams, "LARGEST_KEY", 10_000)
    np.testing.assert_allclose(utility.matrix("", sample, sample), expected, rtol=1e-6)


def test_thousands_of_distinct_characters_are_counted_exactly() -> None:
    draw = random.Random(2)
    han = [chr(code) for code in range(0x4E00, 0x4E00 + 3000)]
    sample = ["".join(draw.choices(han, k=900)) for _ in range(3)]
    sample.append(sample[0][:500] + sample[1][500:])
    matrix = get_utility("chrf").matrix("", sample, sample)  # type: ignore[attr-defined]
    expected = np.array([[plain("chrf", h, r) for r in sample] for h in sample])
    np.testing.assert_allclose(matrix, expected, rtol=1e-6, atol=1e-5)


def test_bleu_takes_the_tokenizers_of_sacrebleu() -> None:
    pair = ["我不知道他什么时候来。", "我不知道他来不来。"]
    matrix = get_utility("bleu", tokenize="zh").matrix("", pair, pair)  # type: ignore[attr-defined]
    assert matrix[0, 1] == pytest.approx(sacrebleu.sentence_bleu(pair[0], [pair[1]], tokenize="zh").score, rel=1e-6)
    with pytest.raises(UsageError, match="tokenizer 'x'"):
        get_utility("bleu", tokenize="x")


def test_chrf_of_real_system_outputs_is_that_of_the_wmt23_metrics_task(wmt23: Path) -> None:
    """The organisers' segment scores of chrF on WMT23 en-de, recomputed from the texts."""
    references = (wmt23 / "references" / "en-de.refA.txt").read_text(encoding="utf-8").split("\n")[:-1]
    utility: Any = get_utility("chrf")
    published: dict[str, list[float]] = {}
    for line in (wmt23 / "metric-scores" / "en-de" / "chrF-refA.seg.score").read_text().splitlines():
        system, score = line.split("\t")
        published.setdefault(system, []).append(float(score))
    for system in ("ONLINE-W", "NLLB_Greedy"):
        outputs = (wmt23 / "system-outputs" / "en-de" / f"{system}.txt").read_text(encoding="utf-8").split("\n")[:-1]
        sample = range(0, len(outputs), 10)
        mine = [utility.matrix("", [outputs[i]], [references[i]])[0, 0] for i in sample]
        np.testing.assert_allclose(mine, [published[system][i] for i in sample], rtol=1e-4, atol=1e-3)


def test_names_and_what_they_can_do() -> None:
    assert utility_names()[:3] == ["pear", "chrf", "bleu"]
    assert utility_class("pear").capabilities() == ("pairwise", "antisymmetric", "referenceless")
    assert utility_class("chrf").capabilities() == ("lexical",)


def test_unknown_names_and_options_are_usage_errors() -> None:
    with pytest.raises(UsageError, match="pear, chrf, bleu"):
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
