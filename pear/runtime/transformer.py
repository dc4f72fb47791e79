"""Encoders of neural metrics as plain torch modules: XLM-R, InfoXLM, XLM-R-XL, BERT, MiniLM and RemBERT.

They are for scoring: no dropout, no decoder, no pooler. Names of the parts, and so of the weights, are those of the
released checkpoints, and a call returns what transformers' encoders return. Importing transformers costs more CPU time
than a list takes to be decided; it is the oracle of these modules in tests/pear/runtime/test_transformer.py.

    encoder = Transformer(EncoderConfig.of_folder(folder))
    encoder(ids, attention).last_hidden_state                           # [rows, tokens, hidden]
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from pear.runtime.shapes import EncoderConfig

# In these a text's positions are counted from its tokens, after the padding's own; in others from the first column.
# Attention in bf16 on a CPU: how many weights are computed at once, and of how many numbers a vector is.
WEIGHTS, VECTOR = 2**20, 32
ROBERTA = ("roberta", "camembert", "xlm-roberta", "xlm-roberta-xl")


def _tanh_gelu(values: Tensor) -> Tensor:
    return functional.gelu(values, approximate="tanh")


ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "gelu": functional.gelu,
    "gelu_new": _tanh_gelu,
    "gelu_pytorch_tanh": _tanh_gelu,
    "relu": functional.relu,
    "silu": functional.silu,
    "swish": functional.silu,
}


@dataclass(frozen=True)
class EncoderOutput:
    """States of the last layer [rows, tokens, hidden]; where asked for, of the embeddings and of every layer."""

    last_hidden_state: Tensor
    hidden_states: tuple[Tensor, ...] | None = None

    def __getitem__(self, place: int) -> Any:
        return (self.last_hidden_state, self.hidden_states)[place]


class Transformer(nn.Module):
    """An encoder of one of the types in `pear.runtime.shapes.DEFAULTS`."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.config = config
        self.embeddings = Embeddings(config)
        self.encoder = Layers(config)

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        output_hidden_states: bool = False,
        return_dict: bool = True,
    ) -> EncoderOutput:
        """Token ids, mask and token types, all [rows, tokens]; without a mask all tokens count, without types all
        are of type 0."""
        # Not asked of a GPU, which would have to finish all work before it can answer.
        on_cpu = attention_mask is not None and attention_mask.device.type == "cpu"
        whole = attention_mask is None or (on_cpu and bool(attention_mask.all()))
        attended = None if whole or attention_mask is None else attention_mask.bool()
        mask = None if attended is None else attended[:, None, None, :]  # [rows, heads, queries, keys]
        last, states = self.encoder(self.embeddings(input_ids, token_type_ids), mask, output_hidden_states)
        return EncoderOutput(last, states)


class Embeddings(nn.Module):
    """Token ids -> the sum of vectors of token, position and type [rows, tokens, embedding], normalised."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        width = getattr(config, "input_embedding_size", config.hidden_size)
        self.word_embeddings = make_embedding(config.vocab_size, width)
        self.position_embeddings = make_embedding(config.max_position_embeddings, width)
        self.token_type_embeddings = make_embedding(config.type_vocab_size, width)
        self.padding = int(config.pad_token_id) if config.model_type in ROBERTA else None
        self.LayerNorm = make_norm(config, width) if config.model_type != "xlm-roberta-xl" else None

    def forward(self, ids: Tensor, types: Tensor | None = None) -> Tensor:
        of_type = self.token_type_embeddings.weight[0] if types is None else self.token_type_embeddings(types)
        values = self.word_embeddings(ids) + of_type + self.position_embeddings(self._positions(ids))
        return values if self.LayerNorm is None else self.LayerNorm(values)

    def _positions(self, ids: Tensor) -> Tensor:
        if self.padding is None:
            return torch.arange(ids.shape[1], device=ids.device)[None, :]
        counted = ids != self.padding
        return torch.cumsum(counted, dim=1) * counted + self.padding


class Layers(nn.Module):
    """Embeddings -> states of the last layer, and where they are to be kept, of the embeddings and of every layer."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.embedding_hidden_mapping_in: nn.Module | None = None
        if config.model_type == "rembert":
            self.embedding_hidden_mapping_in = nn.Linear(config.input_embedding_size, config.hidden_size)
        normed_before = config.model_type == "xlm-roberta-xl"
        layer = PreNormLayer if normed_before else Layer
        self.layer = nn.ModuleList(layer(config) for _ in range(config.num_hidden_layers))
        self.LayerNorm = make_norm(config) if normed_before else None

    def forward(self, states: Tensor, mask: Tensor | None, keep: bool) -> tuple[Tensor, tuple[Tensor, ...] | None]:
        if self.embedding_hidden_mapping_in is not None:
            states = self.embedding_hidden_mapping_in(states)
        read = []
        for layer in self.layer:
            if keep:
                read.append(states)
            states = layer(states, mask)
        if self.LayerNorm is not None:
            states = self.LayerNorm(states)
        return states, (*read, states) if keep else None


class Layer(nn.Module):
    """Attention, then a feed-forward block, each normalised after its input is added (BERT, RoBERTa, RemBERT)."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.attention = Attention(config)
        self.intermediate = Intermediate(config)
        self.output = Residual(config, config.intermediate_size)

    def forward(self, states: Tensor, mask: Tensor | None) -> Tensor:
        attended = self.attention(states, mask)
        output: Tensor = self.output(self.intermediate(attended), attended)
        return output


class PreNormLayer(nn.Module):
    """The same blocks, each normalised before (XLM-R-XL)."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.attention = PreNormAttention(config)
        self.intermediate = Intermediate(config)
        self.output = Dense(config, config.intermediate_size)
        self.LayerNorm = make_norm(config)

    def forward(self, states: Tensor, mask: Tensor | None) -> Tensor:
        attended = self.attention(states, mask)
        output: Tensor = self.output.dense(self.intermediate(self.LayerNorm(attended))) + attended
        return output


