"""The network behind MetricX-24 and MetricX-23, and how their released checkpoints are read.

It is mT5 that generates one token: the encoder reads the prompt, the decoder takes one step, and the score is the
output of a single entry of the vocabulary. Of the output layer's 250,112 rows, only that of this entry is kept.
The released repositories have no tokenizer; it is that of the mT5 they were trained from.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from candidates.common.errors import ModelError
from mbr.metrics.mt5 import MT5, READERS, MT5Shape, Pieces
from mbr.metrics.released import RELEASES, ModelFiles, find_model
from pear.runtime.encoders import fill_weights
from pear.runtime.options import ModelOptions
from pear.runtime.weights import read_config, read_weights, tokenizer_folder

SCORE_ID = 250089  # <extra_id_10>
WORST = 25.0
ARCHITECTURE = "MT5ForRegression"
# What names of models hold, the longest first, and the metrics that read them.
KINDS = {"metricx-23-qe": "metricx-23-qe", "metricx-23": "metricx-23", "metricx-24": "metricx"}
TOKENIZER = "google/mt5-xl"  # all sizes of mT5 have the same vocabulary
# Copies of the input embedding, and a weight of the first mT5 that nothing reads.
SUPERFLUOUS = (
    "encoder.embed_tokens.weight",
    "decoder.embed_tokens.weight",
    "decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight",
)


class MetricXNetwork(nn.Module):
    """mT5, of which `encoder` is encoder and decoder both, and `head` one row of its output layer."""

    def __init__(self, shape: MT5Shape) -> None:
        super().__init__()
        self.encoder = MT5(shape)
        self.head = nn.Linear(shape.d_model, 1, bias=False)

    def forward(self, ids: Tensor, attention: Tensor) -> Tensor:
        """Scores [rows] of token ids and mask, both [rows, tokens]."""
        return self.head(self.encoder(ids, attention).float()).squeeze(-1).clamp(0.0, WORST)


class Prompts:
    """mT5's tokenizer, with a start token of no meaning: `TokenStore` takes one token off either end."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer

    def __call__(self, texts: Sequence[str], **options: Any) -> dict[str, list[list[int]]]:
        return {"input_ids": [[0, *ids] for ids in self._tokenizer(list(texts), **options)["input_ids"]]}


@dataclass
class MetricXCheckpoint:
    """A loaded model: the network on the CPU in the precision of its files, its tokenizer, where it came from."""

    network: MetricXNetwork
    tokenizer: Prompts
    padding: int
    hidden: int
    name: str
    files: ModelFiles


def load_metricx(metric: str, default: str, options: ModelOptions) -> MetricXCheckpoint:
    """A released checkpoint, or one in the same format, of one of the three kinds of MetricX."""
    model = str(options.get("model") or default)
    files = find_model(model, metric, options)
    folder = files.path
    config = read_config(folder)
    _check_kind(config, files, metric)
    try:
        shape = MT5Shape.of(config)
    except ModelError as exc:
        raise ModelError(f"{folder}: cannot build mT5 from this configuration: {exc}") from exc
    with torch.device("meta"):
        network = MetricXNetwork(shape)
    tokenizer = _load_tokenizer(folder, model, options)
    state = _placed(read_weights(folder), config, shape, folder)
    fill_weights(network, state, folder, strict=True)
    padding = int(config.get("pad_token_id") or 0)
    name = files.full_name(network, tokenizer, json.dumps(config, sort_keys=True), options)
    return MetricXCheckpoint(network.eval(), tokenizer, padding, shape.d_model, name, files)


def _check_kind(config: dict[str, Any], files: ModelFiles, metric: str) -> None:
    """Refuse another network, and a model whose name is that of another kind: their files look the same."""
    kind, architectures = config.get("model_type"), config.get("architectures") or [ARCHITECTURE]
    if kind != "mt5" or ARCHITECTURE not in architectures:
        raise ModelError(
            f"{files.path} is a model of type {kind} ({', '.join(architectures)}); expected MetricX, "
            f"that is mt5 ({ARCHITECTURE})"
        )
    named = next((kind for words, kind in KINDS.items() if words in files.name.lower()), metric)
    if named != metric:
        raise ModelError(
            f"{files.name} reads another input than {metric}: by its name it is a model of {named}; use {named}, or "
            "rename the folder"
        )


def _placed(state: dict[str, Any], config: dict[str, Any], shape: MT5Shape, folder: Path) -> dict[str, Any]:
    """The weights by their names in our network."""
    tied = bool(config.get("tie_word_embeddings", False))
    output = state.pop("lm_head.weight", state.get("shared.weight") if tied else None)
    if output is None or "shared.weight" not in state:
        missing = "shared.weight" if output is not None or tied else "lm_head.weight"
        raise ModelError(f"{folder}: the weights are incomplete, {missing} is missing")
    if output.dim() != 2 or len(output) <= SCORE_ID:
        raise ModelError(
            f"{folder}: an output layer of shape {tuple(output.shape)} has no entry {SCORE_ID}, which is the score"
        )
    row = output[SCORE_ID : SCORE_ID + 1].clone()
    state = {f"encoder.{key}": value for key, value in state.items() if key not in SUPERFLUOUS}
    # Where input and output share their embedding, mT5 scales what goes out.
    state["head.weight"] = row.float() * shape.d_model**-0.5 if tied else row
    return state


def _load_tokenizer(folder: Path, model: str, options: ModelOptions) -> Prompts:
    tokenizer_name = options.get("encoder")
    if tokenizer_name is None and not any((folder / name).is_file() for name in READERS):
        release = RELEASES.get(model) or next((r for r in RELEASES.values() if r.repository == model), None)
        tokenizer_name = (release.tokenizer if release else None) or TOKENIZER
    place = folder if tokenizer_name is None else tokenizer_folder(tokenizer_name, folder, options)
    tokenizer = Pieces(place)
    if tokenizer([""])["input_ids"] != [[tokenizer.eos_token_id]]:
        raise ModelError(f"{place}: not the tokenizer of an mT5, which adds one end token and nothing else")
    return Prompts(tokenizer)
