"""Fixtures shared by all tests: tiny random checkpoints in the genuine formats, and real commands."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

# Before numpy is imported, here and by the workers of xdist: on two cores, threads that wait for each other lose much.
os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", OMP_WAIT_POLICY="PASSIVE")

import hypothesis
import pytest

from tests.support.warm import WarmRunner

ROOT = Path(__file__).resolve().parent.parent
DATA = Path(os.environ.get("MBR_DATA", ROOT.parent / "shared" / "data"))

# A run tests the same examples as the one before; `--hypothesis-profile=default` draws new ones.
hypothesis.settings.register_profile("repeatable", derandomize=True)
hypothesis.settings.load_profile("repeatable")


@pytest.fixture(scope="session", autouse=True)
def quiet_machine(tmp_path_factory: pytest.TempPathFactory) -> None:
    """A cache of our own, and never a hub."""
    os.environ.update(
        MBR_CACHE=str(tmp_path_factory.mktemp("cache")),
        HF_HOME=str(tmp_path_factory.mktemp("hub")),
        HF_HUB_OFFLINE="1",
        TOKENIZERS_PARALLELISM="false",
        COLUMNS="110",  # tables are as wide as the terminal
    )


@pytest.fixture(scope="session")
def released(tmp_path_factory: pytest.TempPathFactory, quiet_machine: None) -> Path:
    """A random XLM-R PEAR in the layout of the released checkpoints."""
    from tests.support.random_pear import write_random_released

    root = tmp_path_factory.mktemp("released") / "xlm-roberta"
    write_random_released(root)
    return root


@pytest.fixture(scope="session")
def checkpoint(released: Path) -> Any:
    from pear.checkpoint import load_checkpoint

    return load_checkpoint(released)


@pytest.fixture(scope="session")
def ours(tmp_path_factory: pytest.TempPathFactory, checkpoint: Any) -> Path:
    """The same PEAR as a folder in our layout."""
    from pear.checkpoint import save_checkpoint

    folder = tmp_path_factory.mktemp("ours") / "pear"
    save_checkpoint(checkpoint, folder)
    return folder


@pytest.fixture(scope="session")
def engine(checkpoint: Any) -> Any:
    from pear.engine import Engine

    return Engine(checkpoint.network, checkpoint.tokenizer, device="cpu")


Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Run one of our commands as a user does, in a fresh folder. A `\\r` in its output stays one."""

    def call(*words: Any, stdin: str = "", **options: Any) -> subprocess.CompletedProcess[str]:
        command = [str(Path(sys.executable).with_name(str(words[0]))), *map(str, words[1:])]
        done = subprocess.run(command, input=stdin.encode(), capture_output=True, cwd=tmp_path, check=False, **options)
        return subprocess.CompletedProcess(command, done.returncode, done.stdout.decode(), done.stderr.decode())

    return call


@pytest.fixture(scope="session")
def warm_runner(quiet_machine: None) -> Iterator[WarmRunner]:
    runner = WarmRunner()
    yield runner
    runner.close()


@pytest.fixture
def warm(warm_runner: WarmRunner, tmp_path: Path) -> Run:
    """As `run`, in a process that need not import torch and transformers first: where that is not what is tested."""

    def call(*words: Any, stdin: str | bytes = "", conditions: Sequence[str] = ()) -> subprocess.CompletedProcess[str]:
        command = [str(Path(sys.executable).with_name(str(words[0]))), *map(str, words[1:])]
        content = stdin if isinstance(stdin, bytes) else stdin.encode()
        code, out, err = warm_runner.run(command, content, tmp_path, conditions)
        return subprocess.CompletedProcess(command, code, out.decode(), err.decode())

    return call


@pytest.fixture(scope="session")
def wmt23() -> Path:
    folder = DATA / "mt-metrics-eval-v2" / "wmt23"
    if not folder.is_dir():
        pytest.skip(f"no WMT23 data at {folder}; set MBR_DATA to the folder that holds it")
    return folder


def write_jsonl(path: Path, records: Sequence[Any]) -> Path:
    path.write_text("".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records), encoding="utf-8")
    return path
