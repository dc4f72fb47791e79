"""The encoder behind BERTScore: a folder of transformers with its weights, cut off after the layer that is compared.

Which layer is best was found by bert-score's authors on WMT16, for each encoder by name; of others it must be given.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from candidates.common.errors import ModelError, UsageError
from mbr.metrics.plain_encoder import PLAIN, load_deberta_tokenizer, plain_encoder
from mbr.metrics.released import ModelFiles, find_model
from pear.runtime.encoders import empty_encoder, fill_weights, load_tokenizer
from pear.runtime.options import ModelOptions
from pear.runtime.weights import read_config, read_weights, tokenizer_folder

# Types of encoders, and what precedes the names of their weights where the file holds a head, too.
PREFIXES = {
    "bert": "bert",
    "camembert": "roberta",
    "deberta": "deberta",
    "deberta-v2": "deberta",
    "electra": "electra",
    "rembert": "rembert",
    "roberta": "roberta",
    "xlm-roberta": "roberta",
    "xlm-roberta-xl": "roberta",
}
# These count positions from padding on, so that two fewer are left.
ROBERTA_LIKE = ("camembert", "roberta", "xlm-roberta", "xlm-roberta-xl")
# Vocabularies of bytes, in which the first word has a space before it as all others do.
SPACED = ("deberta", "roberta")
# The layers that bert-score takes, by the last part of a model's name.
LAYERS = {
    "bert-base-cased": 9,
    "bert-base-chinese": 8,
    "bert-base-multilingual-cased": 9,
    "bert-base-uncased": 9,
    "bert-large-uncased": 18,
    "deberta-base-mnli": 9,
    "deberta-large-mnli": 18,
    "deberta-xlarge-mnli": 40,
    "roberta-base": 10,
    "roberta-large": 17,
    "roberta-large-mnli": 19,
    "xlm-roberta-base": 9,
    "xlm-roberta-large": 17,
}


class TokenEncoder(nn.Module):
    """An encoder that gives the states of its last layer, which is the one to compare."""

    def __init__(self, encoder: Any) -> None:
        super().__init__()
        self.encoder = encoder

    def forward(self, ids: Tensor, attention: Tensor) -> Tensor:
        """States [rows, tokens, hidden] of token ids and mask, both [rows, tokens]."""
        states: Tensor = self.encoder(input_ids=ids, attention_mask=attention).last_hidden_state
        return states.float()


@dataclass(frozen=True)
class BertScoreCheckpoint:
    """A loaded encoder on the CPU, its tokenizer, the layer, how texts are prepared, and where it came from."""

    network: TokenEncoder
    tokenizer: Any
    layer: int
    spaced: bool
    max_tokens: int
    hidden: int
    name: str
    files: ModelFiles


def load_bertscore(default: str, layer: int | None, options: ModelOptions) -> BertScoreCheckpoint:
    """An encoder with its weights, up to a layer; None takes that of `LAYERS`."""
    model = str(options.get("model") or default)
    files = find_model(model, "bertscore", options)
    folder = files.path
    config = read_config(folder)
    kind = str(config.get("model_type"))
    if kind not in PREFIXES:
        raise ModelError(f"{folder} is a model of type {kind}; bertscore takes encoders: {', '.join(PREFIXES)}")
    encoder = plain_encoder(folder, kind) if kind in PLAIN else empty_encoder(folder, kind)
    used = _checked_layer(layer, model, len(encoder.encoder.layer))
    encoder.encoder.layer = encoder.encoder.layer[:used]
    network = TokenEncoder(encoder)
    fill_weights(network, _renamed(read_weights(folder), PREFIXES[kind]), folder)
    named = options.get("encoder")
    place = tokenizer_folder(named, folder, options) if named else folder
    tokenizer = load_deberta_tokenizer(place) if kind == "deberta-v2" else load_tokenizer(place)
    positions = int(config["max_position_embeddings"]) - (2 if kind in ROBERTA_LIKE else 0)
    longest = min(positions, int(getattr(tokenizer, "model_max_length", positions)))
    name = files.full_name(network, tokenizer, repr(sorted(config.items())), options)
    hidden = int(config["hidden_size"])
    return BertScoreCheckpoint(network.eval(), tokenizer, used, kind in SPACED, longest, hidden, name, files)


def read_baseline(file: Path, layer: int) -> tuple[float, float, float]:
    """Precision, recall and F1 of unrelated sentences by one layer, from a table `LAYER,P,R,F` of bert-score."""
    try:
        with file.open(encoding="utf-8", newline="") as stream:
            rows = [row for row in csv.reader(stream) if row]
        table = {int(number): (float(p), float(r), float(f)) for number, p, r, f in rows[1:]}
    except (OSError, ValueError) as exc:
        raise UsageError(f"{file} is not a table of baselines: {exc}; expected lines LAYER,P,R,F") from exc
    if layer not in table:
        raise UsageError(f"{file} has no baseline of layer {layer}; it has layers {sorted(table)}")
    if max(table[layer]) >= 1:
        raise UsageError(f"{file}: the baseline {table[layer]} of layer {layer} is not below 1")
    return table[layer]


def _checked_layer(layer: int | None, model: str, layers: int) -> int:
    if layer is None:
        layer = LAYERS.get(Path(model).name)
        if layer is None:
            raise UsageError(
                f"bertscore knows no layer for the encoder {Path(model).name}; give one from 1 to {layers} (layer=N)"
            )
    if isinstance(layer, bool) or not isinstance(layer, int) or not 1 <= layer <= layers:
        raise UsageError(f"layer {layer!r} is none of this encoder's 1 to {layers}")
    return layer


def _renamed(state: dict[str, Any], prefix: str) -> dict[str, Any]:
    """The encoder's weights by our names, without those of a head; old files call a norm's weights gamma and beta."""
    start = f"{prefix}."
    own = {key.removeprefix(start): value for key, value in state.items() if key.startswith(start)} or state
    old = {"LayerNorm.gamma": "LayerNorm.weight", "LayerNorm.beta": "LayerNorm.bias"}
    renamed = {}
    for key, value in own.items():
        ending = next((ending for ending in old if key.endswith(ending)), "")
        renamed[f"encoder.{key.removesuffix(ending)}{old.get(ending, '')}"] = value
    return renamed
