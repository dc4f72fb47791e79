"""The stage `joint` of the bundled PEAR's training: what is hidden and exchanged, and continuing a stopped run."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from benchmarks.support.joint import JointRecipe, _Run, hidden_places, pretrain
from candidates.backends.models import BUNDLED
from candidates.common.errors import UsageError
from pear.training.translator import start_from_translator

PAIRS = [
    ("The dog runs in the park.", "Der Hund rennt im Park."),
    ("She reads a good book today.", "Sie liest heute ein gutes Buch."),
    ("We have no time for that.", "Wir haben dafür keine Zeit."),
    ("He is my best friend.", "Er ist mein bester Freund."),
] * 6
RECIPE = JointRecipe(steps=4, batch_tokens=128, warm_up=1, cool_down=0.5)


def run_of(folder: Path, recipe: JointRecipe = RECIPE) -> _Run:
    return _Run(*start_from_translator(BUNDLED / "en-de", layers=1), folder / "checkpoint.pt", recipe)


def test_about_the_wanted_share_of_content_is_hidden_and_something_in_every_pair() -> None:
    content = np.zeros((400, 30), bool)
    content[:, 1:25] = True
    places = hidden_places(content, RECIPE, np.random.default_rng(1))
    assert content[places[:, 0], places[:, 1]].all()
    assert set(places[:, 0].tolist()) == set(range(400))
    assert len(places) / content.sum() == pytest.approx(RECIPE.hidden, abs=0.05)


def test_wrong_words_are_words_of_the_same_side_and_never_hidden(tmp_path: Path) -> None:
    run = run_of(tmp_path, replace(RECIPE, replaced=0.5, swapped=0.3))
    (batch, *_) = run.batches(PAIRS, "1")
    hidden = np.array([[0, 2]])
    ids = run._with_wrong_words(batch, hidden, np.random.default_rng(1))
    changed = ids != batch.ids
    assert changed.any()
    assert not changed[0, 2]
    assert not changed[~batch.spans.any(axis=1)].any()
    for side in range(2):
        span = batch.spans[:, side]
        assert set(ids[changed & span].tolist()) <= set(batch.ids[span].tolist())


def test_swapped_words_stand_in_each_others_place(tmp_path: Path) -> None:
    run = run_of(tmp_path, replace(RECIPE, replaced=0.0, swapped=1.0))
    (batch, *_) = run.batches(PAIRS, "1")
    ids = run._with_wrong_words(batch, np.zeros((0, 2), np.int64), np.random.default_rng(1))
    assert (ids != batch.ids).any()
    assert (np.sort(ids, axis=1) == np.sort(batch.ids, axis=1)).all()


def test_a_stopped_run_continues_as_if_it_had_not_been(tmp_path: Path) -> None:
    weights = []
    for name, stops in (("whole", (4,)), ("stopped", (2, 4))):
        for stop in stops:
            encoder, tokenizer = start_from_translator(BUNDLED / "en-de", layers=1)
            run = _Run(encoder, tokenizer, tmp_path / f"{name}.pt", RECIPE)
            for batch, seed in run.remaining(PAIRS):
                run.learn(batch, seed)
                if run.step == stop:
                    run.save()
                    break
        weights.append(encoder.state_dict())
    assert all(torch.equal(weights[0][key], weights[1][key]) for key in weights[0])


def test_the_log_has_the_figures_of_the_stage_and_other_recipes_are_refused(tmp_path: Path) -> None:
    encoder, tokenizer = start_from_translator(BUNDLED / "en-de", layers=1)
    pretrain(encoder, tokenizer, PAIRS, PAIRS[:4], tmp_path, RECIPE, every=2)
    lines = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [line["step"] for line in lines] == [2, 4]
    assert {"dev_naming", "dev_named", "dev_detection", "dev_found", "dev_false_alarms"} <= set(lines[0])
    with pytest.raises(UsageError, match="another recipe"):
        run_of(tmp_path, replace(RECIPE, hidden=0.5))
