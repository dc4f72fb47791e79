"""Training of metrics: what is learned, runs that are cut in two or shared by processes, and what is measured."""

from __future__ import annotations

import copy
import itertools
import json
import math
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from candidates.common.errors import InputError, ModelError, UsageError
from pear.checkpoint import Checkpoint
from pear.data import split
from pear.serialize import Layout
from pear.training import loop
from pear.training.batches import Batcher, word_numbers
from pear.training.examples import Example, examples
from pear.training.loop import BEST, CHECKPOINT, LOG, predict, train
from pear.training.parallel import Alone, open_parallel
from pear.training.recipe import KINDS, Recipe
from pear.training.statistics import Pairs, acc_eq, pdp, segment_pearson
from tests.conftest import ROOT
from tests.pear.training_processes import RECIPE, RUNS, judged, tiny, trained

pytestmark = pytest.mark.one_world

BUNDLED = ROOT / "candidates" / "bundled" / "en-de"
ALONE = replace(RECIPE, accumulate=1)
GROUPS = judged(64, seed=1, candidates=2)  # 64 pairs, every epoch the same


@pytest.fixture(scope="module", autouse=True)
def one_thread(quiet_machine: None) -> None:
    torch.set_num_threads(1)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Checkpoint:
    return tiny(tmp_path_factory.mktemp("tokenizer"))


@pytest.fixture
def start(model: Checkpoint) -> Checkpoint:
    """A copy to train."""
    return copy.deepcopy(model)


def log(work: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (work / LOG).read_text().splitlines()]


def weights(checkpoint: Checkpoint) -> dict[str, torch.Tensor]:
    return {name: weight.clone() for name, weight in checkpoint.network.state_dict().items()}


