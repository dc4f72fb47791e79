"""The shape of an encoder: the values of its `config.json`, with the defaults of its model type for what it leaves out.

transformers has the same values behind the same names, but takes seconds to import, and its defaults differ between
versions. `of_folder` answers None for what `pear.runtime.transformer` does not build: transformers then does.

    EncoderConfig.of_folder(Path("pear-folder")).hidden_size       # -> 256
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from candidates.common.errors import ModelError

BERT: dict[str, Any] = {
    "vocab_size": 30522,
    "hidden_size": 768,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "intermediate_size": 3072,
    "hidden_act": "gelu",
    "hidden_dropout_prob": 0.1,
    "attention_probs_dropout_prob": 0.1,
    "max_position_embeddings": 512,
    "type_vocab_size": 2,
    "initializer_range": 0.02,
    "layer_norm_eps": 1e-12,
    "pad_token_id": 0,
}
READER = "translation-reader"
ROBERTA = {**BERT, "pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2}
# Defaults of the model types that are built here.
DEFAULTS: dict[str, dict[str, Any]] = {
    "bert": BERT,
    "roberta": {**ROBERTA, "vocab_size": 50265},
    "camembert": ROBERTA,
    "xlm-roberta": ROBERTA,
    "xlm-roberta-xl": {
        **ROBERTA,
        "vocab_size": 250880,
        "hidden_size": 2560,
        "num_hidden_layers": 36,
        "num_attention_heads": 32,
        "intermediate_size": 10240,
        "max_position_embeddings": 514,
        "type_vocab_size": 1,
        "layer_norm_eps": 1e-05,
    },
    # Our own (`pear.runtime.reader`); the usual sizes are those of the bundled translation models.
    READER: {
        **ROBERTA,
        "vocab_size": 6001,
        "hidden_size": 256,
        "encoder_layers": 6,
        "decoder_layers": 2,
        "backward_encoder_layers": 4,
        "backward_decoder_layers": 2,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "intermediate_size": 1024,
        "hidden_act": "relu",
        "max_position_embeddings": 258,
        "layer_norm_eps": 1e-05,
    },
    "rembert": {
        **BERT,
        "vocab_size": 250300,
        "hidden_size": 1152,
        "num_hidden_layers": 32,
        "num_attention_heads": 18,
        "input_embedding_size": 256,
        "intermediate_size": 4608,
        "hidden_dropout_prob": 0.0,
        "attention_probs_dropout_prob": 0.0,
    },
}
ACTIVATIONS = ("gelu", "gelu_new", "gelu_pytorch_tanh", "relu", "silu", "swish")
WHOLE = (
    "vocab_size",
    "hidden_size",
    "num_hidden_layers",
    "num_attention_heads",
    "intermediate_size",
    "max_position_embeddings",
    "type_vocab_size",
)
# Values under which the same weights compute something else, and what they are in the encoders built here.
PLAIN = {"is_decoder": False, "add_cross_attention": False, "position_embedding_type": "absolute"}


class EncoderConfig:
    """Settings of an encoder as attributes, under the names of transformers."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        """`settings` name a `model_type` of `DEFAULTS`.

        Raises:
            ModelError: a size that is no positive whole number, or heads that do not divide the width.
        """
        self.settings = {**DEFAULTS[settings["model_type"]], **settings}
        for name in WHOLE:
            value = self.settings[name]
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise ModelError(f"{name} is {value!r}; expected a positive whole number")
        if self.hidden_size % self.num_attention_heads:
            raise ModelError(f"{self.num_attention_heads} heads do not divide hidden_size {self.hidden_size}")

    @classmethod
    def of_folder(cls, folder: Path) -> EncoderConfig | None:
        """What `config.json` in a folder describes; None if it is no encoder of ours.

        Raises:
            ValueError: the file is not a JSON object.
            OSError: it cannot be read.
        """
        settings = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        if not isinstance(settings, dict):
            raise ValueError("config.json is not a JSON object")
        return cls(settings) if is_built_here(settings) else None

    def __getattr__(self, name: str) -> Any:
        # Not before `settings` is there: copying an object asks for names of its own.
        if name == "settings" or name not in self.settings:
            raise AttributeError(f"the encoder's configuration has no {name}")
        return self.settings[name]

    def to_json_string(self, use_diff: bool = False) -> str:
        """All settings, sorted by name; those of a PEAR's own (`pear`) are not the encoder's."""
        settings = {name: value for name, value in self.settings.items() if name != "pear"}
        return json.dumps(settings, indent=2, sort_keys=True, ensure_ascii=False) + "\n"

    def save_pretrained(self, folder: str | Path) -> None:
        """Write `config.json`, as transformers reads it."""
        Path(folder).mkdir(parents=True, exist_ok=True)
        Path(folder, "config.json").write_text(self.to_json_string(), encoding="utf-8")


def is_built_here(settings: Mapping[str, Any]) -> bool:
    """Whether an encoder with these settings is one of `pear.runtime.transformer`."""
    defaults = DEFAULTS.get(str(settings.get("model_type")))
    if defaults is None or settings.get("hidden_act", defaults["hidden_act"]) not in ACTIVATIONS:
        return False
    return all(settings.get(name, value) in (value, None) for name, value in PLAIN.items())