class Attention(nn.Module):
    """Self-attention with its residual."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.self = SelfAttention(config)
        self.output = Residual(config, config.hidden_size)

    def forward(self, states: Tensor, mask: Tensor | None) -> Tensor:
        output: Tensor = self.output(self.self(states, mask), states)
        return output


class PreNormAttention(nn.Module):
    """The same, of normalised states."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.self = SelfAttention(config)
        self.output = Dense(config, config.hidden_size)
        self.self_attn_layer_norm = make_norm(config)

    def forward(self, states: Tensor, mask: Tensor | None) -> Tensor:
        output: Tensor = self.output.dense(self.self(self.self_attn_layer_norm(states), mask)) + states
        return output


class SelfAttention(nn.Module):
    """Every token's weighted mean of all tokens that the mask [rows, 1, 1, tokens] allows, for each head."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.heads = int(config.num_attention_heads)
        self.query, self.key, self.value = (nn.Linear(config.hidden_size, config.hidden_size) for _ in range(3))

    def forward(self, states: Tensor, mask: Tensor | None) -> Tensor:
        rows, tokens, hidden = states.shape
        query, key, value = (
            part(states).view(rows, tokens, self.heads, -1).transpose(1, 2)
            for part in (self.query, self.key, self.value)
        )
        mixed = attend(query, key, value, mask)
        return mixed.transpose(1, 2).reshape(rows, tokens, hidden)


def attend(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> Tensor:
    """Values [rows, heads, keys, size] weighed for each query [rows, heads, queries, size].

    `mask` [rows, 1, 1, keys] or [queries, keys] is true where a query may look. Written out where that is faster than
    torch's own on a CPU: where gradients are wanted, and in bf16.
    """
    if not torch.is_grad_enabled():
        if query.dtype == torch.bfloat16 and query.device.type == "cpu":
            return _attend_in_bf16(query, key, value, mask)
        return functional.scaled_dot_product_attention(query, key, value, attn_mask=mask)
    weights = query * query.shape[-1] ** -0.5 @ key.mT  # [rows, heads, queries, keys]
    if mask is not None:
        weights = weights.masked_fill(~mask, -torch.inf)
    return weights.softmax(dim=-1) @ value


def _attend_in_bf16(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> Tensor:
    """Some rows at a time, so that their weights stay in the processor's cache.

    Keys are filled up to whole vectors of the processor: softmax is slow where a row of weights ends within one.
    """
    rows, heads, queries, size = query.shape
    more = -key.shape[2] % VECTOR
    key, value = (functional.pad(part, (0, 0, 0, more)) for part in (key, value))
    seen = torch.ones(1, 1, 1, key.shape[2] - more, dtype=torch.bool) if mask is None else mask
    seen = functional.pad(seen if seen.dim() == 4 else seen[None, None], (0, more), value=False)
    bias = query.new_zeros(seen.shape).masked_fill_(~seen, -torch.inf)  # [rows or 1, 1, queries or 1, keys]
    mixed = query.new_empty(rows, queries, heads, size).transpose(1, 2)
    some = max(1, WEIGHTS // (heads * queries * key.shape[2]))
    for first in range(0, rows, some):
        part = slice(first, first + some)
        own = bias[0] if len(bias) == 1 else bias[part].expand(-1, heads, -1, -1).flatten(0, 1)
        keys = key[part].flatten(0, 1).mT
        weights = torch.baddbmm(own, query[part].flatten(0, 1), keys, alpha=size**-0.5).softmax(dim=-1)
        mixed[part] = torch.bmm(weights, value[part].flatten(0, 1)).unflatten(0, (-1, heads))
    return mixed


class Intermediate(nn.Module):
    """The wide half of the feed-forward block."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.dense = nn.Linear(config.hidden_size, config.intermediate_size)
        self.activation = ACTIVATIONS[config.hidden_act]

    def forward(self, states: Tensor) -> Tensor:
        wide = self.dense(states)
        if self.activation is functional.relu and not torch.is_grad_enabled():
            return wide.relu_()  # in place, since nothing else holds it
        return self.activation(wide)


class Dense(nn.Module):
    """A linear layer under the name it has in checkpoints."""

    def __init__(self, config: EncoderConfig, width: int) -> None:
        super().__init__()
        self.dense = nn.Linear(width, config.hidden_size)


class Residual(Dense):
    """Adds a block's input to its output, and normalises."""

    def __init__(self, config: EncoderConfig, width: int) -> None:
        super().__init__(config, width)
        self.LayerNorm = make_norm(config)

    def forward(self, values: Tensor, states: Tensor) -> Tensor:
        output: Tensor = self.LayerNorm(self.dense(values) + states)
        return output


def make_embedding(count: int, width: int) -> nn.Module:
    """Without values: to draw them, even on the device `meta`, torch imports its compiler, a second of CPU time."""
    return nn.Embedding(count, width, _weight=torch.empty(count, width))


def make_norm(config: EncoderConfig, width: int | None = None) -> nn.Module:
    return nn.LayerNorm(width or config.hidden_size, eps=config.layer_norm_eps)
