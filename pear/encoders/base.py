"""An encoder and its tokenizer as one torch module: the part `encoder` of a metric."""

from __future__ import annotations

from typing import Any, Self

from torch import Tensor, nn

from pear.serialize import Layout


class Encoder(nn.Module):
    """`model` is an encoder without its pooler, of ours or of transformers, `tokenizer` the one it was trained with."""

    def __init__(self, model: Any, tokenizer: Any) -> None:
        super().__init__()
        self.model = model
        self.tokenizer = tokenizer

    @property
    def output_units(self) -> int:
        """Width of the hidden states."""
        return int(self.model.config.hidden_size)

    @property
    def num_layers(self) -> int:
        """Hidden states that `forward` returns: those of the embeddings, then of each layer."""
        return int(self.model.config.num_hidden_layers) + 1

    @property
    def max_positions(self) -> int:
        """Tokens that the encoder takes, special ones included."""
        return Layout.of(self.tokenizer, self.model.config).max_tokens

    @property
    def size_separator(self) -> int:
        """Special tokens between two texts."""
        return Layout.of(self.tokenizer, self.model.config).separators_between

    def forward(self, input_ids: Tensor, attention_mask: Tensor, **ignored: Any) -> tuple[Tensor, ...]:
        """Hidden states [rows, tokens, hidden] of the embeddings and of each layer."""
        output = self.model(
            input_ids=input_ids, attention_mask=attention_mask, output_hidden_states=True, return_dict=True
        )
        states: tuple[Tensor, ...] = output.hidden_states
        return states


class PretrainedEncoder(Encoder):
    """An encoder that is made from the name of a repository or a folder."""

    def __init__(
        self,
        pretrained_model: str,
        load_pretrained_weights: bool = True,
        local_files_only: bool = False,
        revision: str | None = None,
    ) -> None:
        where = {"revision": revision, "local_files_only": local_files_only}
        tokenizer_class, model_class, config_class = self.classes()
        tokenizer = tokenizer_class.from_pretrained(pretrained_model, **where)
        if load_pretrained_weights:
            model = model_class.from_pretrained(pretrained_model, add_pooling_layer=False, **where)
        else:
            model = model_class(config_class.from_pretrained(pretrained_model, **where), add_pooling_layer=False)
        super().__init__(model, tokenizer)

    @staticmethod
    def classes() -> tuple[Any, Any, Any]:
        """The classes of transformers for the tokenizer, the model and its configuration."""
        raise NotImplementedError

    @classmethod
    def from_pretrained(
        cls,
        pretrained_model: str,
        load_pretrained_weights: bool = True,
        local_files_only: bool = False,
        revision: str | None = None,
    ) -> Self:
        return cls(pretrained_model, load_pretrained_weights, local_files_only, revision)
