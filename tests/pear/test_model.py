from __future__ import annotations

from typing import Any

import pytest
import torch

from candidates.common.errors import ModelError
from pear.model import HeadConfig, PairwiseHead, span_means


def plain_score(head: Any, config: HeadConfig, source: Any, a: Any, b: Any) -> Any:
    """The definition, candidate by candidate, from the head's raw weights."""

    def utility(h: Any) -> Any:
        features = torch.cat([h, h * source, (h - source).abs()])
        projected = torch.nn.functional.gelu(head.span_proj[0](features))
        norm = head.pre_head_norm if config.layer_norm_before_head else head.span_proj[2]
        x = norm(projected)
        linear = [layer for layer in head.pair_head.ff if isinstance(layer, torch.nn.Linear)]
        for layer in linear[:-1]:
            x = torch.nn.functional.gelu(layer(x))
        return linear[-1](x)[0]

    alpha = torch.log1p(torch.exp(head._alpha_raw)) + 1e-6 if config.learn_score_scale else config.score_alpha
    return alpha * (utility(a) - utility(b))


@pytest.mark.parametrize("layer_norm_before_head", [False, True])
@pytest.mark.parametrize("learn_score_scale", [False, True])
def test_head_follows_its_definition(layer_norm_before_head: bool, learn_score_scale: bool) -> None:
    torch.manual_seed(1)
    config = HeadConfig(
        (8, 4),
        layer_norm_before_head=layer_norm_before_head,
        learn_score_scale=learn_score_scale,
        score_alpha=2.5,
    )
    head = PairwiseHead(6, config).eval()
    spans = torch.randn(5, 3, 6)
    with torch.no_grad():
        scores = head(spans)
        expected = torch.stack([plain_score(head, config, *row) for row in spans])
    torch.testing.assert_close(scores, expected)


def test_swapping_the_span_vectors_negates_the_score() -> None:
    head = PairwiseHead(6, HeadConfig()).eval()
    spans = torch.randn(4, 3, 6)
    with torch.no_grad():
        torch.testing.assert_close(head(spans), -head(spans[:, [0, 2, 1]]))


def test_span_means_leave_out_other_tokens_and_survive_empty_spans() -> None:
    hidden = torch.arange(24.0).reshape(1, 4, 6)
    spans = torch.tensor([[[0, 1, 1, 0], [0, 0, 0, 1], [0, 0, 0, 0]]], dtype=torch.bool)
    means = span_means(hidden, spans)
    assert torch.equal(means[0, 0], (hidden[0, 1] + hidden[0, 2]) / 2)
    assert torch.equal(means[0, 1], hidden[0, 3])
    assert torch.equal(means[0, 2], torch.zeros(6))


@pytest.mark.parametrize("settings", [{"activations": "sine"}, {"hidden_sizes": []}, {"final_activation": "x"}])
def test_unusable_settings_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(ModelError):
        HeadConfig.from_dict(settings)


def test_settings_of_a_training_run_that_do_not_shape_the_head_are_ignored() -> None:
    config = HeadConfig.from_dict({"hidden_sizes": [4], "learning_rate": 1e-5, "final_activation": None})
    assert config == HeadConfig(hidden_sizes=(4,))
