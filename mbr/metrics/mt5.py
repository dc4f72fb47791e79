"""mT5 as MetricX needs it, as a plain torch module: the encoder, and one step of the decoder.

Names of the parts, and so of the weights, are those of released checkpoints. Importing transformers costs more CPU time
than judging a list; it is the oracle of this module in tests/mbr/metrics/test_metricx.py. `Pieces` is the tokenizer, by
the package `tokenizers`.

    network = MT5(MT5Shape.of(config))
    network(ids, attention)                                             # [rows, d_model]
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from candidates.common.errors import ModelError


@dataclass(frozen=True)
class MT5Shape:
    """The sizes that `config.json` names, with mT5's defaults for what it leaves out."""

    vocab_size: int = 250112
    d_model: int = 512
    d_kv: int = 64
    d_ff: int = 1024
    num_layers: int = 8
    num_decoder_layers: int = 8
    num_heads: int = 6
    relative_attention_num_buckets: int = 32
    relative_attention_max_distance: int = 128
    layer_norm_epsilon: float = 1e-6

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> MT5Shape:
        """The shape in a configuration.

        Raises:
            ModelError: a size that is no positive number, or a feed-forward block that mT5 does not have.
        """
        sizes = {field.name: config[field.name] for field in fields(cls) if config.get(field.name) is not None}
        sizes.setdefault("num_decoder_layers", sizes.get("num_layers", cls.num_layers))
        for name, value in sizes.items():
            whole = isinstance(value, int) or name == "layer_norm_epsilon"
            if isinstance(value, bool) or not whole or not isinstance(value, int | float) or value <= 0:
                raise ModelError(f"{name} is {value!r}; expected a positive number")
        block = config.get("feed_forward_proj", "gated-gelu")
        if block != "gated-gelu":
            raise ModelError(f"feed_forward_proj is {block!r}; expected gated-gelu, which all mT5 have")
        return cls(**sizes)


class MT5(nn.Module):
    """Token ids -> the state of the decoder after one step from entry 0 of the vocabulary."""

    def __init__(self, shape: MT5Shape) -> None:
        super().__init__()
        size = (shape.vocab_size, shape.d_model)
        self.shared = nn.Embedding(*size, _weight=torch.empty(*size))
        self.encoder = Stack(shape, shape.num_layers, decoder=False)
        self.decoder = Stack(shape, shape.num_decoder_layers, decoder=True)

    def forward(self, ids: Tensor, attention: Tensor) -> Tensor:
        """States [rows, d_model] of ids and mask, both [rows, tokens]."""
        states = self.shared(ids)
        bias = self.encoder.position_bias(ids.shape[1], states.dtype)  # [1, heads, tokens, tokens]
        hidden = torch.finfo(states.dtype).min * (1 - attention[:, None, None, :].to(states.dtype))
        states = self.encoder(states, bias + hidden)
        start = self.shared(torch.zeros_like(ids[:, :1]))
        decoded: Tensor = self.decoder(start, hidden, memory=states)
        return decoded[:, 0]


class Stack(nn.Module):
    """The layers of encoder or decoder, and a normalisation at their end."""

    def __init__(self, shape: MT5Shape, layers: int, *, decoder: bool) -> None:
        super().__init__()
        self.block = nn.ModuleList(Block(shape, decoder=decoder, first=place == 0) for place in range(layers))
        self.final_layer_norm = Norm(shape)
        self.furthest = shape.relative_attention_max_distance

    def forward(self, states: Tensor, bias: Tensor, memory: Tensor | None = None) -> Tensor:
        for block in self.block:
            states = block(states, bias, memory)
        normed: Tensor = self.final_layer_norm(states)
        return normed

    def position_bias(self, tokens: int, dtype: torch.dtype) -> Tensor:
        """What the distance of two tokens adds to their score, [1, heads, tokens, tokens]; the same in all layers."""
        table: Any = self.block[0].layer[0].SelfAttention.relative_attention_bias
        places = torch.arange(tokens, device=table.weight.device)
        numbers = buckets(places[None, :] - places[:, None], table.num_embeddings, self.furthest)
        bias: Tensor = table(numbers).permute(2, 0, 1)[None].to(dtype)
        return bias


