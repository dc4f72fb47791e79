"""Writes a trained `network.Translator` as a CTranslate2 model folder, without another format in between."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import sentencepiece
import torch

from candidates.backends.ct2_model import SIDECAR
from candidates.training.network import Attention, Layer, Translator


def write_translator(model: Translator, sentencepiece_file: Path, folder: Path, *, quantization: str = "int8") -> None:
    """Fill CTranslate2's Transformer with the weights and save it, with its vocabulary and tokenizer, in `folder`."""
    from ctranslate2.specs import TransformerSpec

    sizes = model.sizes
    spec = TransformerSpec.from_config((sizes.encoder_layers, sizes.decoder_layers), sizes.heads, pre_norm=True)
    positions = _array(model.positions)
    embedding = _array(model.embedding.weight)
    for side, layers, norm in (
        (spec.encoder, model.encoder, model.encoder_norm),
        (spec.decoder, model.decoder, model.decoder_norm),
    ):
        side.position_encodings.encodings = positions
        _norm(side.layer_norm, norm)
        for target, layer in zip(side.layer, layers, strict=True):
            _layer(target, layer)
    spec.encoder.embeddings[0].weight = embedding
    spec.decoder.embeddings.weight = embedding
    spec.decoder.projection.weight = embedding
    spec.decoder.projection.bias = _array(model.output_bias)

    pieces = sentencepiece.SentencePieceProcessor(model_file=str(sentencepiece_file))
    vocabulary = [pieces.id_to_piece(k) for k in range(pieces.get_piece_size())]
    spec.register_source_vocabulary(vocabulary)
    spec.register_target_vocabulary(vocabulary)
    spec.config.bos_token = "<s>"
    spec.config.eos_token = "</s>"
    spec.config.unk_token = "<unk>"
    spec.config.decoder_start_token = "<s>"
    spec.config.add_source_bos = False
    spec.config.add_source_eos = True
    spec.validate()
    spec.optimize(quantization=quantization)
    folder.mkdir(parents=True, exist_ok=True)
    spec.save(str(folder))
    shutil.copyfile(sentencepiece_file, folder / "sentencepiece.model")
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    (folder / "config.json").write_text(json.dumps(config, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    (folder / SIDECAR).write_text(json.dumps({"positions": sizes.positions}, indent=2) + "\n", encoding="utf-8")


def _array(tensor: torch.Tensor) -> Any:
    """A copy: CTranslate2 quantizes in place, and the weights of the model must not change."""
    return tensor.detach().float().cpu().numpy().copy()


def _norm(target: Any, norm: Any) -> None:
    target.gamma = _array(norm.weight)
    target.beta = _array(norm.bias)


def _linear(target: Any, *layers: Any) -> None:
    target.weight = _array(torch.cat([layer.weight for layer in layers]))
    target.bias = _array(torch.cat([layer.bias for layer in layers]))


def _attention(target: Any, attention: Attention, norm: Any, *, to_itself: bool) -> None:
    _norm(target.layer_norm, norm)
    if to_itself:
        _linear(target.linear[0], attention.query, attention.key, attention.value)
    else:
        _linear(target.linear[0], attention.query)
        _linear(target.linear[1], attention.key, attention.value)
    _linear(target.linear[-1], attention.output)


def _layer(target: Any, layer: Layer) -> None:
    _attention(target.self_attention, layer.self_attention, layer.self_norm, to_itself=True)
    if layer.attention is not None:
        _attention(target.attention, layer.attention, layer.norm, to_itself=False)
    _norm(target.ffn.layer_norm, layer.feed_norm)
    _linear(target.ffn.linear_0, layer.expand)
    _linear(target.ffn.linear_1, layer.contract)
