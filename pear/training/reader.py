"""Two CTranslate2 translation models, there and back, as the beginning of a metric.

Translation models of `candidates.training` are pre-norm Transformers with one vocabulary for both languages. All of
both goes into a `pear.runtime.reader.TranslationReader`, under new layers. `pear.training.translator` takes the encoder
of one instead.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import torch

from candidates.common.errors import ModelError
from candidates.training.ct2_weights import read_ct2_weights
from pear.runtime.reader import TranslationReader
from pear.runtime.shapes import READER, EncoderConfig
from pear.training.translator import tokenizer_of_pieces

LAYERS = 2  # new ones
NEVER = -1e4  # the logit of padding


def start_from_translators(
    forward: Path, backward: Path, *, layers: int = LAYERS, dropout: float = 0.1, positions: int = 256
) -> tuple[Any, Any]:
    """(encoder, tokenizer) with translation models of both directions inside, and `layers` new layers on top.

    The new layers are drawn at random. The weights of the translation models do not learn: they are trained already,
    and a step takes half as long.

    Raises:
        ModelError: a folder holds another kind of model, or the two have different vocabularies or widths.
    """
    folders = {"forward_model": forward, "backward_model": backward}
    weights = {name: read_ct2_weights(folder / "model.bin") for name, folder in folders.items()}
    tokenizer = tokenizer_of_pieces(forward / "sentencepiece.model", positions)
    if (forward / "sentencepiece.model").read_bytes() != (backward / "sentencepiece.model").read_bytes():
        raise ModelError(f"{forward} and {backward} have different vocabularies; expected models trained with one")
    name = "forward_model"
    try:
        of_forward, of_backward = weights.values()
        table = of_forward["encoder/embeddings_0/weight"]  # unknown, start, end, then pieces
        width = table.shape[1]
        config = EncoderConfig(
            {
                "model_type": READER,
                "vocab_size": len(table) + 1,
                "hidden_size": width,
                "encoder_layers": _layers(of_forward, "encoder"),
                "decoder_layers": _layers(of_forward, "decoder"),
                "backward_encoder_layers": _layers(of_backward, "encoder"),
                "backward_decoder_layers": _layers(of_backward, "decoder"),
                "num_hidden_layers": layers,
                "hidden_dropout_prob": dropout,
                "num_attention_heads": int(of_forward.get("encoder/num_heads", width // 64)),
                "intermediate_size": len(of_forward["encoder/layer_0/ffn/linear_0/weight"]),
                "max_position_embeddings": positions + 2,
            }
        )
        encoder = TranslationReader(config)
        draw_weights(encoder)
        for name, own in weights.items():
            model = encoder.get_submodule(name)
            state = _translation_state(own, config, len(model.encoder), len(model.decoder))
            model.load_state_dict({key: torch.tensor(value) for key, value in state.items()})
            model.requires_grad_(False)
    except (KeyError, RuntimeError, ValueError) as exc:
        raise ModelError(
            f"{folders[name]}: not a translation model of this package (pre-norm Transformer, one vocabulary): {exc}"
        ) from exc
    return encoder, tokenizer


def draw_weights(encoder: TranslationReader) -> None:
    """First values of what is not the translation models'; what the layers add is small at first."""
    for name, weight in encoder.named_parameters():
        if name.startswith(("forward_model.", "backward_model.")):
            continue
        if name.endswith(("norm.weight", "Norm.weight")):
            torch.nn.init.ones_(weight)
        elif weight.dim() == 1:
            torch.nn.init.zeros_(weight)
        else:
            torch.nn.init.normal_(weight, std=0.02 if name.startswith("types") else weight.shape[1] ** -0.5 / 2)


def _layers(weights: dict[str, Any], side: str) -> int:
    return len({name.split("/")[1] for name in weights if re.match(rf"{side}/layer_\d+/", name)})


def _translation_state(
    weights: dict[str, Any], config: EncoderConfig, encoder_layers: int, decoder_layers: int
) -> dict[str, Any]:
    """CTranslate2's names -> those of `pear.runtime.reader.TranslationModel`; tokens in the tokenizer's order."""
    bias = weights["decoder/projection/bias"]
    places = np.zeros((config.max_position_embeddings, config.hidden_size), np.float32)
    sinusoids = weights["encoder/position_encodings/encodings"]
    places[: len(sinusoids)] = sinusoids[: len(places)]
    state = {
        "embeddings.weight": _in_our_order(weights["encoder/embeddings_0/weight"]),
        "output_bias": _in_our_order(bias),
        "positions.weight": places,
    }
    state["output_bias"][1] = NEVER  # padding
    for side, count in (("encoder", encoder_layers), ("decoder", decoder_layers)):
        state |= _pair(f"{side}_norm", weights, f"{side}/layer_norm", _NORM)
        for k in range(count):
            state |= _layer(f"{side}.{k}", weights, f"{side}/layer_{k}")
    return state


def _in_our_order(rows: Any) -> Any:
    """Rows by sentencepiece's numbers (unknown, start, end, pieces) -> by the tokenizer's."""
    return np.concatenate([rows[[1, 3, 2, 0]], rows[3:]])


_NORM = {"weight": "gamma", "bias": "beta"}
_LINEAR = {"weight": "weight", "bias": "bias"}


def _layer(ours: str, weights: dict[str, Any], theirs: str) -> dict[str, Any]:
    state = {
        **_pair(f"{ours}.attention.self_attn_layer_norm", weights, f"{theirs}/self_attention/layer_norm", _NORM),
        **_stacked(f"{ours}.attention.self", ("query", "key", "value"), weights, f"{theirs}/self_attention/linear_0"),
        **_pair(f"{ours}.attention.output.dense", weights, f"{theirs}/self_attention/linear_1", _LINEAR),
        **_pair(f"{ours}.LayerNorm", weights, f"{theirs}/ffn/layer_norm", _NORM),
        **_pair(f"{ours}.intermediate.dense", weights, f"{theirs}/ffn/linear_0", _LINEAR),
        **_pair(f"{ours}.output.dense", weights, f"{theirs}/ffn/linear_1", _LINEAR),
    }
    if f"{theirs}/attention/linear_0/weight" in weights:
        state |= _pair(f"{ours}.source_norm", weights, f"{theirs}/attention/layer_norm", _NORM)
        state |= _pair(f"{ours}.source_query", weights, f"{theirs}/attention/linear_0", _LINEAR)
        state |= _stacked(ours, ("source_key", "source_value"), weights, f"{theirs}/attention/linear_1")
        state |= _pair(f"{ours}.source_output.dense", weights, f"{theirs}/attention/linear_2", _LINEAR)
    return state


def _pair(ours: str, weights: dict[str, Any], theirs: str, kinds: dict[str, str]) -> dict[str, Any]:
    return {f"{ours}.{name}": weights[f"{theirs}/{origin}"] for name, origin in kinds.items()}


def _stacked(ours: str, names: tuple[str, ...], weights: dict[str, Any], theirs: str) -> dict[str, Any]:
    """The parts of a matrix and a bias that CTranslate2 keeps stacked."""
    return {
        f"{ours}.{name}.{kind}": part
        for kind in _LINEAR
        for name, part in zip(names, np.split(weights[f"{theirs}/{kind}"], len(names)), strict=True)
    }
