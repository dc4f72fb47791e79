"""What the tests of training share: a recipe, data, and how to look at a finished run."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from pear.checkpoint import Checkpoint
from pear.serialize import Layout
from pear.training.work_folder import LOG
from tests.conftest import ROOT
from tests.pear.training.processes import RECIPE, judged

BUNDLED = ROOT / "candidates" / "bundled" / "en-de"
ALONE = replace(RECIPE, accumulate=1)
GROUPS = judged(64, seed=1, candidates=2)  # 64 pairs, every epoch the same
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


def log(work: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (work / LOG).read_text().splitlines()]


def weights(checkpoint: Checkpoint) -> dict[str, torch.Tensor]:
    return {name: weight.clone() for name, weight in checkpoint.network.state_dict().items()}


def farthest(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> float:
    """The largest difference. Biases of attention's keys are left out: no score hangs on them, their gradients are
    rounding errors, and AdamW makes steps of full size out of these."""
    assert one.keys() == other.keys()
    return max(float((one[name] - other[name]).abs().max()) for name in one if not name.endswith("key.bias"))


def layout(checkpoint: Checkpoint) -> Layout:
    return Layout.of(checkpoint.tokenizer, checkpoint.network.encoder.config)
