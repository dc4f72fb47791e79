"""Training of metrics: what is learned, which weights are returned, and runs that diverge."""

from __future__ import annotations

import copy
import itertools
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from candidates.common.errors import InputError, ModelError
from pear.checkpoint import Checkpoint
from pear.training import optimisation
from pear.training.batches import Batcher
from pear.training.evaluation import predict
from pear.training.learner import Learner
from pear.training.loop import TrainingRun, train
from pear.training.parallel import Alone
from pear.training.recipe import KINDS
from pear.training.work_folder import BEST, CHECKPOINT
from tests.pear.training.processes import judged, tiny
from tests.pear.training.runs import ALONE, GROUPS, layout, log, weights

pytestmark = pytest.mark.one_world


def test_a_tiny_model_learns_64_pairs_by_heart(start: Checkpoint, tmp_path: Path) -> None:
    train(replace(ALONE, steps=None, epochs=20, every=20, batch_tokens=600), start, GROUPS, [], tmp_path)
    losses = [line["loss"] for line in log(tmp_path)]
    assert losses[-1] < 0.05 * losses[0]


def test_the_flip_term_makes_both_orders_agree(start: Checkpoint, tmp_path: Path) -> None:
    def asymmetry(flip: float) -> float:
        recipe = replace(ALONE, flip=flip, steps=15, batch_tokens=1200 if flip else 600)
        trained = train(recipe, copy.deepcopy(start), GROUPS, [], tmp_path / str(flip))
        texts = [(p.source, p.candidates[0].translation, p.candidates[1].translation) for p in GROUPS]
        batcher = Batcher(start.tokenizer, layout(start), 4000, use_words=False)
        learner = Learner(trained.network, 0)
        forward = predict(learner, batcher, texts, Alone())
        backward = predict(learner, batcher, [(s, b, a) for s, a, b in texts], Alone())
        return float(np.abs(forward + backward).mean())

    assert asymmetry(1.0) < 0.7 * asymmetry(0.0)


@pytest.mark.parametrize("settings", [{"loss": "mse"}, {"loss": "huber"}, {"optimizer": "muon"}], ids=str)
def test_losses_and_optimizers_all_learn(settings: dict[str, Any], start: Checkpoint, tmp_path: Path) -> None:
    train(replace(ALONE, steps=20, every=4, **settings), start, GROUPS, [], tmp_path)
    losses = [line["loss"] for line in log(tmp_path)]
    assert losses[-1] < losses[0]


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_model_learns(kind: Any, tmp_path: Path) -> None:
    scaled = [
        replace(g, candidates=tuple(replace(c, score=1 + c.score / 5) for c in g.candidates))
        for g in judged(24, seed=5)
    ]
    recipe = replace(ALONE, kind=kind, steps=12, every=4)
    result = train(recipe, tiny(tmp_path / "tokenizer", kind=kind), scaled, scaled[:4], tmp_path / "work")
    losses = [line["loss"] for line in log(tmp_path / "work")]
    assert result.network.kind == kind
    assert losses[-1] < losses[0]


def test_numbers_of_words_are_learned_beside_the_score(start: Checkpoint, tmp_path: Path) -> None:
    groups = judged(24, seed=5, words=True)
    recipe = replace(ALONE, word_weight=1.0, steps=16, every=4, absolute_share=0.3)
    result = train(recipe, start, groups, [], tmp_path)
    losses = [line["words"] for line in log(tmp_path)]
    assert losses[-1] < losses[0]
    assert not any("words" in name for name in weights(result))
    with pytest.raises(InputError, match="no judgment has numbers for its words"):
        train(recipe, start, GROUPS, [], tmp_path / "none")


def test_resume_needs_scores_from_0_to_1_and_references(start: Checkpoint, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"scores from 0 to 1, and found -.*--score-range"):
        train(replace(ALONE, kind="resume"), start, GROUPS, [], tmp_path)
    with pytest.raises(InputError, match="needs references"):
        train(replace(ALONE, kind="resume"), start, [replace(GROUPS[0], reference=None)], [], tmp_path)


def test_the_best_weights_are_returned_and_not_the_last(
    start: Checkpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = {}

    def measure(self: Any) -> dict[str, float]:
        seen[self.place.step] = {name: w.clone() for name, w in self.learner.network.state_dict().items()}
        return {"acc_eq": {2: 0.5, 4: 0.9, 6: 0.7, 8: 0.9}[self.place.step], "pdp": 0.0}

    monkeypatch.setattr(TrainingRun, "measure", measure)
    result = weights(train(replace(ALONE, steps=8, every=2), start, GROUPS, GROUPS[:4], tmp_path))
    assert all(torch.equal(result[name], weight) for name, weight in seen[4].items())
    assert not all(torch.equal(result[name], weight) for name, weight in seen[8].items())
    assert [line["best"] for line in log(tmp_path)] == [True, True, False, False]


def test_the_run_stops_when_nothing_gets_better_and_stays_stopped(start: Checkpoint, tmp_path: Path) -> None:
    recipe = replace(ALONE, encoder_rate=0.0, head_rate=0.0, steps=40, every=2, patience=2)
    first = weights(train(recipe, copy.deepcopy(start), GROUPS, GROUPS[:6], tmp_path))
    assert [line["step"] for line in log(tmp_path)] == [2, 4, 6]
    again = weights(train(recipe, copy.deepcopy(start), GROUPS, GROUPS[:6], tmp_path))
    assert [line["step"] for line in log(tmp_path)] == [2, 4, 6]
    assert all(torch.equal(first[name], again[name]) for name in first)


def test_a_loss_that_is_no_number_stops_the_run_and_spoils_nothing(
    start: Checkpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = itertools.count(1)
    plain = optimisation.losses

    def poisoned(*args: Any) -> Any:
        parts = plain(*args)
        return {**parts, "loss": parts["loss"] * (math.nan if next(calls) == 4 else 1)}

    recipe = replace(ALONE, steps=6, every=2)
    monkeypatch.setattr(optimisation, "losses", poisoned)
    with pytest.raises(ModelError, match=r"gradient of step 4 has norm nan.*of step 2, are in .*lower encoder_rate"):
        train(recipe, copy.deepcopy(start), GROUPS, [], tmp_path)
    assert all(bool(w.isfinite().all()) for w in torch.load(tmp_path / BEST, weights_only=True).values())
    assert torch.load(tmp_path / CHECKPOINT, weights_only=True)["place"]["step"] == 2


def test_weights_that_explode_are_noticed(start: Checkpoint, tmp_path: Path) -> None:
    for every in (1, 10):
        recipe = replace(ALONE, steps=10, every=every, encoder_rate=1e37, head_rate=1e37)
        with pytest.raises(ModelError, match="training has diverged; no weights are in"):
            train(recipe, copy.deepcopy(start), GROUPS, GROUPS[:4], tmp_path / str(every))
