"""Tiny models of every kind, and their oracle: one row at a time through the network, token ids joined by hand."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from pear.checkpoint import load_checkpoint, save_checkpoint
from pear.model import HeadConfig
from tests.support.random_pear import random_checkpoint

SHAPE: dict[str, Any] = {"layers": 1, "hidden": 16, "heads": 2, "max_tokens": 48}
RESUME_HEAD = HeadConfig((32, 16), activations="Tanh", final_activation="Tanh", learn_score_scale=False)


def tiny_model(path: Path, kind: str, model_type: str = "xlm-roberta") -> Path:
    """The folder of a random model that takes 48 tokens."""
    head = RESUME_HEAD if kind == "resume" else HeadConfig((16,))
    made = random_checkpoint(path / "scratch", kind=kind, model_type=model_type, head=head, **SHAPE)
    save_checkpoint(made, path / kind)
    return path / kind


def by_hand(folder: Path, rows: Sequence[tuple[str, ...]]) -> Any:
    checkpoint = load_checkpoint(folder, kind=None)
    return np.array([_score(checkpoint, row) for row in rows])


def _score(checkpoint: Any, row: tuple[str, ...]) -> float:
    tokenizer, config = checkpoint.tokenizer, checkpoint.network.encoder.config
    between = [tokenizer.sep_token_id] * (2 if config.model_type == "xlm-roberta" else 1)
    budget = config.max_position_embeddings - 2 - 2 - len(between) * (len(row) - 1)
    contents = [tokenizer(text, add_special_tokens=False)["input_ids"] for text in row]
    ids, spans = [tokenizer.cls_token_id], []
    for place, (content, size) in enumerate(zip(contents, _sizes([len(c) for c in contents], budget), strict=True)):
        ids += between if place else []
        spans.append(range(len(ids), len(ids) + size))
        ids += content[:size]
    ids.append(tokenizer.sep_token_id)
    masks = torch.tensor([[[column in span for column in range(len(ids))] for span in spans]])
    with torch.inference_mode():
        return float(checkpoint.network(torch.tensor([ids]), torch.ones(1, len(ids), dtype=torch.long), masks)[0])


def _sizes(lengths: list[int], budget: int) -> list[int]:
    """An equal share for each text, then one token more in turn for each text that is longer."""
    sizes = [min(length, budget // len(lengths)) for length in lengths]
    while sum(sizes) < min(budget, sum(lengths)):
        for place, length in enumerate(lengths):
            if sizes[place] < length and sum(sizes) < budget:
                sizes[place] += 1
    return sizes
