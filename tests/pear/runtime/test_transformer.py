"""Our encoders against those of transformers: the same weights, the same states of every layer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn import functional

from candidates.common.errors import ModelError
from pear.runtime import transformer
from pear.runtime.encoders import empty_encoder
from pear.runtime.shapes import DEFAULTS, READER, EncoderConfig
from pear.runtime.transformer import Intermediate, Transformer
from tests.support.random_pear import draw_weights

SIZES: dict[str, Any] = {
    "vocab_size": 60,
    "hidden_size": 32,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "max_position_embeddings": 30,
}
TYPES = sorted(set(DEFAULTS) - {READER})  # READER is our own: transformers has nothing to compare it with
MASK = (torch.arange(20) < torch.tensor([[20], [13], [1]])).long()


def library_encoder(model_type: str, **settings: Any) -> Any:
    """A random encoder of transformers."""
    from transformers import AutoConfig, AutoModel

    sizes = {**SIZES, **({"input_embedding_size": 16} if model_type == "rembert" else {})}
    config = AutoConfig.for_model(model_type, **{**sizes, **settings})
    encoder = AutoModel.from_config(config, add_pooling_layer=False)
    draw_weights(encoder, 1, 1.0)
    return encoder.eval()


def same_of_ours(encoder: Any, folder: Path) -> Any:
    encoder.config.save_pretrained(folder)
    ours = empty_encoder(folder)
    assert isinstance(ours, Transformer)
    ours.load_state_dict(encoder.state_dict(), assign=True)  # strict: every name and shape is the same
    return ours.eval()


def tokens(encoder: Any) -> torch.Tensor:
    padding = encoder.config.pad_token_id
    ids = torch.randint(5, SIZES["vocab_size"], MASK.shape, generator=torch.Generator().manual_seed(2))
    ids[0, 7] = padding  # a text may spell the padding token: RoBERTa does not count it
    return torch.where(MASK.bool(), ids, padding)


@pytest.mark.parametrize("model_type", TYPES)
def test_states_of_every_layer_are_those_of_transformers(model_type: str, tmp_path: Path) -> None:
    encoder = library_encoder(model_type)
    ours, ids = same_of_ours(encoder, tmp_path), tokens(encoder)
    with torch.inference_mode():
        expected = encoder(input_ids=ids, attention_mask=MASK, output_hidden_states=True)
        output = ours(input_ids=ids, attention_mask=MASK, output_hidden_states=True)
        plain = ours(input_ids=ids, attention_mask=MASK)
    assert len(output.hidden_states) == len(expected.hidden_states) == SIZES["num_hidden_layers"] + 1
    for own, theirs in zip(output.hidden_states, expected.hidden_states, strict=True):
        torch.testing.assert_close(own[MASK.bool()], theirs[MASK.bool()], atol=1e-5, rtol=0)
    torch.testing.assert_close(
        output.last_hidden_state[MASK.bool()], expected.last_hidden_state[MASK.bool()], atol=1e-5, rtol=0
    )
    assert torch.equal(plain.last_hidden_state, output.last_hidden_state)
    assert plain.hidden_states is None


@pytest.mark.parametrize("model_type", TYPES)
def test_without_mask_and_with_token_types(model_type: str, tmp_path: Path) -> None:
    encoder = library_encoder(model_type, type_vocab_size=2)
    ours, ids = same_of_ours(encoder, tmp_path), tokens(encoder)[:1, :7]
    types = torch.tensor([[0, 0, 0, 1, 1, 1, 1]])
    with torch.inference_mode():
        for options in ({}, {"token_type_ids": types}):
            expected = encoder(input_ids=ids, **options).last_hidden_state
            torch.testing.assert_close(ours(ids, **options).last_hidden_state, expected, atol=1e-5, rtol=0)


def test_a_mask_that_leaves_nothing_out_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a GPU such a mask is passed on, unless the caller knows; the CPU leaves it out by itself."""
    encoder, ids = same_of_ours(library_encoder("xlm-roberta"), tmp_path), torch.randint(5, 60, (3, 20))
    masks = []
    attend = transformer.attend
    monkeypatch.setattr(transformer, "attend", lambda *parts: masks.append(parts[-1]) or attend(*parts))
    everything = torch.ones(3, 1, 1, 20, dtype=torch.bool)
    with torch.inference_mode():
        without = encoder(ids).last_hidden_state
        assert torch.equal(encoder(ids, torch.ones_like(ids)).last_hidden_state, without)
        assert masks == [None] * len(masks)
        with_mask, _ = encoder.encoder(encoder.embeddings(ids), everything, False)
        torch.testing.assert_close(with_mask, without, atol=1e-5, rtol=0)
        encoder.to("meta")  # where no value can be read, as a GPU's should not be
        encoder(ids.to("meta"), torch.ones_like(ids, device="meta"))
        encoder(ids.to("meta"))


