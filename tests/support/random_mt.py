"""Random translation models in the genuine transformers formats: Marian, M2M100, NLLB, T5 (MADLAD). Nothing is downloaded.

Tests need real folders (tokenizers, configurations, weights), not good translations. Weights are wide enough that
hypotheses differ and end.
"""  # noqa: E501

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch

from tests.support.random_pear import train_pieces

FAMILIES = ("marian", "m2m100", "nllb", "t5")
SIZES = {"d_model": 32, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4,
         "decoder_attention_heads": 4, "encoder_ffn_dim": 64, "decoder_ffn_dim": 64}  # fmt: skip

# Seed and scale of the end token's vector: so that some hypotheses of a beam end early and some do not.
DRAWS = {"marian": (1, -1.5), "m2m100": (4, 4.0), "nllb": (7, 4.0), "t5": (1, 1.0)}


def write_random_translator(family: str, folder: Path, *, positions: int = 128) -> None:
    """A folder as `save_pretrained` writes it, model and tokenizer, always with the same weights."""
    folder.mkdir(parents=True, exist_ok=True)
    model = {"marian": _marian, "m2m100": _m2m100, "nllb": _nllb, "t5": _t5}[family](folder, positions)
    seed, ending = DRAWS[family]
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, weight in sorted(model.named_parameters()):
            if weight.dim() > 1 and "embed_positions" not in name:
                weight.copy_(torch.randn(weight.shape, generator=generator) * (1.2 / weight.shape[1] ** 0.5))
        embedding = model.get_input_embeddings().weight
        embedding[model.config.eos_token_id] *= ending
        if family == "marian":
            embedding[model.config.pad_token_id] = 0  # where Marian's decoder starts
    model.save_pretrained(folder)


def _marian(folder: Path, positions: int) -> Any:
    from transformers import MarianConfig, MarianMTModel, MarianTokenizer

    pieces = _sentencepiece(folder / "source.spm")
    _sentencepiece(folder / "target.spm")
    vocabulary = ["</s>", "<unk>", *(piece for piece in pieces if not piece.startswith("<")), "<pad>"]
    (folder / "vocab.json").write_text(json.dumps({piece: id for id, piece in enumerate(vocabulary)}))
    (folder / "tokenizer_config.json").write_text('{"source_lang": "en", "target_lang": "de"}\n')
    MarianTokenizer.from_pretrained(folder).save_pretrained(folder)
    pad = len(vocabulary) - 1
    config = MarianConfig(
        vocab_size=len(vocabulary), decoder_vocab_size=len(vocabulary), pad_token_id=pad, eos_token_id=0,
        decoder_start_token_id=pad, forced_eos_token_id=None, max_position_embeddings=positions,
        scale_embedding=True, activation_function="swish", static_position_embeddings=True, **SIZES,
    )  # fmt: skip
    return MarianMTModel(config)


def _m2m100(folder: Path, positions: int) -> Any:
    from transformers import M2M100Tokenizer

    pieces = _sentencepiece(folder / "sentencepiece.bpe.model")
    vocabulary = ["<s>", "<pad>", "</s>", "<unk>", *(piece for piece in pieces if not piece.startswith("<"))]
    (folder / "vocab.json").write_text(json.dumps({piece: id for id, piece in enumerate(vocabulary)}))
    tokenizer = M2M100Tokenizer(str(folder / "vocab.json"), str(folder / "sentencepiece.bpe.model"), src_lang="en")
    tokenizer.save_pretrained(folder)
    size = len(vocabulary) + len(tokenizer.lang_code_to_token) + tokenizer.num_madeup_words
    return _m2m_model(size, positions)


def _nllb(folder: Path, positions: int) -> Any:
    from transformers import AutoTokenizer, NllbTokenizer

    _sentencepiece(folder / "sentencepiece.bpe.model")
    languages = ["deu_Latn", "eng_Latn", "fra_Latn"]
    settings = {"tokenizer_class": "NllbTokenizer", "src_lang": "eng_Latn", "additional_special_tokens": languages}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    (folder / "config.json").write_text('{"model_type": "m2m_100"}\n')
    tokenizer = NllbTokenizer.from_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return _m2m_model(len(AutoTokenizer.from_pretrained(folder)), positions)


def _m2m_model(vocabulary: int, positions: int) -> Any:
    from transformers import M2M100Config, M2M100ForConditionalGeneration

    config = M2M100Config(
        vocab_size=vocabulary, max_position_embeddings=positions, scale_embedding=True, pad_token_id=1, bos_token_id=0,
        eos_token_id=2, decoder_start_token_id=2, **SIZES,
    )  # fmt: skip
    return M2M100ForConditionalGeneration(config)


def _t5(folder: Path, positions: int) -> Any:
    from transformers import AutoTokenizer, T5Config, T5ForConditionalGeneration

    _sentencepiece(folder / "spiece.model", user_defined_symbols=["<2de>", "<2en>"], pad_id=0, eos_id=1, unk_id=2)
    (folder / "tokenizer_config.json").write_text('{"tokenizer_class": "T5Tokenizer", "extra_ids": 0}\n')
    (folder / "config.json").write_text('{"model_type": "t5"}\n')
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokenizer.save_pretrained(folder)
    config = T5Config(
        vocab_size=len(tokenizer), d_model=32, d_kv=8, d_ff=64, num_layers=2, num_decoder_layers=2, num_heads=4,
        decoder_start_token_id=0, feed_forward_proj="gated-gelu", tie_word_embeddings=False,
    )  # fmt: skip
    return T5ForConditionalGeneration(config)


def _sentencepiece(file: Path, **options: Any) -> list[str]:
    """Train a vocabulary on a few sentences, write it, and return its pieces."""
    import sentencepiece

    model = train_pieces(**{"vocab_size": 400, "bos_id": -1} | options)
    file.write_bytes(model)
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    return [processor.id_to_piece(id) for id in range(processor.get_piece_size())]