def farthest(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> float:
    """The largest difference. Biases of attention's keys are left out: no score hangs on them, their gradients are
    rounding errors, and AdamW makes steps of full size out of these."""
    assert one.keys() == other.keys()
    return max(float((one[name] - other[name]).abs().max()) for name in one if not name.endswith("key.bias"))


# --- what is learned


def test_a_tiny_model_learns_64_pairs_by_heart(start: Checkpoint, tmp_path: Path) -> None:
    train(replace(ALONE, steps=None, epochs=20, every=20, batch_tokens=600), start, GROUPS, [], tmp_path)
    losses = [line["loss"] for line in log(tmp_path)]
    assert losses[-1] < 0.05 * losses[0]


def test_the_flip_term_makes_both_orders_agree(start: Checkpoint, tmp_path: Path) -> None:
    def asymmetry(flip: float) -> float:
        recipe = replace(ALONE, flip=flip, steps=15, batch_tokens=1200 if flip else 600)
        trained = train(recipe, copy.deepcopy(start), GROUPS, [], tmp_path / str(flip))
        texts = [(p.source, p.candidates[0].translation, p.candidates[1].translation) for p in GROUPS]
        batcher = Batcher(start.tokenizer, _layout(start), 4000, use_words=False)
        learner = loop.Learner(trained.network, 0)
        forward = predict(learner, batcher, texts, Alone())
        backward = predict(learner, batcher, [(s, b, a) for s, a, b in texts], Alone())
        return float(np.abs(forward + backward).mean())

    assert asymmetry(1.0) < 0.7 * asymmetry(0.0)


@pytest.mark.parametrize("settings", [{"loss": "mse"}, {"loss": "huber"}, {"optimizer": "muon"}], ids=str)
def test_losses_and_optimizers_all_learn(settings: dict[str, Any], start: Checkpoint, tmp_path: Path) -> None:
    train(replace(ALONE, steps=20, every=4, **settings), start, GROUPS, [], tmp_path)
    losses = [line["loss"] for line in log(tmp_path)]
    assert losses[-1] < losses[0]


def test_a_frozen_scale_stays_and_a_learned_one_moves(start: Checkpoint, tmp_path: Path) -> None:
    for learn_scale in (False, True):
        fresh = copy.deepcopy(start)
        before = weights(fresh)["head._alpha_raw"]
        result = train(replace(ALONE, steps=3, learn_scale=learn_scale), fresh, GROUPS, [], tmp_path / str(learn_scale))
        assert torch.equal(before, weights(result)["head._alpha_raw"]) is not learn_scale


def test_a_frozen_encoder_stays_until_its_share_of_the_first_epoch(start: Checkpoint, tmp_path: Path) -> None:
    recipe = replace(ALONE, steps=None, epochs=1, freeze_encoder=0.5)
    steps = loop._Run(recipe, copy.deepcopy(start), GROUPS, [], tmp_path / "count", Alone()).steps
    before = weights(start)

    def moved(count: int) -> set[str]:
        result = train(replace(recipe, steps=count), copy.deepcopy(start), GROUPS, [], tmp_path / str(count))
        return {name.split(".")[0] for name, weight in weights(result).items() if not torch.equal(weight, before[name])}

    assert moved(steps // 2) == {"head"}
    assert moved(steps // 2 + 2) == {"head", "encoder"}


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


def test_a_network_of_another_kind_is_refused(start: Checkpoint, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="the network is a pear, the recipe wants a single"):
        train(replace(ALONE, kind="single"), start, GROUPS, [], tmp_path)


def test_resume_needs_scores_from_0_to_1_and_references(start: Checkpoint, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"scores from 0 to 1, and found -.*--score-range"):
        train(replace(ALONE, kind="resume"), start, GROUPS, [], tmp_path)
    with pytest.raises(InputError, match="needs references"):
        train(replace(ALONE, kind="resume"), start, [replace(GROUPS[0], reference=None)], [], tmp_path)


def test_two_batches_of_a_step_teach_what_one_of_all_their_rows_does(start: Checkpoint, tmp_path: Path) -> None:
    """The loss is a mean over the rows of a step, however they are divided."""
    results = []
    for number, parts in enumerate(((8,), (4, 4), (7, 1))):
        run = loop._Run(ALONE, copy.deepcopy(start), GROUPS, [], tmp_path / str(number), Alone())
        (rows,) = examples(ALONE, GROUPS[:8], 0)
        ends = list(itertools.accumulate(parts))
        run.learn([(rows[end - size : end], True) for size, end in zip(parts, ends, strict=True)])
        results.append(dict(run.learner.network.state_dict()))
    assert farthest(results[0], results[1]) < 1e-5
    assert farthest(results[0], results[2]) < 1e-5


def test_gradient_checkpointing_computes_layers_twice_and_learns_the_same(tmp_path: Path) -> None:
    results, calls = [], []
    for on in (False, True):
        fresh = tiny(tmp_path / "tokenizer", model_type="xlm-roberta-xl")
        calls.append(0)

        def count(*args: Any) -> None:
            calls[-1] += 1

        fresh.network.encoder.encoder.layer[0].intermediate.register_forward_hook(count)
        recipe = replace(ALONE, steps=2, gradient_checkpointing=on)
        results.append(weights(train(recipe, fresh, GROUPS, [], tmp_path / str(on))))
    assert calls == [2, 4]
    assert farthest(*results) < 1e-6


# --- selection


def test_the_best_weights_are_returned_and_not_the_last(
    start: Checkpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = {}

    def measure(self: Any) -> dict[str, float]:
        seen[self.place.step] = {name: w.clone() for name, w in self.learner.network.state_dict().items()}
        return {"acc_eq": {2: 0.5, 4: 0.9, 6: 0.7, 8: 0.9}[self.place.step], "pdp": 0.0}

    monkeypatch.setattr(loop._Run, "measure", measure)
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


def test_training_and_development_share_no_source() -> None:
    groups = judged(200, seed=1)
    dressed = [replace(g, source="  ".join(g.source.upper().split()), document="2") for g in groups]
    learned, measured = split([*groups, *dressed], 0.3, seed=1)
    sources = [{" ".join(g.source.casefold().split()) for g in side} for side in (learned, measured)]
    assert not sources[0] & sources[1]
    assert 0.2 < len(measured) / 400 < 0.4


# --- runs that are cut in two

KILLED = """
import os, signal, sys
from pathlib import Path
from tests.pear.test_training import CUT, GROUPS, loop, tiny, torch
torch.set_num_threads(1)
save = loop._Run._save

def save_or_die(self, state):
    if self.place.step == 12:  # the log has its line, the best weights may be new, the checkpoint is old
        os.kill(os.getpid(), signal.SIGKILL)
    save(self, state)

loop._Run._save = save_or_die
loop.train(CUT, tiny(Path(sys.argv[1], "tokenizer"), dropout=0.1), GROUPS, GROUPS[:6], Path(sys.argv[1], "cut"))
"""
CUT = replace(ALONE, steps=18, every=6, accumulate=2)


def test_a_killed_run_goes_on_as_if_it_had_not_been(tmp_path: Path) -> None:
    command = [sys.executable, "-c", KILLED, str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, env={**os.environ, "OMP_NUM_THREADS": "1"}, capture_output=True)
    assert done.returncode == -signal.SIGKILL, done.stderr.decode()
    assert [line["step"] for line in log(tmp_path / "cut")] == [6, 12]
    results = {}
    for name in ("whole", "cut"):
        fresh = tiny(tmp_path / "tokenizer", dropout=0.1)
        results[name] = weights(train(CUT, fresh, GROUPS, GROUPS[:6], tmp_path / name))
    whole, cut = (torch.load(tmp_path / name / CHECKPOINT, weights_only=True) for name in ("whole", "cut"))
    assert cut["place"]["epoch"] > 0  # pairs were drawn anew on the way
    assert all(torch.equal(whole["learner"][name], weight) for name, weight in cut["learner"].items())
    assert all(torch.equal(results["whole"][name], weight) for name, weight in results["cut"].items())
    times = ("seconds", "tokens_per_second")
    lines = [
        [{k: v for k, v in line.items() if k not in times} for line in log(tmp_path / n)] for n in ("whole", "cut")
    ]
    assert lines[0] == lines[1]
    assert len(lines[0]) == 3


def test_a_checkpoint_of_another_run_is_refused(start: Checkpoint, tmp_path: Path) -> None:
    recipe = replace(ALONE, steps=2)
    train(recipe, copy.deepcopy(start), GROUPS, [], tmp_path)
    for other, groups, said in (
        (replace(recipe, flip=0.2, seed=2), GROUPS, "flip was 0.1, is 0.2; seed was 1, is 2"),
        (recipe, judged(64, seed=2, candidates=2), "the data are not the same"),
    ):
        with pytest.raises(UsageError, match=f"another run \\({said}.*another folder"):
            train(other, copy.deepcopy(start), groups, [], tmp_path)
    larger = tiny(tmp_path / "tokenizer", model_type="xlm-roberta-xl")
    with pytest.raises(UsageError, match="another network than this run begins with"):
        train(recipe, larger, GROUPS, [], tmp_path)


@pytest.mark.parametrize("damage", [lambda c: c[: len(c) // 2], lambda c: b"", lambda c: b"no checkpoint" * 99])
@pytest.mark.parametrize("name", [CHECKPOINT, BEST])
def test_a_damaged_file_is_named(name: str, damage: Any, start: Checkpoint, tmp_path: Path) -> None:
    recipe = replace(ALONE, steps=1)
    train(recipe, copy.deepcopy(start), GROUPS, [], tmp_path)
    file = tmp_path / name
    file.write_bytes(damage(file.read_bytes()))
    with pytest.raises(ModelError, match=rf"{name}: cannot be read as a file of a training run.*train anew"):
        train(recipe, copy.deepcopy(start), GROUPS, [], tmp_path)


def test_a_loss_that_is_no_number_stops_the_run_and_spoils_nothing(
    start: Checkpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = itertools.count(1)
    plain = loop.losses

    def poisoned(*args: Any) -> Any:
        main, flip = plain(*args)
        return main * (math.nan if next(calls) == 4 else 1), flip

    recipe = replace(ALONE, steps=6, every=2)
    monkeypatch.setattr(loop, "losses", poisoned)
    with pytest.raises(ModelError, match=r"gradient of step 4 has norm nan.*of step 2, are in .*lower encoder_rate"):
        train(recipe, copy.deepcopy(start), GROUPS, [], tmp_path)
    assert all(bool(w.isfinite().all()) for w in torch.load(tmp_path / BEST, weights_only=True).values())
    assert torch.load(tmp_path / CHECKPOINT, weights_only=True)["place"]["step"] == 2


def test_weights_that_explode_are_noticed(start: Checkpoint, tmp_path: Path) -> None:
    for every in (1, 10):
        recipe = replace(ALONE, steps=10, every=every, encoder_rate=1e37, head_rate=1e37)
        with pytest.raises(ModelError, match="training has diverged; nothing is in"):
            train(recipe, copy.deepcopy(start), GROUPS, GROUPS[:4], tmp_path / str(every))


# --- several processes


@pytest.fixture(scope="module")
def processes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Results of two processes, after one began what they go on with."""
    folder = tmp_path_factory.mktemp("processes")
    recipe = replace(RECIPE, every=2, steps=4)
    for mode in ("ddp", "fsdp"):
        run = loop._Run(recipe, tiny(folder / "begun"), judged(30, seed=3), [], folder / f"continued-{mode}", Alone())
        for step in itertools.islice(run.remaining(), 2):
            run.learn(step)
        run.measure_and_save()
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    command += [str(ROOT / "tests" / "pear" / "training_processes.py"), str(folder)]
    env = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, timeout=900)
    assert done.returncode == 0, done.stderr.decode()
    return folder


@pytest.mark.parametrize("name", RUNS)
def test_two_processes_learn_what_one_does(name: str, processes: Path, tmp_path: Path) -> None:
    alone = trained(name, tmp_path, None)
    begun = weights(tiny(tmp_path / "tokenizer", model_type=RUNS[name][0]))
    assert farthest(alone, begun) > 1e-3
    for rank in range(2):
        together = torch.load(processes / f"{name}-{rank}.pt", weights_only=True)
        assert farthest(alone, together) < (1e-5 if name.startswith("ddp") else 1e-4)
    [one], [two] = log(tmp_path / name), log(processes / name)
    for value in ("loss", "flip", "words", "gradient", "dev_acc_eq", "dev_pdp"):
        assert one.get(value) == pytest.approx(two.get(value), abs=1e-4)


@pytest.mark.parametrize("mode", ["ddp", "fsdp"])
def test_two_processes_go_on_with_what_one_began(mode: str, processes: Path, start: Checkpoint, tmp_path: Path) -> None:
    recipe = replace(RECIPE, every=2, steps=4)
    first = train(recipe, start, judged(30, seed=3), [], tmp_path / "first")
    continued = torch.load(processes / f"continued-{mode}.pt", weights_only=True)
    assert farthest(weights(first), continued) < 1e-4
    second = train(replace(recipe, steps=2), first, judged(30, seed=3), [], tmp_path / "second")
    assert farthest(weights(second), continued) > 1e-3
    assert farthest(weights(second), torch.load(processes / f"second-{mode}.pt", weights_only=True)) < 1e-4
    assert [line["step"] for line in log(processes / f"continued-{mode}")] == [2, 4]


def test_one_process_reads_the_checkpoints_of_two(processes: Path, tmp_path: Path) -> None:
    """Weights and optimizer states of divided networks are written whole."""
    for name in ("ddp", "fsdp-xl"):
        trained(name, tmp_path, None)
        alone, together = (torch.load(at / name / CHECKPOINT, weights_only=True) for at in (tmp_path, processes))
        assert farthest(alone["learner"], together["learner"]) < 1e-4
        for one, two in zip(alone["optimizers"], together["optimizers"], strict=True):
            assert one["param_groups"] == two["param_groups"]
            assert one["state"].keys() == two["state"].keys()
            for number, values in one["state"].items():
                for key, value in values.items():
                    assert torch.allclose(value, two["state"][number][key], atol=1e-5), (number, key)


def test_what_processes_cannot_do_is_said_by_each(processes: Path) -> None:
    for rank in range(2):
        for mode in ("ddp", "fsdp"):
            assert "set accumulate to 2" in (processes / f"refused-{mode}-few-{rank}").read_text()
        assert (processes / f"refused-ddp-muon-{rank}").read_text() == ""
        assert "muon needs whole matrices" in (processes / f"refused-fsdp-muon-{rank}").read_text()


@pytest.mark.parametrize(
    ("mode", "device", "environment", "said"),
    [
        ("pipeline", "cpu", {}, "parallel mode 'pipeline' is unknown; expected one of auto, none, ddp, fsdp"),
        ("ddp", "cpu", {}, "put torchrun"),
        ("fsdp", "cpu", {}, "put torchrun"),
        ("none", "cpu", {"RANK": "0", "WORLD_SIZE": "2"}, "would all write the same files"),
        ("auto", "mps", {"RANK": "0", "WORLD_SIZE": "2"}, "runs on cpu and cuda, not on mps"),
        ("auto", "cpu", {"RANK": "zero", "WORLD_SIZE": "2"}, "is not a number"),
        ("ddp", "cuda", {"RANK": "99", "WORLD_SIZE": "100", "LOCAL_RANK": "99"}, "has no device of its own"),
    ],
)
def test_a_parallel_mode_that_cannot_be_opened_says_why(
    mode: str, device: str, environment: dict[str, str], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(UsageError, match=said), open_parallel(mode, device):
        pass


def test_shares_are_of_one_size_and_hold_everything_once() -> None:
    for count in range(1, 9):
        shares = [Alone(rank=rank, size=3).share(range(count)) for rank in range(3)]
        assert len({len(share) for share in shares}) == 1
        assert sorted(item for share in shares for item, counts in share if counts) == list(range(count))


# --- statistics, against slow and plain computations


def random_lists(seed: int) -> tuple[list[list[float]], list[list[float]]]:
    """Predictions and judgments with many ties, segments of one translation, and constant ones."""
    draw = np.random.default_rng(seed)
    sizes = draw.integers(1, 7, 12)
    predicted = [(draw.integers(-4, 5, size) / 4).tolist() for size in sizes]
    judged_ = [(-draw.integers(0, 4, size)).astype(float).tolist() for size in sizes]
    predicted[3] = [0.5] * sizes[3]
    judged_[4] = [-1.0] * sizes[4]
    return predicted, judged_


def slow_acc_eq(predicted: list[list[float]], gold: list[list[float]]) -> float:
    def accuracy(threshold: float) -> float:
        shares = []
        for found, truth in zip(predicted, gold, strict=True):
            right = []
            for i, j in itertools.combinations(range(len(found)), 2):
                difference, wanted = found[i] - found[j], truth[i] - truth[j]
                if abs(difference) <= threshold:
                    right.append(wanted == 0)
                else:
                    right.append(difference * wanted > 0)
            if right:
                shares.append(sum(right) / len(right))
        return sum(shares) / len(shares)

    sizes = {abs(a - b) for found in predicted for a in found for b in found}
    return max(accuracy(threshold) for threshold in sizes)


@pytest.mark.parametrize("seed", range(20))
def test_statistics_equal_their_plain_definitions(seed: int) -> None:
    predicted, gold = random_lists(seed)
    pairs = Pairs.of(predicted, gold)
    assert acc_eq(pairs)[0] == pytest.approx(slow_acc_eq(predicted, gold))
    both = [
        (found[i] - found[j], truth[i] - truth[j])
        for found, truth in zip(predicted, gold, strict=True)
        for i, j in itertools.permutations(range(len(found)), 2)
    ]
    assert pdp(pairs) == pytest.approx(np.corrcoef(np.array(both).T)[0, 1])
    apart = [
        np.corrcoef(found, truth)[0, 1]
        for found, truth in zip(predicted, gold, strict=True)
        if len(set(found)) > 1 and len(set(truth)) > 1
    ]
    assert segment_pearson(predicted, gold) == pytest.approx(np.mean(apart))


@pytest.mark.parametrize("seed", range(5))
def test_a_constant_for_each_segment_changes_no_statistic(seed: int) -> None:
    predicted, gold = random_lists(seed)
    moved = [[value + 2.0**k for value in found] for k, found in enumerate(predicted)]
    assert acc_eq(Pairs.of(moved, gold)) == acc_eq(Pairs.of(predicted, gold))
    assert pdp(Pairs.of(moved, gold)) == pdp(Pairs.of(predicted, gold))
    assert segment_pearson(moved, gold) == pytest.approx(segment_pearson(predicted, gold))


@pytest.mark.parametrize("seed", range(5))
def test_a_matrix_of_differences_counts_as_the_scores_it_comes_from(seed: int) -> None:
    predicted, gold = random_lists(seed)
    matrices = [np.subtract.outer(found, found) for found in predicted]
    assert acc_eq(Pairs.of(matrices, gold)) == acc_eq(Pairs.of(predicted, gold))
    assert pdp(Pairs.of(matrices, gold)) == pdp(Pairs.of(predicted, gold))
    assert segment_pearson(matrices, gold) == pytest.approx(segment_pearson(predicted, gold))


def test_metrics_that_say_nothing_have_no_correlation_and_the_accuracy_of_all_ties() -> None:
    _, gold = random_lists(1)
    constant = [[1.0] * len(truth) for truth in gold]
    pairs = Pairs.of(constant, gold)
    ties = [
        np.mean([truth[i] == truth[j] for i, j in itertools.combinations(range(len(truth)), 2)])
        for truth in gold
        if len(truth) > 1
    ]
    assert acc_eq(pairs) == (pytest.approx(np.mean(ties)), 0.0)
    assert pdp(pairs) == segment_pearson(constant, gold) == 0.0
    nothing = Pairs.of([[1.0]], [[2.0]])
    assert acc_eq(nothing) == (0.0, 0.0)
    assert pdp(nothing) == 0.0


# --- batches


def _layout(checkpoint: Checkpoint) -> Layout:
    return Layout.of(checkpoint.tokenizer, checkpoint.network.encoder.config)


def test_batches_hold_every_example_once_within_the_budget(model: Checkpoint) -> None:
    (rows,) = examples(replace(ALONE, pairs_per_source=3), judged(40, seed=6), 0)
    for flipped, budget in ((False, 400), (True, 400), (True, 1)):
        batcher = Batcher(model.tokenizer, _layout(model), budget, use_words=False)
        planned = batcher.plan(rows, flipped=flipped, seed="1")
        assert sorted(map(repr, rows)) == sorted(repr(row) for batch in planned for row in batch)
        assert planned == batcher.plan(rows, flipped=flipped, seed="1") != batcher.plan(rows, flipped=flipped, seed="2")
        for batch in planned:
            made = batcher.lay_out(batch, flipped=flipped)
            assert len(made.ids) == len(batch) * (2 if flipped else 1)
            assert made.ids.numel() <= budget or len(batch) == 1


def test_a_flipped_row_is_the_row_with_a_and_b_swapped(model: Checkpoint) -> None:
    batcher = Batcher(model.tokenizer, _layout(model), 4000, use_words=False)
    rows = [Example(("one two", "drei", "vier fünf"), 1.0), Example(("x", "", "z z z"), -1.0)]
    both = batcher.lay_out(rows, flipped=True)
    swapped = batcher.lay_out(
        [Example((s, b, a), -t) for s, a, b, t in [(*r.texts, r.target) for r in rows]], flipped=False
    )
    assert torch.equal(both.ids[2:], swapped.ids)
    assert torch.equal(both.spans[2:], swapped.spans)
    assert both.targets.tolist() == [1.0, -1.0]


TEXTS = [
    "Tom told me.",
    "  two  spaces   here ",
    "a, b; (c) d!",
    "Zwölf Boxkämpfer, jagen!",
    "いろはに ちりぬるを",
    "x",
    "word\u00a0joined\tby other\u3000spaces",
    "ﬁne ½ ligatures…",
    "… leading … dots …",
    "emoji 😀🎉 end",
]


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("family", ["xlm-r", "translator"])
def test_every_token_belongs_to_its_word(family: str, text: str, model: Checkpoint) -> None:
    """A sentencepiece word begins with its mark for a space, alone or glued to the first piece."""
    tokenizer = model.tokenizer
    if family == "translator":
        from pear.training.translator import tokenizer_of_pieces

        tokenizer = tokenizer_of_pieces(BUNDLED / "sentencepiece.model", 256)
    tokens = tokenizer.convert_ids_to_tokens(tokenizer(text, add_special_tokens=False)["input_ids"])
    expected, word, fresh = [], -1, False
    for token in tokens:
        if token.startswith("▁"):
            word, fresh = word + (not fresh), token.strip("▁") == ""
        else:
            fresh = False
        expected.append(min(word, len(text.split()) - 1))
    assert word_numbers(text, tokenizer).tolist() == expected
    assert set(expected) == set(range(len(text.split())))


def test_targets_of_words_stand_at_their_tokens(model: Checkpoint) -> None:
    batcher = Batcher(model.tokenizer, _layout(model), 4000, use_words=True)
    words = ((1.0,), (2.0,), (3.0,))
    rows = [Example(("source", "no numbers", "Tom told me."), 0.0, (None, None, words)), Example(("a", "b", "c"), 0.0)]
    batch = batcher.lay_out(rows, flipped=True)
    assert batch.word_places is not None
    assert batch.word_targets is not None
    found: dict[float, str] = {}
    for (row, column), (number,) in zip(batch.word_places.tolist(), batch.word_targets.tolist(), strict=True):
        assert row == 0
        found[number] = found.get(number, "") + model.tokenizer.convert_ids_to_tokens([int(batch.ids[row, column])])[0]
    assert found == {1.0: "▁Tom", 2.0: "▁told", 3.0: "▁me."}


# --- an encoder that begins as a translation model's


def test_tokens_of_a_translator_are_those_of_sentencepiece_one_higher() -> None:
    import sentencepiece

    from pear.training.translator import tokenizer_of_pieces

    pieces = sentencepiece.SentencePieceProcessor(model_file=str(BUNDLED / "sentencepiece.model"))
    tokenizer = tokenizer_of_pieces(BUNDLED / "sentencepiece.model", 256)
    odd = [
        "",
        " ",
        "👨‍👩‍👧",
        "x² Ⅳ ﾊﾝｶｸ ｶﾞ",
        "zero\u200bwidth \ufeffmark",
        "a\x07b\x00c",
        "～ ~",
        "a\u200eb",
        "▁ ▁x",
        "a\r\nb",
    ]
    combining = ["e\u0301 u\u0308", "\u1100\u1161\u11a8", "a\u0085b", "\u2028x\u2029"]
    for text in [*TEXTS, *odd, *combining, *(c.translation for g in GROUPS for c in g.candidates)]:
        expected = [k + 1 for k in pieces.encode(text)]
        assert tokenizer(text, add_special_tokens=False)["input_ids"] == expected, text
    assert tokenizer("Hi")["input_ids"] == [0, *(k + 1 for k in pieces.encode("Hi")), 2]


@pytest.mark.parametrize(("quantization", "tolerance"), [("float32", 1e-5), ("int8", 0.1)])
def test_the_encoder_is_the_translators_own(quantization: str, tolerance: float, tmp_path: Path) -> None:
    import sentencepiece

    from candidates.training.export import write_translator
    from candidates.training.loop import learn_pieces
    from candidates.training.network import Sizes, Translator
    from pear.training.translator import start_from_translator
    from tests.support.random_pear import CORPUS

    file = tmp_path / "sentencepiece.model"
    learn_pieces(CORPUS * 4, 500, file)
    pieces = sentencepiece.SentencePieceProcessor(model_file=str(file))
    torch.manual_seed(1)
    sizes = Sizes(pieces.get_piece_size(), width=64, feed_forward=96, heads=2, encoder_layers=3, decoder_layers=1)
    translator = Translator(sizes).eval()
    with torch.no_grad():
        for weight in translator.parameters():
            weight.add_(0.05 * torch.randn_like(weight))
    write_translator(translator, file, tmp_path / "ct2", quantization=quantization)
    encoder, tokenizer = start_from_translator(tmp_path / "ct2")
    assert encoder.config.num_attention_heads == 2
    for text in CORPUS[:6]:
        with torch.no_grad():
            expected = translator._embed(torch.tensor([[*pieces.encode(text), 2]]))
            for layer in translator.encoder:
                expected = layer(expected)
            expected = translator.encoder_norm(expected)
            ids = torch.tensor([tokenizer(text)["input_ids"][1:]])
            found = encoder.eval()(input_ids=ids, attention_mask=torch.ones_like(ids)).last_hidden_state
        assert float((found - expected).abs().mean() / expected.abs().mean()) < tolerance
    short, _ = start_from_translator(tmp_path / "ct2", layers=2)
    assert short.config.num_hidden_layers == 2


def test_a_metric_that_begins_as_the_bundled_translator_learns(tmp_path: Path) -> None:
    from pear.model import PearNetwork
    from pear.training.translator import start_from_translator
    from tests.pear.training_processes import HEAD

    encoder, tokenizer = start_from_translator(BUNDLED, layers=1)
    torch.manual_seed(1)
    begun = Checkpoint(PearNetwork(encoder, HEAD), tokenizer, "en-de")
    train(replace(ALONE, steps=12, every=3), begun, GROUPS, [], tmp_path)
    losses = [line["loss"] for line in log(tmp_path)]
    assert losses[-1] < losses[0]


def test_a_file_that_is_no_translator_is_named(tmp_path: Path) -> None:
    from pear.training.translator import read_weights

    file = tmp_path / "model.bin"
    for content in (b"", b"no model" * 20, (BUNDLED / "model.bin").read_bytes()[:5000]):
        file.write_bytes(content)
        with pytest.raises(ModelError, match="model.bin: cannot be read as a CTranslate2 model"):
            read_weights(file)


# --- recipes


def test_the_rate_rises_and_falls() -> None:
    recipe = Recipe(warm_up=0.1)
    rates = [recipe.rate(step, 100) for step in range(100)]
    assert rates[:10] == sorted(rates[:10])
    assert rates[10] == 1.0
    assert rates[10:] == sorted(rates[10:], reverse=True)
    assert 0 < rates[-1] < 0.02
    assert {Recipe(warm_up=0.1, schedule="constant").rate(step, 100) for step in range(10, 100)} == {1.0}


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"kind": "cat"}, "kind 'cat' is unknown"),
        ({"flip": -1}, "flip -1 is not a number from 0 on"),
        ({"dev_share": 1.0}, "is not a share"),
        ({"accumulate": 0}, "is not a positive number"),
        ({"patience": 0}, "is not a positive number"),
        ({"learning_rate": 1}, "'learning_rate' is no setting of a training run"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        Recipe.from_dict(settings)