def buckets(distances: Tensor, count: int, furthest: int) -> Tensor:
    """Numbers of the buckets of signed distances: half of them for each direction, near ones exact, far ones shared."""
    half = count // 2
    exact = half // 2
    sizes = distances.abs()
    far = torch.log(sizes.float() / exact) / math.log(furthest / exact) * (half - exact)
    far = (exact + far.clamp(min=0).long()).clamp(max=half - 1)
    return torch.where(sizes < exact, sizes, far) + half * (distances > 0)


class Block(nn.Module):
    """Self-attention, in the decoder attention to the encoder, feed-forward: each of normalised states, and added."""

    def __init__(self, shape: MT5Shape, *, decoder: bool, first: bool) -> None:
        super().__init__()
        parts: list[nn.Module] = [SelfPart(shape, first=first)]
        if decoder:
            parts.append(CrossPart(shape))
        parts.append(FeedPart(shape))
        self.layer = nn.ModuleList(parts)

    def forward(self, states: Tensor, bias: Tensor, memory: Tensor | None) -> Tensor:
        own, *others = self.layer
        if memory is None:
            states = states + own.SelfAttention(own.layer_norm(states), None, bias)
        else:  # one token, which can look at nothing but itself
            states = states + own.SelfAttention.of_itself(own.layer_norm(states))
            cross = others[0]
            states = states + cross.EncDecAttention(cross.layer_norm(states), memory, bias)
        feed = others[-1]
        return states + feed.DenseReluDense(feed.layer_norm(states))


class SelfPart(nn.Module):
    """Self-attention under the names it has in checkpoints."""

    def __init__(self, shape: MT5Shape, *, first: bool) -> None:
        super().__init__()
        self.SelfAttention = Attention(shape, positions=first)
        self.layer_norm = Norm(shape)


class CrossPart(nn.Module):
    """Attention to the encoder's states."""

    def __init__(self, shape: MT5Shape) -> None:
        super().__init__()
        self.EncDecAttention = Attention(shape, positions=False)
        self.layer_norm = Norm(shape)


class FeedPart(nn.Module):
    """The feed-forward block."""

    def __init__(self, shape: MT5Shape) -> None:
        super().__init__()
        self.DenseReluDense = GatedFeed(shape)
        self.layer_norm = Norm(shape)


class Attention(nn.Module):
    """Every token's weighted mean of all tokens; products of queries and keys are not scaled."""

    def __init__(self, shape: MT5Shape, *, positions: bool) -> None:
        super().__init__()
        self.heads, width = shape.num_heads, shape.num_heads * shape.d_kv
        self.q, self.k, self.v = (nn.Linear(shape.d_model, width, bias=False) for _ in range(3))
        self.o = nn.Linear(width, shape.d_model, bias=False)
        if positions:
            size = (shape.relative_attention_num_buckets, shape.num_heads)
            self.relative_attention_bias = nn.Embedding(*size, _weight=torch.empty(*size))

    def forward(self, states: Tensor, memory: Tensor | None, bias: Tensor) -> Tensor:
        read = states if memory is None else memory
        query, key, value = (
            part(of).unflatten(-1, (self.heads, -1)).transpose(1, 2)  # [rows, heads, tokens, d_kv]
            for part, of in ((self.q, states), (self.k, read), (self.v, read))
        )
        mixed = functional.scaled_dot_product_attention(query, key, value, attn_mask=bias, scale=1.0)
        output: Tensor = self.o(mixed.transpose(1, 2).flatten(2))
        return output

    def of_itself(self, states: Tensor) -> Tensor:
        """The same for rows of one token."""
        output: Tensor = self.o(self.v(states))
        return output


