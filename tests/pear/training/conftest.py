"""One thread for the tests of training, and a small model to begin with."""

from __future__ import annotations

import copy

import pytest
import torch

from pear.checkpoint import Checkpoint
from tests.pear.training.processes import tiny


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
