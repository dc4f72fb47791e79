"""Reads the weights of a CTranslate2 folder back: by name, or into a `network.Translator` that training continues.

`export.write_translator` is the way there. Weights come back rounded to int8 where they were written so; a training
that starts from them makes up for that within a few steps.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import torch

from candidates.common.errors import ModelError
from candidates.training.network import Translator

# Numbers of CTranslate2's file format.
_DTYPES = (np.float32, np.int8, np.int16, np.int32, np.float16)


def read_ct2_weights(file: Path) -> dict[str, np.ndarray[Any, Any]]:
    """The variables of a CTranslate2 `model.bin` by name, int8 ones times their scales, in float32."""
    try:
        with file.open("rb") as stream:
            _take(stream, "I")
            _string(stream)
            _take(stream, "I")
            raw = dict(_variable(stream) for _ in range(_take(stream, "I")))
            aliases = [(_string(stream), _string(stream)) for _ in range(_take(stream, "I"))]
    except (OSError, struct.error, ValueError, IndexError, UnicodeDecodeError) as exc:
        raise ModelError(f"{file}: cannot be read as a CTranslate2 model: {exc}") from exc
    weights = {}
    for name, value in raw.items():
        scale = raw.get(f"{name}_scale")
        if value.dtype == np.int8 and scale is not None:  # one scale per row
            weights[name] = value.astype(np.float32) / scale.reshape(-1, 1).astype(np.float32)
        elif not name.endswith("_scale"):
            weights[name] = value.astype(np.float32)
    return weights | {alias: weights[name] for alias, name in aliases if name in weights}


def fill_translator(model: Translator, folder: Path) -> None:
    """Start `model` from the translation model in a folder, which may have fewer encoder layers.

    Layers that the folder does not have begin as the identity (nothing is added to what flows through them), so that
    the model begins with the folder's own predictions.

    Raises:
        ModelError: the folder holds a model of another kind or width, or a larger one.
    """
    weights = read_ct2_weights(folder / "model.bin")
    try:
        state = _state(weights, model)
        model.load_state_dict(state)
    except (KeyError, RuntimeError, ValueError) as exc:
        raise ModelError(f"{folder}: its weights do not fit into a model of {model.sizes}: {exc}") from exc


def _state(weights: dict[str, Any], model: Translator) -> dict[str, torch.Tensor]:
    """CTranslate2's names -> those of `network.Translator`."""
    state: dict[str, Any] = {
        "embedding.weight": weights["encoder/embeddings_0/weight"],
        "output_bias": weights["decoder/projection/bias"],
    }
    for side, layers in (("encoder", model.encoder), ("decoder", model.decoder)):
        state |= _norm(f"{side}_norm", weights, f"{side}/layer_norm")
        if f"{side}/layer_{len(layers)}/ffn/linear_0/weight" in weights:
            raise ValueError(f"more than {len(layers)} {side} layers")
        for k, layer in enumerate(layers):
            ours, theirs = f"{side}.{k}", f"{side}/layer_{k}"
            if f"{theirs}/ffn/linear_0/weight" in weights:
                state |= _layer(ours, weights, theirs)
            else:
                state |= {f"{ours}.{name}": value for name, value in _identity(layer).items()}
    return {name: torch.as_tensor(value).clone() for name, value in state.items()}


def _layer(ours: str, weights: dict[str, Any], theirs: str) -> dict[str, Any]:
    state = {
        **_norm(f"{ours}.self_norm", weights, f"{theirs}/self_attention/layer_norm"),
        **_norm(f"{ours}.feed_norm", weights, f"{theirs}/ffn/layer_norm"),
        **_linear([f"{ours}.expand"], weights, f"{theirs}/ffn/linear_0"),
        **_linear([f"{ours}.contract"], weights, f"{theirs}/ffn/linear_1"),
    }
    attention = f"{ours}.self_attention"
    state |= _linear(
        [f"{attention}.{n}" for n in ("query", "key", "value")], weights, f"{theirs}/self_attention/linear_0"
    )
    state |= _linear([f"{attention}.output"], weights, f"{theirs}/self_attention/linear_1")
    if f"{theirs}/attention/linear_0/weight" in weights:
        attention = f"{ours}.attention"
        state |= _norm(f"{ours}.norm", weights, f"{theirs}/attention/layer_norm")
        state |= _linear([f"{attention}.query"], weights, f"{theirs}/attention/linear_0")
        state |= _linear([f"{attention}.key", f"{attention}.value"], weights, f"{theirs}/attention/linear_1")
        state |= _linear([f"{attention}.output"], weights, f"{theirs}/attention/linear_2")
    return state


def _norm(ours: str, weights: dict[str, Any], theirs: str) -> dict[str, Any]:
    return {f"{ours}.weight": weights[f"{theirs}/gamma"], f"{ours}.bias": weights[f"{theirs}/beta"]}


def _linear(ours: list[str], weights: dict[str, Any], theirs: str) -> dict[str, Any]:
    """The parts of a matrix and a bias that CTranslate2 keeps stacked."""
    return {
        f"{name}.{kind}": part
        for kind in ("weight", "bias")
        for name, part in zip(ours, np.split(weights[f"{theirs}/{kind}"], len(ours)), strict=True)
    }


def _identity(layer: Any) -> dict[str, torch.Tensor]:
    state = {name: value.detach().clone() for name, value in layer.state_dict().items()}
    for name, value in state.items():
        if name.endswith(("output.weight", "output.bias", "contract.weight", "contract.bias")):
            value.zero_()
    return state


def _take(stream: BinaryIO, kind: str) -> Any:
    return struct.unpack(kind, stream.read(struct.calcsize(kind)))[0]


def _string(stream: BinaryIO) -> str:
    return stream.read(_take(stream, "H"))[:-1].decode("utf-8")


def _variable(stream: BinaryIO) -> tuple[str, np.ndarray[Any, Any]]:
    name = _string(stream)
    shape = [_take(stream, "I") for _ in range(_take(stream, "B"))]
    dtype = _DTYPES[_take(stream, "B")]
    content = stream.read(_take(stream, "I"))
    return name, np.frombuffer(content, dtype).reshape(shape)
