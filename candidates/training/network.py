"""A plain encoder-decoder Transformer for short training on a CPU.

Pre-norm, sinusoidal positions, one embedding matrix shared by source, target and output. Sources of a batch have one
length (see `loop.batches`), so the encoder and the attention to it need no mask; targets are padded at the end, where a
causal decoder never looks. Everything here has its counterpart in CTranslate2's own Transformer, which
`export.write_translator` fills with these weights.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional


@dataclass(frozen=True)
class Sizes:
    """Shape of the network."""

    vocabulary: int
    width: int = 256
    feed_forward: int = 1024
    heads: int = 4
    encoder_layers: int = 4
    decoder_layers: int = 2
    positions: int = 256
    dropout: float = 0.1


class Attention(nn.Module):
    """Multi-head attention; keys and values from `memory`, or from the input itself."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.heads = sizes.heads
        self.query = nn.Linear(sizes.width, sizes.width)
        self.key = nn.Linear(sizes.width, sizes.width)
        self.value = nn.Linear(sizes.width, sizes.width)
        self.output = nn.Linear(sizes.width, sizes.width)

    def forward(self, x: torch.Tensor, memory: torch.Tensor, *, causal: bool = False) -> torch.Tensor:
        query, key, value = (
            layer(of).unflatten(-1, (self.heads, -1)).transpose(1, 2)  # [batch, heads, tokens, width / heads]
            for layer, of in ((self.query, x), (self.key, memory), (self.value, memory))
        )
        # Written out: on a CPU, torch's own attention takes several times as long for short sentences (backward, bf16).
        weights = query * query.shape[-1] ** -0.5 @ key.mT  # [batch, heads, tokens, tokens of memory]
        if causal:
            later = torch.ones(weights.shape[-2:], dtype=torch.bool).triu(1)
            weights = weights.masked_fill(later, -torch.inf)
        mixed = weights.softmax(dim=-1) @ value
        return self.output(mixed.transpose(1, 2).flatten(2))


class Layer(nn.Module):
    """Self-attention, attention to the source (decoder only), feed-forward; each normalised before, added after."""

    def __init__(self, sizes: Sizes, *, decoder: bool) -> None:
        super().__init__()
        self.self_attention = Attention(sizes)
        self.self_norm = nn.LayerNorm(sizes.width)
        self.attention = Attention(sizes) if decoder else None
        self.norm = nn.LayerNorm(sizes.width) if decoder else None
        self.expand = nn.Linear(sizes.width, sizes.feed_forward)
        self.contract = nn.Linear(sizes.feed_forward, sizes.width)
        self.feed_norm = nn.LayerNorm(sizes.width)
        self.dropout = nn.Dropout(sizes.dropout)

    def forward(self, x: torch.Tensor, memory: torch.Tensor | None = None) -> torch.Tensor:
        normed = self.self_norm(x)
        x = x + self.dropout(self.self_attention(normed, normed, causal=memory is not None))
        if self.attention is not None and self.norm is not None:
            x = x + self.dropout(self.attention(self.norm(x), memory))
        return x + self.dropout(self.contract(functional.relu(self.expand(self.feed_norm(x)))))


class Translator(nn.Module):
    """Source ids and target ids in, logits of the next target token out."""

    positions: torch.Tensor

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.sizes = sizes
        self.embedding = nn.Embedding(sizes.vocabulary, sizes.width)
        self.encoder = nn.ModuleList(Layer(sizes, decoder=False) for _ in range(sizes.encoder_layers))
        self.encoder_norm = nn.LayerNorm(sizes.width)
        self.decoder = nn.ModuleList(Layer(sizes, decoder=True) for _ in range(sizes.decoder_layers))
        self.decoder_norm = nn.LayerNorm(sizes.width)
        self.output_bias = nn.Parameter(torch.zeros(sizes.vocabulary))
        self.dropout = nn.Dropout(sizes.dropout)
        self.register_buffer("positions", sinusoids(sizes.positions, sizes.width), persistent=False)
        nn.init.normal_(self.embedding.weight, std=sizes.width**-0.5)
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.xavier_uniform_(module.weight)
                nn.init.zeros_(module.bias)

    def forward(self, source: torch.Tensor, target: torch.Tensor, keep: torch.Tensor | None = None) -> torch.Tensor:
        """Logits [batch, target tokens, vocabulary]; with `keep` [batch, target tokens], only the rows it marks."""
        memory = self._embed(source)
        for layer in self.encoder:
            memory = layer(memory)
        memory = self.encoder_norm(memory)
        x = self._embed(target)
        for layer in self.decoder:
            x = layer(x, memory)
        x = self.decoder_norm(x)
        return functional.linear(x if keep is None else x[keep], self.embedding.weight, self.output_bias)

    def _embed(self, ids: torch.Tensor) -> torch.Tensor:
        scaled = self.embedding(ids) * math.sqrt(self.sizes.width)
        return self.dropout(scaled + self.positions[: ids.shape[1]])


def sinusoids(positions: int, width: int) -> torch.Tensor:
    """The fixed position vectors [positions, width] of Vaswani et al. (2017), sines first."""
    rates = torch.exp(torch.arange(width // 2) * (-math.log(10000) / (width // 2 - 1)))
    angles = torch.arange(positions)[:, None] * rates
    return torch.cat([angles.sin(), angles.cos()], dim=1)
