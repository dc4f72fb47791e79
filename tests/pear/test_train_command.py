"""pear-train as a user meets it: files in, a model folder out, and what is said of bad input."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pear.checkpoint import load_checkpoint, save_released
from pear.engine import Engine
from tests.conftest import Run, write_jsonl

pytestmark = pytest.mark.one_world

SIZES = ["--layers", "1", "--hidden", "32", "--heads", "2", "--vocabulary", "300", "--hidden-sizes", "16"]
RATES = ["--encoder-rate", "1e-3", "--head-rate", "1e-3", "--batch-tokens", "256", "--every", "3", "--steps", "6"]
QUICK = [*SIZES, *RATES]
NOUNS = [("dog", "Hund"), ("cat", "Kater"), ("tree", "Baum"), ("man", "Mann"), ("car", "Wagen"), ("fish", "Fisch")]


def judgments(path: Path, *, rising: float = 1.0) -> Path:
    rows = []
    for english, german in NOUNS:
        for verb, deutsch in (("sleeps", "schläft"), ("runs", "läuft"), ("is old", "ist alt"), ("sings", "singt")):
            rows.append(
                {
                    "source": f"The {english} {verb}.",
                    "lp": "en-de",
                    "reference": f"Der {german} {deutsch}.",
                    "candidates": [
                        {"text": f"Der {german} {deutsch}.", "score": 0.0},
                        {"text": f"Das {german} {deutsch}.", "score": -1.0 * rising},
                        {"text": f"Der {german}.", "score": -5.0 * rising},
                        {"text": f"The {english} {verb}.", "score": -25.0 * rising},
                    ],
                }
            )
    return write_jsonl(path, rows)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return judgments(tmp_path / "data.jsonl")


def test_a_trained_model_is_a_model_like_any_other(run: Run, warm: Run, data: Path, tmp_path: Path) -> None:
    result = run("pear-train", "--data", data, *QUICK, "--pretrain-data", data, "--dev-share", "0.2", "-o", "model")
    assert result.returncode == 0, result.stderr
    assert result.stdout == ""
    assert re.search(r"en-de +\d+ +\d+ +\d+ +0", result.stderr), result.stderr  # the statistics
    folder = tmp_path / "model"
    card = (folder / "README.md").read_text(encoding="utf-8")
    assert "pear-train --data" in card
    assert "data.jsonl" in card
    assert "| stage-2 |" in card
    assert "<polyline" in (folder / "loss.svg").read_text(encoding="utf-8")
    facts = json.loads((folder / "training.json").read_text(encoding="utf-8"))
    assert facts["recipe"]["stage-1"]["learn_scale"] is False
    assert facts["recipe"]["stage-2"]["learn_scale"] is True
    assert [line["step"] for line in facts["log"]["stage-2"]] == [3, 6]
    (tmp_path / "pairs.tsv").write_text(
        "src\tmt_0\tmt_1\nThe dog runs.\tDer Hund läuft.\tThe dog runs.\n", encoding="utf-8"
    )
    scored = warm("pear-score", "pairs.tsv", "--model", folder, "--device", "cpu")
    assert scored.returncode == 0, scored.stderr


def test_a_trained_model_survives_the_released_layout(warm: Run, data: Path, tmp_path: Path) -> None:
    assert warm("pear-train", "--data", data, *QUICK, "-o", "model", "--quiet").returncode == 0
    trained = load_checkpoint(tmp_path / "model")
    save_released(trained, tmp_path / "released")
    again = load_checkpoint(tmp_path / "released")
    triples = [("The dog runs.", "Der Hund läuft.", "Der Hund."), ("A", "", "😀 " * 200)]
    scores = [Engine(c.network, c.tokenizer, device="cpu").score(triples) for c in (trained, again)]
    np.testing.assert_array_equal(*scores)


def test_training_goes_on_from_a_model_of_another_kind(warm: Run, data: Path, tmp_path: Path) -> None:
    assert warm("pear-train", "--data", data, *QUICK, "-o", "one", "--quiet").returncode == 0
    result = warm("pear-train", "--data", data, *RATES, "--from", "one", "--kind", "single", "-o", "two", "--quiet")
    assert result.returncode == 0, result.stderr
    assert load_checkpoint(tmp_path / "two", kind="single").network.kind == "single"
    result = warm(
        "pear-train",
        "--data",
        data,
        *RATES,
        "--hidden-sizes",
        "16",
        "--from",
        "one",
        "--kind",
        "resume",
        "--score-range",
        "-25",
        "0",
        "-o",
        "three",
    )
    assert result.returncode == 0, result.stderr
    network = load_checkpoint(tmp_path / "three", kind="resume").network
    assert network.config.hidden_sizes == (16,)


def test_a_killed_run_goes_on_to_the_same_weights(run: Run, warm: Run, data: Path, tmp_path: Path) -> None:
    words: list[Any] = ["pear-train", "--data", data, *QUICK, "--steps", "12", "--threads", "1", "--quiet"]
    assert warm(*words, "-o", "whole").returncode == 0
    program = Path(sys.executable).with_name("pear-train")
    killed = subprocess.Popen([program, *map(str, words[1:]), "-o", "cut"], cwd=tmp_path)
    checkpoint = tmp_path / "cut.training" / "stage-2" / "checkpoint.pt"
    for _ in range(3000):
        if checkpoint.exists() or killed.poll() is not None:
            break
        time.sleep(0.02)
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    if not (tmp_path / "cut").exists():  # the kill came in time
        refused = warm(*words, "-o", "cut")
        assert refused.returncode == 2
        assert "--resume" in refused.stderr
        result = run(*words, "-o", "cut", "--resume")
        assert result.returncode == 0, result.stderr
    one, other = (tmp_path / name / "model.safetensors" for name in ("whole", "cut"))
    assert one.read_bytes() == other.read_bytes()


def test_a_trained_metric_is_no_encoder(warm: Run, data: Path, ours: Path) -> None:
    result = warm("pear-train", "--data", data, "--steps", "2", "--from-encoder", ours, "-o", "model")
    assert result.returncode == 4, result.stderr
    assert "--from" in result.stderr


def test_a_run_file_holds_the_options(warm: Run, data: Path, tmp_path: Path) -> None:
    settings = "data: [data.jsonl]\nlayers: 1\nhidden: 32\nheads: 2\nvocabulary: 300\nhidden-sizes: [16]\nsteps: 9\n"
    (tmp_path / "run.yaml").write_text(
        settings + "batch-tokens: 256\nlearn-scale: false\ngradient-checkpointing: true\noutput: model\n"
    )
    result = warm("pear-train", "--steps", "4", "run.yaml", "--quiet")
    assert result.returncode == 0, result.stderr
    facts = json.loads((tmp_path / "model" / "training.json").read_text(encoding="utf-8"))
    assert facts["recipe"]["stage-2"]["learn_scale"] is False
    assert facts["recipe"]["stage-2"]["gradient_checkpointing"] is True
    assert facts["log"]["stage-2"][-1]["step"] == 4


def test_the_statistics_are_data(run: Run, data: Path) -> None:
    result = run("pear-train", "--data", data, "--statistics-only")
    assert result.returncode == 0, result.stderr
    assert "en-de" in result.stdout
    assert "absolute differences" in result.stdout


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ([], 2, "give --data"),
        (["--data", "data.jsonl"], 2, "-o FOLDER"),
        (["--data", "none.csv", "-o", "model"], 3, "none.csv"),
        (["--data", "data.jsonl", "-o", "data.jsonl"], 2, "data.jsonl is a file; expected the name of a folder"),
        (["--data", "data.jsonl", "-o", "model", "--kind", "resume"], 3, "--score-range"),
        (["--data", "data.jsonl", "-o", "model", "--score-range", "0", "-25"], 2, "the worst score first and lower"),
        (["--data", "data.jsonl", "-o", "model", "--from", "a", "--from-encoder", "b"], 2, "not with both"),
        (["--data", "data.jsonl", "-o", "model", "--from-encoder", "./nowhere"], 4, "nowhere"),
        (["--data", "data.jsonl", "-o", "model", "--from-translator", "."], 4, "CTranslate2"),
        (["--data", "data.jsonl", "-o", "model", "--from-translator", ".", "."], 4, "CTranslate2"),
        (["--data", "data.jsonl", "-o", "model", "--from-translator", ".", ".", "."], 2, "one, or two"),
        (["--data", "data.jsonl", "-o", "model", "--batch-tokens", "0"], 2, "batch_tokens"),
        (["--data", "data.jsonl", "-o", "model", "--word-weight", "1"], 3, "numbers for its words"),
        (["--data", "one.jsonl", "-o", "model"], 3, "two judged translations"),
        (["missing.yaml"], 3, "missing.yaml"),
        (["--data", "data.jsonl", "-o", "model", "--heads", "0"], 2, "heads"),
        (["--data", "data.jsonl", "-o", "model", "--vocabulary", "20"], 3, "vocabulary"),
        (["--data", "data.jsonl", "-o", "model", "--epochs", "nan"], 2, "epochs"),
        (["--data", "data.jsonl", "-o", "model", "--score-range", "-5", "0"], 3, "outside the range"),
        (["--data", "data.jsonl", "-o", "model", "--from", "en-de"], 2, "is for a model from scratch"),
        (["--data", "data.jsonl", "-o", "model", "--kind", "single", "--flip", "0.5"], 2, "no meaning"),
    ],
)
def test_bad_input_is_named(warm: Run, data: Path, tmp_path: Path, words: list[str], code: int, said: str) -> None:
    write_jsonl(
        tmp_path / "one.jsonl", [{"source": f"The dog {k}.", "translation": "Ein Hund.", "score": 1} for k in range(9)]
    )
    settings = RATES if "--from-encoder" in words or "--from-translator" in words else QUICK
    result = warm("pear-train", *(settings if "-o" in words else []), *words)
    assert result.returncode == code, result.stderr
    assert said in result.stderr
    assert "Traceback" not in result.stderr
    assert not (tmp_path / "model").exists()
