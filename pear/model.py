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

ARCHITECTURES = ("unified", "comet")
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
    # Of RESUME: its texts encoded together (`unified`), or each alone (`comet`).
    architecture: str = "unified"

    @classmethod
    def from_dict(cls, settings: dict[str, Any]) -> HeadConfig:
        """Take the settings of the head from all that a training run recorded."""
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
        if config.architecture not in ARCHITECTURES:
            expected = ", ".join(ARCHITECTURES)
            raise ModelError(f"architecture {config.architecture!r} is unknown; expected one of {expected}")
        return config

    def to_dict(self) -> dict[str, Any]:
        """For a file; the usual architecture is left out, so that a PEAR has the settings that pear-mt knows."""
        return {k: v for k, v in asdict(self).items() if (k, v) != ("architecture", ARCHITECTURES[0])}


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
    """Encoder and head. `encoder` is one of `pear.runtime.transformer`, or one of transformers.

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
        return self.score(self.encode(*self.inputs(ids, attention, spans)), spans)

    def inputs(self, ids: Tensor, attention: Tensor, spans: Tensor) -> tuple[Tensor, Tensor]:
        """What `encode` takes: the texts of a row together, or each alone."""
        padding = getattr(self.encoder.config, "pad_token_id", None) or 0
        return encoder_inputs(self.config.architecture, ids, attention, spans, padding)

    def encode(self, ids: Tensor, attention: Tensor | None, **inputs: Any) -> Tensor:
        """-> [pairs, tokens, hidden]. Without `attention` there is no padding; `inputs` are more for the encoder."""
        hidden: Tensor = self.encoder(input_ids=ids, attention_mask=attention, **inputs).last_hidden_state
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


class CometResumeNetwork(ResumeMetricNetwork):
    """RESUME on COMET's architecture: source, reference and candidate are encoded each alone (RESUME paper, 6.6).

    The head sees [c; r; c*r; |c-r|; c*s; |c-s|] of the mean vectors of candidate, reference and source.
    """

    def __init__(self, encoder: nn.Module, config: HeadConfig) -> None:
        super().__init__(encoder, config)
        self.head = _FeedForward(6 * encoder.config.hidden_size, config)

    def score(self, hidden: Tensor, spans: Tensor) -> Tensor:
        """Scores [pairs] from the texts' own encodings [pairs * texts, tokens, hidden]: means with start and end."""
        present = torch.arange(hidden.shape[1], device=hidden.device) < spans.sum(dim=-1, keepdim=True) + 2
        weights = present.flatten(0, 1)[..., None].float()  # [pairs * texts, tokens, 1]
        means = (hidden.float() * weights).sum(dim=1) / weights.sum(dim=1)
        source, reference, candidate = means.unflatten(0, spans.shape[:2]).unbind(dim=1)  # [pairs, hidden] each
        products = [
            candidate * reference,
            (candidate - reference).abs(),
            candidate * source,
            (candidate - source).abs(),
        ]
        scores: Tensor = self.head(torch.cat([candidate, reference, *products], dim=-1)).squeeze(-1)
        return scores


def build_network(kind: str, encoder: nn.Module, config: HeadConfig) -> PearNetwork:
    """The network of a kind around an encoder."""
    if kind != "resume":
        return PearNetwork(encoder, config, kind)
    return (
        CometResumeNetwork(encoder, config) if config.architecture == "comet" else ResumeMetricNetwork(encoder, config)
    )


def encoder_inputs(
    architecture: str, ids: Tensor, attention: Tensor, spans: Tensor, padding: int
) -> tuple[Tensor, Tensor]:
    """Ids and attention for the encoder: texts laid out together as they are; for COMET's architecture each text alone.

    Args:
        ids, attention: [pairs, tokens] of texts laid out together (`pear.serialize`).
        spans: [pairs, texts, tokens], one where a token belongs to a text.

    Returns:
        [pairs, tokens] each, or [pairs * texts, tokens] with one text between start and end in a row.
    """
    if architecture == "unified":
        return ids, attention
    lengths = spans.sum(dim=-1, keepdim=True)  # [pairs, texts, 1]
    column = torch.arange(int(lengths.max()) + 2, device=ids.device)  # the text begins at column 1
    first = spans.int().argmax(dim=-1, keepdim=True)  # [pairs, texts, 1], 0 for an empty text
    places = (first + column - 1).clamp(0, ids.shape[1] - 1)  # [pairs, texts, tokens]
    tokens = ids[:, None].expand(-1, spans.shape[1], -1).gather(2, places)
    end = ids.gather(1, attention.sum(dim=1, keepdim=True) - 1)[..., None]  # [pairs, 1, 1]
    inside = (column >= 1) & (column <= lengths)
    outer = torch.where(column == 0, ids[:, :1, None], torch.where(column == lengths + 1, end, padding))
    alone = torch.where(inside, tokens, outer)
    return alone.flatten(0, 1), (column <= lengths + 1).long().flatten(0, 1)


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
