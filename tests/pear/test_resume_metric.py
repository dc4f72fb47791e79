"""RESUME: the fast path against the network by hand, sums with other metrics, and pear-score."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from candidates.common.errors import InputError, ModelError, UsageError
from pear import ResumeMetric, with_resume_metric
from pear.runtime.probes import PROBES
from tests.conftest import Run
from tests.support.random_pear import CORPUS
from tests.support.tiny import by_hand, tiny_model

LONG = " ".join(CORPUS)
TRIPLES = [*PROBES, (LONG, "Ein Hund.", LONG), ("A dog.", LONG, "Ein Hund."), ("", "", "")]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_model(tmp_path_factory.mktemp("resume"), "resume")


@pytest.mark.parametrize("model_type", ["xlm-roberta", "bert"])
def test_scores_are_those_of_the_network_by_hand(tmp_path: Path, model_type: str) -> None:
    folder = tiny_model(tmp_path, "resume", model_type)
    with ResumeMetric.load(folder, device="cpu", batch_tokens=100) as resume_metric:
        scores = resume_metric.score(TRIPLES)
    assert scores.dtype == np.float32
    assert np.abs(scores).max() <= 1
    assert np.std(scores) > 0.005
    np.testing.assert_allclose(scores, by_hand(folder, TRIPLES), atol=1e-5)


def word_count(sources: list[str], references: list[str], candidates: list[str], *, per: float = 1.0) -> list[float]:
    return [len(text.split()) / per for text in candidates]


def test_a_metric_with_resume_is_the_sum(folder: Path) -> None:
    triples = PROBES[:5]
    columns = [list(column) for column in zip(*triples, strict=True)]
    with ResumeMetric.load(folder, device="cpu") as resume_metric:
        residuals = resume_metric.score(triples).astype(float)
        counts = np.array(word_count(*columns), float)
        np.testing.assert_allclose(with_resume_metric(word_count, resume_metric)(*columns), counts + 0.2 * residuals)
        combined = with_resume_metric(word_count, resume_metric, weight=3)
        np.testing.assert_allclose(combined(*columns, per=2.0), counts / 2 + 3 * residuals)
        of_triples = with_resume_metric(lambda rows: [len(c.split()) for _, _, c in rows], resume_metric, 1.0)
        np.testing.assert_allclose(of_triples(triples), counts + residuals)


def test_with_resume_says_what_is_wrong(folder: Path) -> None:
    with ResumeMetric.load(folder, device="cpu") as resume_metric:
        for weight in (-0.1, float("nan"), float("inf")):
            with pytest.raises(UsageError, match="from 0 on"):
                with_resume_metric(word_count, resume_metric, weight)
        combined = with_resume_metric(word_count, resume_metric)
        with pytest.raises(InputError, match=r"\[1, 1, 2\]"):
            combined(["a"], ["b"], ["c", "d"])
        with pytest.raises(UsageError, match="2 arguments"):
            combined(["a"], ["b"])
        with pytest.raises(ModelError, match=r"\(2,\) for 1 segments"):
            with_resume_metric(lambda *texts: [1, 2], resume_metric)(["a"], ["b"], ["c"])


def test_a_closed_model_and_models_of_other_kinds(folder: Path, ours: Path, tmp_path: Path) -> None:
    with ResumeMetric.load(folder, device="cpu") as resume_metric:
        assert resume_metric.score([]).shape == (0,)
    with pytest.raises(UsageError, match="closed"):
        resume_metric.score(PROBES)
    with pytest.raises(ModelError, match="a model of kind pear; expected one of kind resume"):
        ResumeMetric.load(ours)
    with pytest.raises(ModelError, match="not a PEAR checkpoint"):
        ResumeMetric.load(tmp_path / "nowhere")


def test_pear_score_compares_with_the_reference(warm: Run, folder: Path, tmp_path: Path) -> None:
    rows = [("A dog.", "Ein Hund.", "Hund."), ("A cat.", "Eine Katze.", "")]
    (tmp_path / "t.tsv").write_text("".join("\t".join(row) + "\n" for row in [("src", "mt", "ref"), *rows]))
    result = warm("pear-score", "t.tsv", "--model", folder, "--device", "cpu")
    assert result.returncode == 0, result.stderr
    with ResumeMetric.load(folder, device="cpu") as resume_metric:
        expected = resume_metric.score([(s, r, c) for s, c, r in rows])
    lines = result.stdout.splitlines()
    assert lines[0] == "src\tmt\tref\tresume_score"
    assert lines[1:] == ["\t".join([*row, f"{x:.6f}"]) for row, x in zip(rows, expected.tolist(), strict=True)]
    assert f"mean {expected.mean():+.4f}  mt against ref  (2 segments)" in result.stderr
    named = warm("pear-score", "t.tsv", "--model", folder, "--systems", "mt", "--anchor", "ref", "--means")
    assert named.stdout.splitlines()[1].startswith("mt against ref\t")


@pytest.mark.parametrize(
    ("header", "words", "message"),
    [
        ("src\tmt_0\tmt_1", (), "no column 'ref'"),
        ("src\tmt\tref", ("--both",), "--both goes with PEAR"),
        ("src\tmt\tref", ("--anchor", "ref"), "--anchor goes with --systems"),
    ],
)
def test_pear_score_names_the_kind_and_its_columns(
    warm: Run, folder: Path, header: str, words: tuple[str, ...], message: str
) -> None:
    result = warm("pear-score", "--model", folder, *words, stdin=f"{header}\na\tb\tc\n")
    assert (result.returncode, result.stdout) == (2, "")
    assert message in result.stderr
    assert "a model of kind resume, which wants src, ref, mt" in result.stderr
