"""The PEAR network: (source, a, b) encoded together -> by how much a is better than b.

A transformer encodes the serialised triple; the mean of each span's content tokens gives one vector for the
source and one per candidate; a shared head turns each candidate's vector, seen beside the source's, into a
number; the score is the scaled difference of the two numbers (PEAR paper, section 3.3). Positive: a is better.

    h = encoder(ids)                                  # [pairs, tokens, hidden]
    features(a) = [h_a ; h_a * h_src ; |h_a - h_src|]    # [pairs, 3 * hidden]
    score = scale * (head(features(a)) - head(features(b)))

Module names follow the released checkpoints, so their weights load without renaming inside the head.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, fields
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from candidates.common.errors import ModelError

ACTIVATIONS = {
    "gelu": nn.GELU,
    "relu": nn.ReLU,
    "silu": nn.SiLU,
    "swish": nn.SiLU,
    "tanh": nn.Tanh,
    "identity": nn.Identity,
}


@dataclass(frozen=True)
class HeadConfig:
    """The settings that shape the head; names as in the released hyper-parameters."""

    hidden_sizes: tuple[int, ...] = (512, 256, 128)
    activations: str = "GELU"
    final_activation: str | None = None
    dropout: float = 0.1
    layer_norm_before_head: bool = False
    learn_score_scale: bool = True
    score_alpha: float = 1.0

    @classmethod
    def from_dict(cls, settings: dict[str, Any]) -> HeadConfig:
        """Take the settings of the head from those that a training run recorded."""
        settings_of_head = {
            field.name: settings[field.name] for field in fields(cls) if settings.get(field.name) is not None
        }
        if "hidden_sizes" in settings_of_head:
            settings_of_head["hidden_sizes"] = tuple(int(size) for size in settings_of_head["hidden_sizes"])
        config = cls(**settings_of_head)
        if not config.hidden_sizes:
            raise ModelError("hidden_sizes is empty; the head needs at least one hidden layer")
        for name in filter(None, (config.activations, config.final_activation)):
            if name.strip().lower() not in ACTIVATIONS:
                raise ModelError(f"activation {name!r} is unknown; expected one of {', '.join(ACTIVATIONS)}")
        return config

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


class PairwiseHead(nn.Module):
    """Span vectors -> scores. Split from the encoder so that any back-end may supply the span vectors."""

    def __init__(self, hidden: int, config: HeadConfig) -> None:
        super().__init__()
        projection: list[nn.Module] = [nn.Linear(3 * hidden, hidden), nn.GELU()]
        if not config.layer_norm_before_head:
            projection.append(nn.LayerNorm(hidden))
        self.span_proj = nn.Sequential(*projection, nn.Dropout(config.dropout))
        self.pre_head_norm = nn.LayerNorm(hidden) if config.layer_norm_before_head else nn.Identity()
        self.pair_head = _FeedForward(hidden, config)
        if config.learn_score_scale:
            alpha = max(config.score_alpha, 1e-4)
            self._alpha_raw = nn.Parameter(torch.tensor(alpha + math.log(-math.expm1(-alpha))))
        else:
            self.register_parameter("_alpha_raw", None)
        self.fixed_scale = config.score_alpha

    @property
    def scale(self) -> Tensor | float:
        if self._alpha_raw is None:
            return self.fixed_scale
        return nn.functional.softplus(self._alpha_raw) + 1e-6

    def forward(self, spans: Tensor) -> Tensor:
        """spans [pairs, 3, hidden] (source, a, b) -> scores [pairs]; [rows, 2, hidden] -> absolute scores [rows]."""
        source, candidates = spans[:, :1], spans[:, 1:]  # [pairs, 1, hidden], [pairs, 1 or 2, hidden]
        features = torch.cat([candidates, candidates * source, (candidates - source).abs()], dim=-1)
        utilities = self.pair_head(self.pre_head_norm(self.span_proj(features))).squeeze(-1)  # [pairs, 1 or 2]
        if utilities.shape[1] == 1:
            return self.scale * utilities[:, 0]
        return self.scale * (utilities[:, 0] - utilities[:, 1])


class PearNetwork(nn.Module):
    """Encoder and head. `encoder` is any transformers model that returns `last_hidden_state`.

    Shown a source and one candidate instead of two, the same network gives an absolute score: with `kind` single it
    was trained to, and is the matched baseline of the paper; a sentinel is one whose source is left empty.
    """

    def __init__(self, encoder: nn.Module, config: HeadConfig, kind: str = "pear") -> None:
        super().__init__()
        self.encoder = encoder
        self.config = config
        self.kind = kind
        self.head: nn.Module = PairwiseHead(encoder.config.hidden_size, config)

    def forward(self, ids: Tensor, attention: Tensor, spans: Tensor) -> Tensor:
        """ids, attention [pairs, tokens]; spans [pairs, 3, tokens], one where a token belongs -> scores [pairs]."""
        return self.score(self.encode(ids, attention), spans)

    def encode(self, ids: Tensor, attention: Tensor) -> Tensor:
        """-> [pairs, tokens, hidden]."""
        hidden: Tensor = self.encoder(input_ids=ids, attention_mask=attention).last_hidden_state
        return hidden

    def score(self, hidden: Tensor, spans: Tensor) -> Tensor:
        """Scores [pairs] from what the encoder made."""
        scores: Tensor = self.head(span_means(hidden, spans))
        return scores


class ResumeMetricNetwork(PearNetwork):
    """RESUME: (source, reference, candidate) encoded together -> how much better the candidate is, from -1 to 1.

    Its head sees the first token only, as unified evaluation models do (RESUME paper, section 4.1).
    """

    HEAD: ClassVar[HeadConfig] = HeadConfig(
        hidden_sizes=(3072, 1024), activations="Tanh", final_activation="Tanh", learn_score_scale=False
    )

    def __init__(self, encoder: nn.Module, config: HeadConfig) -> None:
        super().__init__(encoder, config, "resume")
        self.head = _FeedForward(encoder.config.hidden_size, config)

    def score(self, hidden: Tensor, spans: Tensor) -> Tensor:
        scores: Tensor = self.head(hidden[:, 0].float()).squeeze(-1)
        return scores


def build_network(kind: str, encoder: nn.Module, config: HeadConfig) -> PearNetwork:
    """The network of a kind around an encoder."""
    return ResumeMetricNetwork(encoder, config) if kind == "resume" else PearNetwork(encoder, config, kind)


def span_means(hidden: Tensor, spans: Tensor) -> Tensor:
    """Mean of the content tokens of each span; an empty span gives zeros. -> [pairs, 3, hidden], float32."""
    weights = spans.to(hidden.dtype)
    sums = torch.bmm(weights, hidden).float()
    return sums / spans.sum(dim=-1, keepdim=True).float().clamp_min(1e-8)


class _FeedForward(nn.Module):
    def __init__(self, hidden: int, config: HeadConfig) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        size = hidden
        for next_size in config.hidden_sizes:
            layers += [
                nn.Linear(size, next_size),
                _activation(config.activations),
                nn.Dropout(config.dropout),
            ]
            size = next_size
        layers.append(nn.Linear(size, 1))
        if config.final_activation is not None:
            layers.append(_activation(config.final_activation))
        self.ff = nn.Sequential(*layers)

    def forward(self, features: Tensor) -> Tensor:
        return self.ff(features)


def _activation(name: str) -> nn.Module:
    return ACTIVATIONS[name.strip().lower()]()
