"""BLEURT as Google released it: a SavedModel of TensorFlow with `bleurt_config.json`, read without TensorFlow.

The checkpoint becomes what bleurt-pytorch would have written: a configuration, and weights under its names. Which GELU
the encoder has is not in the configuration, which has `gelu` for both: Google's program means the approximation by
tanh, and the graph of the SavedModel shows it.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from candidates.common.errors import ModelError
from pear.runtime.variables import read_variables
from pear.runtime.weights import read_json

CONFIG = "bleurt_config.json"
TANH_GELU = "gelu_new"
EXPECTED = "expected the folder of a BLEURT checkpoint as Google released it"
# Parts of names in TensorFlow, and in bleurt-pytorch.
NAMES = (
    (r"^dense/", "classifier/"),
    (r"^bert/", "bleurt/"),
    (r"/encoder/embedding_hidden_mapping_in/", "/encoder/embedding_projection/"),
    (r"/layer_(\d+)/", r"/layer/\1/"),
    (r"/(gamma|kernel)$", "/weight"),
    (r"/beta$", "/bias"),
    (r"_embeddings$", "_embeddings/weight"),
)
UNUSED = ("global_step",)


def is_google(folder: Path) -> bool:
    return (folder / CONFIG).is_file()


def read_google_config(folder: Path) -> dict[str, Any]:
    """The configuration in the words of bleurt-pytorch, with `max_seq_length` and `do_lower_case` of Google's."""
    settings = read_json(folder / CONFIG, EXPECTED)
    encoder = read_json(folder / str(settings.get("bert_config_file") or "bert_config.json"), EXPECTED)
    if encoder.get("hidden_act") == "gelu" and not _has_erf(folder / "saved_model.pb"):
        encoder["hidden_act"] = TANH_GELU
    kept = {key: settings[key] for key in ("max_seq_length", "do_lower_case") if settings.get(key) is not None}
    return {**encoder, **kept, "model_type": "bleurt", "layer_norm_eps": encoder.get("layer_norm_eps", 1e-12)}


def read_google_weights(folder: Path) -> dict[str, Any]:
    """The weights by their names in bleurt-pytorch."""
    weights = {}
    for name, value in read_variables(folder / "variables").items():
        if name in UNUSED:
            continue
        # TensorFlow multiplies from the other side.
        placed = value.T.contiguous() if name.endswith("/kernel") else value
        for pattern, replacement in NAMES:
            name = re.sub(pattern, replacement, name)
        weights[name.replace("/", ".")] = placed
    return weights


def _has_erf(graph: Path) -> bool:
    """Whether the graph computes an error function, as the exact GELU does: an operation (field 2 of a node) `Erf`."""
    if not graph.is_file():
        return False
    try:
        return b"\x12\x03Erf" in graph.read_bytes()
    except OSError as exc:
        raise ModelError(f"{graph} cannot be read: {exc}") from exc
