"""Several processes learn what one does."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from candidates.common.errors import UsageError
from pear.checkpoint import Checkpoint, load_checkpoint
from pear.training.learner import Learner
from pear.training.loop import TrainingRun, train
from pear.training.parallel import Alone, Sharded, open_parallel
from pear.training.work_folder import CHECKPOINT
from tests.conftest import ROOT
from tests.pear.training.processes import RECIPE, RUNS, judged, tiny, trained
from tests.pear.training.runs import farthest, log, weights

pytestmark = pytest.mark.one_world


@pytest.fixture(scope="module")
def processes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Results of two processes, after one began what they go on with."""
    folder = tmp_path_factory.mktemp("processes")
    recipe = replace(RECIPE, every=2, steps=4)
    for mode in ("ddp", "fsdp"):
        run = TrainingRun(recipe, tiny(folder / "begun"), judged(30, seed=3), [], folder / f"continued-{mode}", Alone())
        for step in itertools.islice(run.remaining(), 2):
            run.learn(step)
        run.measure_and_save()
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    command += [str(ROOT / "tests" / "pear" / "training" / "processes.py"), str(folder)]
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
        ("auto", "cpu", {"RANK": "zero", "WORLD_SIZE": "2"}, "out of range or not a number"),
        ("auto", "cpu", {"RANK": "2", "WORLD_SIZE": "2"}, "rank 2 .local 2. of 2 processes"),
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


def test_layers_that_do_not_learn_are_not_divided_by_themselves(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that remembers their answers does not call them, and others would wait for it."""
    begun = load_checkpoint("en-de", trainable=True)
    reader: Any = begun.network.encoder
    divided: list[Any] = []
    monkeypatch.setattr("torch.distributed.device_mesh.init_device_mesh", lambda *args: None)
    monkeypatch.setattr("torch.distributed.fsdp.fully_shard", lambda module, **options: divided.append(module))
    for model in (reader.forward_model, reader.backward_model):
        model.requires_grad_(False)
    learner = Learner.of(RECIPE, begun.network, 0)
    Sharded("cpu", 0, 2).wrap(learner, freezes=False)
    assert divided == [*reader.layers, learner]


def test_shares_are_of_one_size_and_hold_everything_once() -> None:
    for count in range(1, 9):
        shares = [Alone(rank=rank, size=3).share(range(count)) for rank in range(3)]
        assert len({len(share) for share in shares}) == 1
        assert sorted(item for share in shares for item, counts in share if counts) == list(range(count))