class GatedFeed(nn.Module):
    """The gated feed-forward block."""

    def __init__(self, shape: MT5Shape) -> None:
        super().__init__()
        self.wi_0, self.wi_1 = (nn.Linear(shape.d_model, shape.d_ff, bias=False) for _ in range(2))
        self.wo = nn.Linear(shape.d_ff, shape.d_model, bias=False)

    def forward(self, states: Tensor) -> Tensor:
        gate = functional.gelu(self.wi_0(states), approximate="tanh")
        output: Tensor = self.wo(gate * self.wi_1(states))
        return output


class Norm(nn.Module):
    """Division by the root mean square, in float32."""

    def __init__(self, shape: MT5Shape) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(shape.d_model))
        self.epsilon = shape.layer_norm_epsilon

    def forward(self, states: Tensor) -> Tensor:
        wide = states.float()
        normed = wide * torch.rsqrt(wide.square().mean(dim=-1, keepdim=True) + self.epsilon)
        return self.weight * normed.to(self.weight.dtype)


class Pieces:
    """mT5's tokenizer: texts -> ids with the end token, under the names of transformers' tokenizers."""

    eos_token_id = 1

    def __init__(self, folder: Path) -> None:
        """Reads `tokenizer.json`, or else `spiece.model`.

        Raises:
            ModelError: neither is there, or it cannot be read.
        """
        file = next((folder / name for name in READERS if (folder / name).is_file()), None)
        if file is None:
            raise ModelError(f"{folder}: no tokenizer of mT5; expected spiece.model or tokenizer.json")
        try:
            self._backend = READERS[file.name](file)
        except Exception as exc:  # the packages raise exceptions of no particular kind
            raise ModelError(f"{file}: cannot be read as a tokenizer: {exc}") from exc

    def __call__(self, texts: Sequence[str], **options: Any) -> dict[str, list[list[int]]]:
        """`options` are those of `TokenStore`, which change nothing here."""
        return {"input_ids": [encoding.ids for encoding in self._backend.encode_batch(list(texts))]}


def _read_tokenizer(file: Path) -> Any:
    from tokenizers import Tokenizer

    backend = Tokenizer.from_file(str(file))
    backend.no_truncation()
    backend.no_padding()
    return backend


def _read_pieces(file: Path) -> Any:
    """A sentencepiece vocabulary. Rare characters are unknown, not bytes, as they were when MetricX was evaluated."""
    from sentencepiece import sentencepiece_model_pb2
    from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers, processors

    vocabulary = sentencepiece_model_pb2.ModelProto()  # type: ignore[attr-defined]
    vocabulary.ParseFromString(file.read_bytes())
    pieces = [(piece.piece, piece.score) for piece in vocabulary.pieces]
    backend = Tokenizer(models.Unigram(pieces, unk_id=vocabulary.trainer_spec.unk_id, byte_fallback=False))
    charsmap = vocabulary.normalizer_spec.precompiled_charsmap
    steps: list[Any] = [normalizers.Precompiled(charsmap)] if charsmap else []
    steps += [normalizers.Strip(left=False, right=True), normalizers.Replace(Regex(" {2,}"), "▁")]
    backend.normalizer = normalizers.Sequence(steps)
    backend.pre_tokenizer = pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="always")
    end, specials = Pieces.eos_token_id, (pieces[0][0], pieces[1][0], pieces[2][0])
    backend.add_special_tokens([AddedToken(token, normalized=False) for token in specials])
    single = ["$A", pieces[end][0]]
    backend.post_processor = processors.TemplateProcessing(
        single=single, pair=[*single, "$B", pieces[end][0]], special_tokens=[(pieces[end][0], end)]
    )
    return backend


READERS = {"tokenizer.json": _read_tokenizer, "spiece.model": _read_pieces}
