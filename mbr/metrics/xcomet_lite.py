"""XCOMET-lite: XCOMET on DeBERTa, in the files that its authors put on the hub.

`config.json` holds what the class of their program was made with, `model.safetensors` the weights under COMET's names.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pear.runtime.weights import NAMES, read_config, read_weights

# What their class takes where config.json has no value.
DEFAULTS = {
    "encoder_model": "DeBERTa",
    "pretrained_model": "microsoft/mdeberta-v3-base",
    "word_layer": 8,
    "hidden_sizes": [3072, 1024],
    "layer_transformation": "softmax",
}


def is_lite(folder: Path) -> bool:
    """Whether a folder holds an XCOMET-lite: weights, and a configuration that is not one of transformers."""
    has_weights = any((folder / name).is_file() for name in NAMES)
    return has_weights and (folder / "config.json").is_file() and "model_type" not in read_config(folder)


def read_lite(folder: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Weights and hyper-parameters, as of a checkpoint of COMET."""
    hparams = {**DEFAULTS, **read_config(folder), "class_identifier": "xcomet_metric", "word_level_training": True}
    return read_weights(folder), hparams
