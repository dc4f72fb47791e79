"""RESUME on COMET's architecture: every text encoded alone; trained, kept, loaded and refused as other models are."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from candidates.common.errors import ModelError, UsageError
from pear import ResumeMetric
from pear.checkpoint import load_checkpoint, save_checkpoint
from pear.model import CometResumeNetwork, HeadConfig
from pear.training.origin import Origin
from pear.training.start import begin
from tests.conftest import Run
from tests.pear.test_train_command import QUICK, judgments
from tests.support.random_pear import random_checkpoint
from tests.support.tiny import RESUME_HEAD, SHAPE

ROWS = [
    ("A dog runs.", "Ein Hund läuft.", "Der Hund rennt schnell davon."),
    ("It rains.", "Es regnet.", ""),
    ("Good night!", "Nacht!", "Gute Nacht!"),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("comet")
    head = replace(RESUME_HEAD, architecture="comet")
    save_checkpoint(random_checkpoint(root / "scratch", kind="resume", head=head, **SHAPE), root / "model")
    return root / "model"


def by_hand(folder: Path, row: tuple[str, ...]) -> float:
    checkpoint = load_checkpoint(folder, kind="resume")
    vectors = []
    with torch.inference_mode():
        for text in row:
            ids = checkpoint.tokenizer(text, return_tensors="pt")["input_ids"]  # with start and end
            vectors.append(checkpoint.network.encoder(input_ids=ids).last_hidden_state[0].mean(dim=0))
        s, r, c = vectors
        features = torch.cat([c, r, c * r, (c - r).abs(), c * s, (c - s).abs()])
        return float(checkpoint.network.head(features[None])[0, 0])


def test_scores_are_those_of_texts_encoded_alone(folder: Path) -> None:
    with ResumeMetric.load(folder, device="cpu") as metric:
        assert isinstance(load_checkpoint(folder, kind="resume").network, CometResumeNetwork)
        scores = metric.score(ROWS)
        one_by_one = [metric.score([row])[0] for row in ROWS]
    assert scores == pytest.approx([by_hand(folder, row) for row in ROWS], abs=1e-5)
    assert scores == pytest.approx(one_by_one, abs=1e-5)  # padding changes nothing
    assert np.abs(scores).max() <= 1


def test_ctranslate2_runs_it_too(folder: Path) -> None:
    with ResumeMetric.load(folder, device="cpu", backend="ct2", compute_type="float32") as metric:
        assert metric.score(ROWS) == pytest.approx([by_hand(folder, row) for row in ROWS], abs=1e-3)


def test_settings_of_other_models_do_not_name_an_architecture(folder: Path) -> None:
    assert "architecture" not in HeadConfig().to_dict()
    assert load_checkpoint(folder, kind="resume").network.config.architecture == "comet"
    with pytest.raises(ModelError, match="architecture 'bleurt' is unknown; expected one of unified, comet"):
        HeadConfig.from_dict({"architecture": "bleurt"})
    with pytest.raises(UsageError, match="the model has the architecture comet, not unified"):
        begin("resume", Origin(model=str(folder), architecture="unified"))


def test_it_is_trained_by_a_flag(warm: Run, tmp_path: Path) -> None:
    data = judgments(tmp_path / "data.jsonl")
    words = ("pear-train", "--data", data, *QUICK, "--architecture", "comet", "--dev-share", "0.2", "--device", "cpu")
    trained = warm(*words, "--kind", "resume", "--score-range", "-25", "0", "-o", "model")
    assert trained.returncode == 0, trained.stderr
    with ResumeMetric.load(tmp_path / "model", device="cpu") as metric:
        assert metric.score(ROWS) == pytest.approx([by_hand(tmp_path / "model", row) for row in ROWS], abs=1e-5)
    refused = warm(*words, "-o", "other")
    assert refused.returncode == 2
    assert "--architecture has no meaning for --kind pear" in refused.stderr
