"""The encoder and vocabulary of a CTranslate2 translation model, as the beginning of a metric.

A translation model of `candidates.training` is a pre-norm Transformer with one vocabulary for both languages. Its
encoder is, weight for weight, an XLM-RoBERTa-XL of another size: embeddings are scaled up as the translation model
does, sinusoids become the first value of learned positions. The tokenizer is the model's own sentencepiece, with
XLM-R's four special tokens in front. Nothing of the decoder is used.
"""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import torch

from candidates.common.errors import ModelError
from candidates.training.ct2_weights import read_ct2_weights

_SPECIALS = ("<s>", "<pad>", "</s>", "<unk>")


def start_from_translator(folder: Path, *, layers: int | None = None, positions: int = 256) -> tuple[Any, Any]:
    """(encoder, tokenizer) of the translation model in a folder; `layers` keeps only the first ones."""
    from transformers import AutoConfig, AutoModel

    weights = read_ct2_weights(folder / "model.bin")
    tokenizer = tokenizer_of_pieces(folder / "sentencepiece.model", positions)
    try:
        embedding = weights["encoder/embeddings_0/weight"]
        available = len({name.split("/")[1] for name in weights if re.match(r"encoder/layer_\d+/", name)})
        heads = int(weights["encoder/num_heads"]) if "encoder/num_heads" in weights else embedding.shape[1] // 64
        layers = min(layers or available, available)
        width = embedding.shape[1]
        config = AutoConfig.for_model(
            "xlm-roberta-xl",
            vocab_size=len(embedding) + 1,
            hidden_size=width,
            num_hidden_layers=layers,
            num_attention_heads=heads,
            intermediate_size=len(weights["encoder/layer_0/ffn/linear_0/weight"]),
            hidden_act="relu",
            max_position_embeddings=positions + 2,
            type_vocab_size=1,
            layer_norm_eps=1e-5,
            pad_token_id=1,
            bos_token_id=0,
            eos_token_id=2,
            hidden_dropout_prob=0.1,
            attention_probs_dropout_prob=0.0,
        )
        # On a CPU the backward pass of the fused attention is slower than that of plain matrix products.
        encoder = AutoModel.from_config(config, add_pooling_layer=False, attn_implementation="eager")
        state = _encoder_state(weights, layers, positions)
        copied = {name: torch.from_numpy(value.copy()) for name, value in state.items()}
        result = encoder.load_state_dict(copied, strict=False)
    except (KeyError, RuntimeError, ValueError) as exc:
        raise ModelError(
            f"{folder}: not a translation model of this package (pre-norm Transformer, one vocabulary): {exc}"
        ) from exc
    missing = [key for key in result.missing_keys if not key.endswith(("position_ids", "token_type_ids"))]
    if missing:
        raise ModelError(f"{folder}: the translation model lacks {missing[0]}")
    return encoder, tokenizer


def _encoder_state(weights: dict[str, Any], layers: int, positions: int) -> dict[str, Any]:
    """CTranslate2's names -> those of transformers' XLM-RoBERTa-XL."""
    table = weights["encoder/embeddings_0/weight"]  # unknown, start, end, padding, then pieces
    width = table.shape[1]
    words = np.concatenate([table[[1, 3, 2, 0]], table[3:]]) * math.sqrt(width)
    words[1] = 0  # padding
    places = np.zeros((positions + 2, width), np.float32)
    sinusoids = weights["encoder/position_encodings/encodings"]
    places[2 : 2 + min(positions, len(sinusoids))] = sinusoids[:positions]
    state = {
        "embeddings.word_embeddings.weight": words.astype(np.float32),
        "embeddings.position_embeddings.weight": places,
        "embeddings.token_type_embeddings.weight": np.zeros((1, width), np.float32),
        "encoder.LayerNorm.weight": weights["encoder/layer_norm/gamma"],
        "encoder.LayerNorm.bias": weights["encoder/layer_norm/beta"],
    }
    for k in range(layers):
        ours, theirs = f"encoder/layer_{k}", f"encoder.layer.{k}"
        for kind, joined in (("weight", 0), ("bias", 0)):
            parts = np.split(weights[f"{ours}/self_attention/linear_0/{kind}"], 3, axis=joined)
            for name, part in zip(("query", "key", "value"), parts, strict=True):
                state[f"{theirs}.attention.self.{name}.{kind}"] = part
            state[f"{theirs}.attention.output.dense.{kind}"] = weights[f"{ours}/self_attention/linear_1/{kind}"]
            state[f"{theirs}.intermediate.dense.{kind}"] = weights[f"{ours}/ffn/linear_0/{kind}"]
            state[f"{theirs}.output.dense.{kind}"] = weights[f"{ours}/ffn/linear_1/{kind}"]
        for norm, origin in (("attention.self_attn_layer_norm", "self_attention"), ("LayerNorm", "ffn")):
            state[f"{theirs}.{norm}.weight"] = weights[f"{ours}/{origin}/layer_norm/gamma"]
            state[f"{theirs}.{norm}.bias"] = weights[f"{ours}/{origin}/layer_norm/beta"]
    return state


def tokenizer_of_pieces(file: Path, positions: int) -> Any:
    """A fast tokenizer from a sentencepiece unigram model with bytes for unknown signs, special tokens as XLM-R's.

    Piece k of sentencepiece is token k + 1, from the fourth on: as XLM-R's tokenizer numbers them.
    """
    import sentencepiece
    from sentencepiece import sentencepiece_model_pb2
    from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    model = sentencepiece_model_pb2.ModelProto()  # type: ignore[attr-defined]
    model.ParseFromString(file.read_bytes())
    pieces = sentencepiece.SentencePieceProcessor(model_file=str(file))
    names = [(name, 0.0) for name in _SPECIALS]
    names += [(pieces.id_to_piece(k), pieces.get_score(k)) for k in range(3, pieces.get_piece_size())]
    names[4] = ("<unused>", 0.0)  # sentencepiece's own padding
    tokenizer = Tokenizer(models.Unigram(names, unk_id=3, byte_fallback=True))
    tokenizer.normalizer = normalizers.Sequence(
        [
            normalizers.Precompiled(model.normalizer_spec.precompiled_charsmap),  # NFKC with exceptions of its own
            normalizers.NFC(),  # what the line above leaves apart in long clusters
            normalizers.Replace(Regex("[ ▁]+"), " "),
            normalizers.Strip(),
        ]
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="always")
    tokenizer.decoder = decoders.Metaspace(replacement="▁", prepend_scheme="always")
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A </s> </s> $B </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token="<s>",
        eos_token="</s>",
        cls_token="<s>",
        sep_token="</s>",
        pad_token="<pad>",
        unk_token="<unk>",
        model_max_length=positions,
    )
