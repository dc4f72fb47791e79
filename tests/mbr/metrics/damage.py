"""Checkpoints of metrics that are broken on purpose, and the check that loading them says why."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from candidates.common.errors import ModelError


def change_config(root: Path, **settings: Any) -> None:
    config = json.loads((root / "config.json").read_text())
    (root / "config.json").write_text(json.dumps({**config, **settings}))


def drop_weight(root: Path, name: str) -> None:
    import torch

    state = torch.load(root / "pytorch_model.bin", weights_only=True)
    del state[name]
    torch.save(state, root / "pytorch_model.bin")


def assert_refused(
    load: Callable[[Path], Any], folder: Path, copy: Path, damage: Callable[[Path], None], message: str
) -> None:
    """Loading a damaged copy of the folder raises ModelError with the message."""
    shutil.copytree(folder, copy)
    damage(copy)
    with pytest.raises(ModelError, match=message):
        load(copy)