@pytest.mark.parametrize("keys", [1, 31, 32, 45])
@pytest.mark.parametrize("mask", ["none", "padding", "earlier"])
def test_attention_in_bf16_is_that_of_float32_rounded(keys: int, mask: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a CPU it is written out, some rows at a time; how many at a time changes nothing."""
    torch.manual_seed(keys)
    query, key, value = (torch.randn(5, keys, 3, 8).bfloat16().transpose(1, 2) for _ in range(3))
    padding = torch.arange(keys) <= torch.arange(5)[:, None, None, None]  # [rows, 1, 1, keys]
    allowed = {"none": None, "padding": padding, "earlier": torch.ones(keys, keys, dtype=torch.bool).tril()}[mask]
    exact = functional.scaled_dot_product_attention(query.float(), key.float(), value.float(), attn_mask=allowed)
    with torch.inference_mode():
        mixed = transformer.attend(query, key, value, allowed)
        monkeypatch.setattr(transformer, "WEIGHTS", 2 * 3 * keys * (keys + 31))
        few = transformer.attend(query, key, value, allowed)
    assert mixed.dtype == torch.bfloat16
    assert torch.equal(few, mixed)
    torch.testing.assert_close(mixed.float(), exact, atol=0.02, rtol=0.02)


@pytest.mark.parametrize("activation", ["gelu", "gelu_new", "gelu_pytorch_tanh", "relu", "silu"])
def test_activations(activation: str, tmp_path: Path) -> None:
    encoder = library_encoder("bert", hidden_act=activation)
    ours, ids = same_of_ours(encoder, tmp_path), tokens(encoder)
    with torch.inference_mode():
        expected = encoder(input_ids=ids, attention_mask=MASK).last_hidden_state[MASK.bool()]
        states = ours(ids, MASK).last_hidden_state[MASK.bool()]
    torch.testing.assert_close(states, expected, atol=1e-5, rtol=0)


def test_relu_has_the_same_values_in_place_and_gradients_where_they_are_wanted() -> None:
    block = Intermediate(EncoderConfig({"model_type": "bert", **SIZES, "hidden_act": "relu"}))
    states = torch.randn(7, SIZES["hidden_size"], requires_grad=True)
    expected = torch.relu(block.dense(states))
    with torch.inference_mode():
        assert torch.equal(block(states), expected)
    weights = torch.randn_like(expected)
    wanted = torch.autograd.grad((expected * weights).sum(), [states, block.dense.weight])
    result = torch.autograd.grad((block(states) * weights).sum(), [states, block.dense.weight])
    for gradient, other in zip(result, wanted, strict=True):
        assert torch.equal(gradient, other)


def test_defaults_are_those_of_transformers() -> None:
    from transformers import AutoConfig

    for model_type in TYPES:
        settings, config = DEFAULTS[model_type], AutoConfig.for_model(model_type)
        for name, value in settings.items():
            assert getattr(config, name) == value, (model_type, name)


def test_a_configuration_that_is_written_is_read_by_transformers(tmp_path: Path) -> None:
    from transformers import AutoConfig

    encoder = library_encoder("xlm-roberta-xl", hidden_act="relu")
    ours = same_of_ours(encoder, tmp_path / "theirs")
    ours.config.save_pretrained(tmp_path / "ours")
    again = AutoConfig.from_pretrained(tmp_path / "ours")
    for name in DEFAULTS["xlm-roberta-xl"]:
        assert getattr(again, name) == getattr(encoder.config, name)


def test_an_encoder_of_another_type_is_that_of_transformers(tmp_path: Path) -> None:
    from transformers import PreTrainedModel

    for encoder in (library_encoder("data2vec-text"), library_encoder("xlm-roberta", hidden_act="quick_gelu")):
        encoder.config.save_pretrained(tmp_path)
        assert isinstance(empty_encoder(tmp_path), PreTrainedModel)
    library_encoder("xlm-roberta").config.save_pretrained(tmp_path)
    assert isinstance(empty_encoder(tmp_path, trainable=True), PreTrainedModel)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"hidden_size": 0}, "hidden_size is 0; expected a positive whole number"),
        ({"num_attention_heads": 5}, "5 heads do not divide hidden_size 32"),
        ({"vocab_size": "many"}, "vocab_size is 'many'"),
        ({"pad_token_id": None}, "cannot build the encoder"),
    ],
)
def test_settings_that_make_no_encoder(settings: dict[str, Any], message: str, tmp_path: Path) -> None:
    content = {"model_type": "xlm-roberta", **SIZES, **settings}
    (tmp_path / "config.json").write_text(json.dumps(content))
    with pytest.raises(ModelError, match=message):
        empty_encoder(tmp_path)


def test_a_type_that_the_checkpoint_does_not_name(tmp_path: Path) -> None:
    EncoderConfig({"model_type": "bert", **SIZES}).save_pretrained(tmp_path)
    with pytest.raises(ModelError, match="an encoder of type bert, but the checkpoint has xlm-roberta"):
        empty_encoder(tmp_path, "xlm-roberta")
