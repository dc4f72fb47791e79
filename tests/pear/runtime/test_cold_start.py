"""What a process imports before it scores, and what it holds of its weights: nothing that it does not need."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from pear.checkpoint import load_checkpoint
from tests.support.random_comet import write_random_comet

# Of torch, too: its compiler takes longer to import than all the rest of it.
SLOW = ("transformers", "sklearn", "pandas", "torch._dynamo", "sympy", "huggingface_hub", "ctranslate2.converters")
CHECK = (
    f"\nimport sys; sys.stderr.write('imported:' + ','.join(name for name in {SLOW!r} if name in sys.modules))"
    "\nimport gc, os; gc.freeze(); sys.stdout.flush(); sys.stderr.flush(); os._exit(0)"
)


def imported_by(program: str, cwd: Path) -> str:
    done = subprocess.run([sys.executable, "-c", program + CHECK], capture_output=True, text=True, cwd=cwd, check=False)
    assert done.returncode == 0, done.stderr
    return done.stderr.rpartition("imported:")[2]


def test_scoring_with_every_family_imports_nothing_slow(ours: Path, released: Path, tmp_path: Path) -> None:
    from tests.support.random_metrics import write_random_bleurt, write_random_metricx

    comet = write_random_comet(tmp_path / "comet", layers=1)
    kiwi = write_random_comet(tmp_path / "kiwi", kind="unified_metric", layers=1, input_segments=["mt", "src"])
    xcomet = write_random_comet(tmp_path / "xcomet", kind="xcomet_metric", layers=1, encoder="xlm-roberta-xl")
    bleurt = write_random_bleurt(tmp_path / "bleurt")
    metricx = write_random_metricx(tmp_path / "metricx", layers=1)
    program = f"""
import pear
from mbr.metrics import get_metric
from pear.scorer import Scorer
for folder in ({str(ours)!r}, {str(released)!r}):
    Scorer.load(folder, device="cpu").engine.score([("A dog.", "Ein Hund.", "Der Hund.")])
metric = pear.load_metric({str(released)!r})
pear.score_pairwise(metric, ["A dog."], ["Ein Hund."], ["Der Hund."], gpus=0, progress_bar=False)
for name, model in (("comet", {str(comet)!r}), ("xcomet", {str(xcomet)!r}), ("bleurt", {str(bleurt)!r})):
    get_metric(name, model=model, device="cpu").score([("A dog.", "Ein Hund.", "Der Hund.")])
get_metric("xcomet", model={str(xcomet)!r}, device="cpu").spans([("A dog.", "Ein Hund.", "Der Hund.")])
get_metric("cometkiwi", model={str(kiwi)!r}, device="cpu").score([("A dog.", "Ein Hund.")])
get_metric("metricx", model={str(metricx)!r}, device="cpu").score([("A dog.", "Ein Hund.")])
"""
    assert imported_by(program, tmp_path) == ""


@pytest.mark.one_world
@pytest.mark.parametrize(
    ("words", "heavy"),
    [
        (["--utility", "pear", "--nbest", "5"], "torch"),
        (["--utility", "chrf", "--candidates", "lists.jsonl"], ""),
        (["--utility", "chrf", "--nbest", "5"], ""),
    ],
    ids=" ".join,
)
def test_mbr_decode_imports_what_it_needs(words: list[str], heavy: str, tmp_path: Path) -> None:
    record = {"source": "A dog.", "candidates": [{"text": text} for text in ("Ein Hund.", "Hund.", "Der Hund.")]}
    (tmp_path / "lists.jsonl").write_text(json.dumps(record) + "\n")
    (tmp_path / "text").write_text("A dog.\n")
    program = f"""
import os, sys
os.dup2(os.open("text", os.O_RDONLY), 0)
sys.argv = ["mbr-decode", *{words!r}]
from candidates.command.launch import start
try:
    start("mbr-decode")
except SystemExit as exc:
    assert not exc.code
assert ("torch" in sys.modules) == {heavy == "torch"}
"""
    assert imported_by(program, tmp_path) == ""


def places_in(file: Path) -> list[range]:
    """Addresses at which this process has a file mapped."""
    places = []
    for line in Path("/proc/self/maps").read_text().splitlines():
        if line.endswith(f" {file}"):
            begin, end = (int(address, 16) for address in line.split()[0].split("-"))
            places.append(range(begin, end))
    return places


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="the system does not list what is mapped")
def test_float32_weights_are_mapped_and_not_copied(ours: Path, released: Path) -> None:
    """So that a second process shares the pages of the first."""
    for folder, file in ((ours, "model.safetensors"), (released, "checkpoints/model.ckpt")):
        network: Any = load_checkpoint(folder).network
        places = places_in((folder / file).resolve())
        weights = [weight for weight in network.parameters() if weight.numel() > 1]
        assert places
        assert all(any(weight.data_ptr() in place for place in places) for weight in weights)


def test_an_encoder_without_weights_takes_no_memory(ours: Path) -> None:
    from pear.runtime.encoders import empty_encoder

    assert all(weight.device == torch.device("meta") for weight in empty_encoder(ours).parameters())


def test_the_name_of_a_model_is_the_same_with_transformers_encoder(ours: Path) -> None:
    from pear.runtime.encoders import fingerprint

    plain, library = load_checkpoint(ours), load_checkpoint(ours, trainable=True)
    assert type(plain.network.encoder) is not type(library.network.encoder)
    assert plain.name == library.name
    assert fingerprint(plain.network, plain.tokenizer) == plain.name.split("@")[1]
    ids = torch.tensor([[0, 5, 6, 7, 2]])
    with torch.inference_mode():
        states = [c.network.encode(ids, torch.ones_like(ids)).numpy() for c in (plain, library)]
    np.testing.assert_allclose(*states, atol=1e-5)
