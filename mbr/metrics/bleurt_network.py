"""The network behind BLEURT, and how the checkpoints of bleurt-pytorch and those of Google are read.

BLEURT-20 is RemBERT under other names, with RemBERT's sentencepiece vocabulary; the versions before it are BERT.
transformers lacks their configuration and tokenizer classes; the files are read here. The tokenizer is plain
sentencepiece: a text that spells `[SEP]` is text, as for the original program.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from candidates.common.errors import MbrError, ModelError
from mbr.metrics.bleurt_google import is_google, read_google_config, read_google_weights
from mbr.metrics.released import ModelFiles, find_model
from pear.runtime.encoders import fill_weights
from pear.runtime.options import ModelOptions
from pear.runtime.shapes import ACTIVATIONS, BERT, EncoderConfig, is_built_here
from pear.runtime.tokenization import FastTokenizer
from pear.runtime.transformer import Transformer
from pear.runtime.weights import read_config, read_weights, tokenizer_folder
from pear.serialize import Layout

# The same file, as bleurt-pytorch, RemBERT and the original program call it.
SENTENCEPIECE_FILES = ("spm.model", "sentencepiece.model", "sent_piece.model")
# Settings that BLEURT's configuration shares with RemBERT's and BERT's.
SHARED = (
    "vocab_size",
    "hidden_size",
    "num_hidden_layers",
    "num_attention_heads",
    "intermediate_size",
    "hidden_act",
    "max_position_embeddings",
    "type_vocab_size",
    "layer_norm_eps",
    "pad_token_id",
)


class BleurtNetwork(nn.Module):
    """An encoder, and from the state of its first token the score."""

    def __init__(self, encoder: Any, hidden: int) -> None:
        super().__init__()
        self.encoder = encoder
        self.head = nn.Sequential(nn.Linear(hidden, hidden), nn.Tanh(), nn.Linear(hidden, 1))

    def forward(self, ids: Tensor, attention: Tensor, types: Tensor) -> Tensor:
        """Scores [rows] of token ids, mask and token types, all [rows, tokens]."""
        states = self.encoder(input_ids=ids, attention_mask=attention, token_type_ids=types).last_hidden_state
        return self.head(states[:, 0].float()).squeeze(-1)


class SentencePieces:
    """A sentencepiece vocabulary that is called as the tokenizers of transformers are."""

    def __init__(self, file: Path) -> None:
        import sentencepiece

        try:
            self._pieces = sentencepiece.SentencePieceProcessor(model_file=str(file))
        except (OSError, RuntimeError) as exc:
            raise ModelError(f"{file} is not a sentencepiece vocabulary: {exc}") from exc
        self.cls_token_id, self.sep_token_id, self.pad_token_id = (
            self._special(token, file) for token in ("[CLS]", "[SEP]", "[PAD]")
        )

    def __call__(self, texts: Sequence[str], **_: Any) -> dict[str, list[list[int]]]:
        contents = self._pieces.encode(list(texts))
        return {"input_ids": [[self.cls_token_id, *ids, self.sep_token_id] for ids in contents]}

    def _special(self, token: str, file: Path) -> int:
        number = int(self._pieces.piece_to_id(token))
        if self._pieces.id_to_piece(number) != token:
            raise ModelError(f"{file}: this vocabulary has no {token}; it is not that of BLEURT")
        return number


@dataclass
class BleurtCheckpoint:
    """A loaded model: the network on the CPU, its tokenizer, how its input is laid out, and where it came from."""

    network: BleurtNetwork
    tokenizer: Any
    layout: Layout
    hidden: int
    name: str
    files: ModelFiles


def load_bleurt(default: str, options: ModelOptions) -> BleurtCheckpoint:
    """A checkpoint of bleurt-pytorch, or one that Google released."""
    files = find_model(options.get("model") or default, "bleurt", options)
    folder = files.path
    google = is_google(folder)
    config = read_google_config(folder) if google else read_config(folder)
    if config.get("model_type") != "bleurt":
        raise ModelError(
            f"{folder} is a model of type {config.get('model_type')}, not bleurt; expected a checkpoint of "
            "bleurt-pytorch, or one of Google's (bleurt_config.json)"
        )
    encoder_name = options.get("encoder")
    place = tokenizer_folder(encoder_name, folder, options) if encoder_name else folder
    tokenizer = _load_tokenizer(place, config.get("do_lower_case"))
    try:
        network = _build(config)
    except (MbrError, TypeError, ValueError, KeyError) as exc:
        raise ModelError(f"{folder}: cannot build BLEURT from this configuration: {exc}") from exc
    weights = read_google_weights(folder) if google else read_weights(folder)
    fill_weights(network, _renamed(weights), folder, strict=True)
    encoder: Any = network.encoder
    layout = Layout(
        tokenizer.cls_token_id,
        tokenizer.sep_token_id,
        tokenizer.pad_token_id,
        separators_between=1,
        max_tokens=min(int(encoder.config.max_position_embeddings), int(config.get("max_seq_length", 512))),
    )
    name = files.full_name(network, tokenizer, json.dumps(config, sort_keys=True), options)
    return BleurtCheckpoint(network.eval(), tokenizer, layout, int(encoder.config.hidden_size), name, files)


def _build(config: dict[str, Any]) -> BleurtNetwork:
    """The network in its shape, without weights."""
    # Where RemBERT's defaults differ, BLEURT's are BERT's.
    settings = {**BERT, **{key: config[key] for key in SHARED if config.get(key) is not None}, "model_type": "bert"}
    if config.get("embedding_size") is not None:
        settings |= {"model_type": "rembert", "input_embedding_size": config["embedding_size"]}
    if not is_built_here(settings):
        raise ModelError(f"hidden_act {settings['hidden_act']!r} is unknown; expected one of {', '.join(ACTIVATIONS)}")
    with torch.device("meta"):
        encoder = Transformer(EncoderConfig(settings))
        return BleurtNetwork(encoder, encoder.config.hidden_size)


def _renamed(state: dict[str, Any]) -> dict[str, Any]:
    names = {
        "bleurt.encoder.embedding_projection.": "encoder.encoder.embedding_hidden_mapping_in.",
        "bleurt.pooler.dense.": "head.0.",
        "bleurt.": "encoder.",
        "classifier.": "head.2.",
    }
    renamed = {}
    for key, value in state.items():
        prefix = next((prefix for prefix in names if key.startswith(prefix)), "")
        if not key.endswith(("embeddings.position_ids", "embeddings.token_type_ids")):
            renamed[names.get(prefix, "") + key.removeprefix(prefix)] = value
    return renamed


def _load_tokenizer(folder: Path, lower_case: bool | None = None) -> Any:
    """Sentencepiece, or word pieces; whether these are in lower case, where the folder does not say it itself."""
    for name in SENTENCEPIECE_FILES:
        if (folder / name).is_file():
            return SentencePieces(folder / name)
    if not any((folder / name).is_file() for name in ("vocab.txt", "tokenizer.json")):
        raise ModelError(
            f"{folder} has no tokenizer: expected {SENTENCEPIECE_FILES[0]} (BLEURT-20) or vocab.txt (the versions "
            "before it); a folder that holds it may be given (--encoder FOLDER)"
        )
    try:
        tokenizer = FastTokenizer.of_folder(folder, "BertTokenizer", lower_case=lower_case)
    except (OSError, ValueError) as exc:
        raise ModelError(f"{folder}: cannot load the tokenizer: {exc}") from exc
    if tokenizer is None or not tokenizer.has_words("[CLS]", "[SEP]", "[PAD]"):
        raise ModelError(f"{folder}: this tokenizer has no [CLS], [SEP] and [PAD]; it is not that of BLEURT")
    return tokenizer
