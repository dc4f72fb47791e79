"""Random BLEURT and MetricX checkpoints in the genuine formats, of any size: nothing here is downloaded.

BLEURT as bleurt-pytorch writes it, with sentencepiece like BLEURT-20 or word pieces like the versions before it;
MetricX-24 as Google released it, with a tokenizer like mT5's beside it. Names and shapes of all weights are spelled out
here, so that the reader is checked against an independent description. Weights are drawn wide enough that scores
differ between texts; those of MetricX lie between 0 and 25, hardly any on the edge.

    write_random_bleurt(Path("bleurt"), layers=12, hidden=384)
    write_random_metricx(Path("metricx"), shards=2, safetensors=True)
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from tests.support.random_pear import (
    draw_weights,
    encoder_config,
    train_pieces,
    write_bert_tokenizer,
    write_tokenizer,
)

Shapes = Iterator[tuple[str, tuple[int, ...]]]

MT5_VOCABULARY = 250112


def write_random_bleurt(
    root: Path,
    *,
    layers: int = 2,
    hidden: int = 32,
    heads: int = 4,
    embedding: int | None = 16,
    max_tokens: int = 512,
    attention_gain: float = 1.0,
    seed: int = 1,
    shards: int = 1,
    safetensors: bool = False,
) -> Path:
    """A BLEURT, the same for the same arguments; without an `embedding` size one of those before BLEURT-20.

    Many random layers average all tokens into one vector; a small `attention_gain` keeps them apart.
    """
    root.mkdir(parents=True, exist_ok=True)
    if embedding is None:
        write_bert_tokenizer(root)
        vocabulary = len((root / "vocab.txt").read_text(encoding="utf-8").splitlines())
    else:
        vocabulary = _write_bleurt_pieces(root)
    config = {
        "architectures": ["BleurtForSequenceClassification"],
        "attention_probs_dropout_prob": 0.1,
        "classifier_dropout": None,
        "embedding_size": embedding,
        "hidden_act": "gelu",
        "hidden_dropout_prob": 0.1,
        "hidden_size": hidden,
        "id2label": {"0": "LABEL_0"},
        "initializer_range": 0.02,
        "intermediate_size": 4 * hidden,
        "label2id": {"LABEL_0": 0},
        "layer_norm_eps": 1e-12,
        "max_position_embeddings": max_tokens,
        "model_type": "bleurt",
        "num_attention_heads": heads,
        "num_hidden_layers": layers,
        "pad_token_id": 0,
        "position_embedding_type": "absolute",
        "torch_dtype": "float32",
        "type_vocab_size": 2,
        "use_cache": False,
        "vocab_size": vocabulary,
    }
    _write_json(root / "config.json", config)

    def scale(name: str, shape: tuple[int, ...]) -> float:
        if "_embeddings" in name:
            return 1.0
        gain = attention_gain if "attention.output.dense" in name else 1.0
        return gain * (1.5 / shape[1] ** 0.5 if len(shape) > 1 else 0.1)

    state = _draw(_bleurt_shapes(config), scale, seed)
    state["bleurt.embeddings.position_ids"] = torch.arange(max_tokens)[None]  # a buffer that genuine files hold too
    write_weights(root, state, shards=shards, safetensors=safetensors)
    return root


def write_random_metricx(
    root: Path,
    *,
    layers: int = 2,
    hidden: int = 16,
    heads: int = 2,
    vocabulary: int = MT5_VOCABULARY,
    tied: bool = False,
    tokenizer: bool = True,
    seed: int = 1,
    shards: int = 1,
    safetensors: bool = False,
) -> Path:
    """A MetricX-24, the same for the same arguments. `tied`: one embedding for input and output, and no other in it."""
    root.mkdir(parents=True, exist_ok=True)
    if tokenizer:
        write_mt5_tokenizer(root)
    config = _metricx_config(layers, hidden, heads, vocabulary, tied)
    _write_json(root / "config.json", config)

    def scale(name: str, shape: tuple[int, ...]) -> float:
        if name in ("shared.weight", "lm_head.weight"):
            return 1.0
        # mT5 does not scale the products of queries and keys; its query weights are small instead.
        return (math.sqrt(heads / hidden) if name.endswith(".q.weight") else 1.5) / math.sqrt(shape[1])

    state = _draw(_metricx_shapes(config), scale, seed)
    # The decoder starts from entry 0: an output row along that makes most scores positive.
    state["shared.weight"][0] = 4.0
    output = state["shared.weight"] if tied else state["lm_head.weight"]
    if tied:
        del state["lm_head.weight"]
    if vocabulary > 250089:
        row = output[250089]
        row.copy_((12 / hidden + row * (4 / hidden**0.5)) * (hidden**0.5 if tied else 1.0))
    write_weights(root, state, shards=shards, safetensors=safetensors)
    return root


def write_random_encoder(
    root: Path, model_type: str, *, layers: int = 3, hidden: int = 32, heads: int = 4, seed: int = 1
) -> Path:
    """An encoder of transformers with weights, as BERTScore takes them, the same for the same arguments."""
    from transformers import AutoModel, AutoTokenizer

    from mbr.metrics.plain_encoder import load_deberta_tokenizer
    from tests.support.random_comet import ENCODER_SETTINGS, write_deberta_tokenizer

    writers = {"bert": write_bert_tokenizer, "roberta": write_roberta_tokenizer, "deberta-v2": write_deberta_tokenizer}
    writers.get(model_type, write_tokenizer)(root)
    tokenizer = load_deberta_tokenizer(root) if model_type == "deberta-v2" else AutoTokenizer.from_pretrained(root)
    settings = ENCODER_SETTINGS.get(model_type, {"type_vocab_size": 1})
    size = {"layers": layers, "hidden": hidden, "heads": heads, "max_tokens": 512}
    config = encoder_config(model_type, tokenizer, **size, **settings)
    config.save_pretrained(root)
    network = AutoModel.from_config(config).eval()
    draw_weights(network, seed, 1.0)
    write_weights(root, {name: value.contiguous() for name, value in network.state_dict().items()})
    return root


def write_roberta_tokenizer(root: Path) -> None:
    """A vocabulary of bytes as RoBERTa ships it, without merges but a few: a space is part of the word behind it."""
    from tokenizers.pre_tokenizers import ByteLevel

    letters = sorted(ByteLevel.alphabet())
    merges = ["\u0120 D", "\u0120 E", "e r", "u n", "\u0120 H", "H un"]
    pieces = ["<s>", "<pad>", "</s>", "<unk>", *letters, *(merge.replace(" ", "") for merge in merges), "<mask>"]
    root.mkdir(parents=True, exist_ok=True)
    _write_json(root / "vocab.json", {piece: number for number, piece in enumerate(pieces)})
    (root / "merges.txt").write_text("#version: 0.2\n" + "".join(f"{merge}\n" for merge in merges), encoding="utf-8")
    _write_json(root / "tokenizer_config.json", {"tokenizer_class": "RobertaTokenizer", "model_max_length": 512})
    _write_json(root / "config.json", {"model_type": "roberta"})


def write_mt5_tokenizer(root: Path) -> None:
    """A sentencepiece vocabulary as mT5 ships it: padding, end and unknown first, then bytes, then pieces."""
    pieces = train_pieces(pad_id=0, eos_id=1, unk_id=2, bos_id=-1, byte_fallback=True, vocab_size=800)
    root.mkdir(parents=True, exist_ok=True)
    (root / "spiece.model").write_bytes(pieces)
    specials = {"eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"}
    _write_json(root / "special_tokens_map.json", specials)
    _write_json(root / "tokenizer_config.json", {**specials, "extra_ids": 0, "tokenizer_class": "T5Tokenizer"})
    if not (root / "config.json").exists():
        _write_json(root / "config.json", {"model_type": "mt5"})


def write_weights(root: Path, state: dict[str, Tensor], *, shards: int = 1, safetensors: bool = False) -> None:
    """Weights as transformers writes them: one file, or several and an index."""
    from safetensors.torch import save_file

    stem, suffix = ("model", "safetensors") if safetensors else ("pytorch_model", "bin")

    def write(part: dict[str, Tensor], name: str) -> None:
        part = {key: value.clone() for key, value in part.items()}
        if safetensors:
            save_file(part, root / name, metadata={"format": "pt"})
        else:
            torch.save(part, root / name)

    if shards == 1:
        write(state, f"{stem}.{suffix}")
        return
    places = {}
    for shard in range(shards):
        name = f"{stem}-{shard + 1:05}-of-{shards:05}.{suffix}"
        part = {key: state[key] for key in sorted(state)[shard::shards]}
        write(part, name)
        places.update(dict.fromkeys(part, name))
    size = sum(value.numel() * value.element_size() for value in state.values())
    _write_json(root / f"{stem}.{suffix}.index.json", {"metadata": {"total_size": size}, "weight_map": places})


def _bleurt_shapes(config: dict[str, Any]) -> Shapes:
    hidden, inner = config["hidden_size"], config["intermediate_size"]
    embedding = config["embedding_size"] or hidden
    for name, count in (
        ("word", config["vocab_size"]),
        ("position", config["max_position_embeddings"]),
        ("token_type", config["type_vocab_size"]),
    ):
        yield f"bleurt.embeddings.{name}_embeddings.weight", (count, embedding)
    yield from _norm("bleurt.embeddings.LayerNorm", embedding)
    if config["embedding_size"] is not None:
        yield from _dense("bleurt.encoder.embedding_projection", embedding, hidden)
    for layer in range(config["num_hidden_layers"]):
        prefix = f"bleurt.encoder.layer.{layer}"
        for name in ("self.query", "self.key", "self.value", "output.dense"):
            yield from _dense(f"{prefix}.attention.{name}", hidden, hidden)
        yield from _norm(f"{prefix}.attention.output.LayerNorm", hidden)
        yield from _dense(f"{prefix}.intermediate.dense", hidden, inner)
        yield from _dense(f"{prefix}.output.dense", inner, hidden)
        yield from _norm(f"{prefix}.output.LayerNorm", hidden)
    yield from _dense("bleurt.pooler.dense", hidden, hidden)
    yield from _dense("classifier", hidden, 1)


def _metricx_config(layers: int, hidden: int, heads: int, vocabulary: int, tied: bool) -> dict[str, Any]:
    """The configuration of the released checkpoints, except for the size."""
    return {
        "architectures": ["MT5ForRegression"],
        "d_ff": 2 * hidden,
        "d_kv": hidden // heads,
        "d_model": hidden,
        "decoder_start_token_id": 0,
        "dropout_rate": 0.1,
        "eos_token_id": 1,
        "feed_forward_proj": "gated-gelu",
        "initializer_factor": 1.0,
        "is_encoder_decoder": True,
        "layer_norm_epsilon": 1e-06,
        "model_type": "mt5",
        "num_decoder_layers": layers,
        "num_heads": heads,
        "num_layers": layers,
        "output_past": True,
        "pad_token_id": 0,
        "relative_attention_max_distance": 128,
        "relative_attention_num_buckets": 32,
        "tie_word_embeddings": tied,
        "tokenizer_class": "T5Tokenizer",
        "torch_dtype": "float32",
        "use_cache": True,
        "vocab_size": vocabulary,
    }


def _metricx_shapes(config: dict[str, Any]) -> Shapes:
    hidden, inner, heads = config["d_model"], config["d_ff"], config["num_heads"]
    width = heads * config["d_kv"]
    yield "shared.weight", (config["vocab_size"], hidden)
    yield "lm_head.weight", (config["vocab_size"], hidden)
    for stack, parts in (("encoder", ["SelfAttention"]), ("decoder", ["SelfAttention", "EncDecAttention"])):
        yield f"{stack}.final_layer_norm.weight", (hidden,)
        for block in range(config["num_layers"]):
            prefix = f"{stack}.block.{block}.layer"
            for place, part in enumerate(parts):
                for name in "qkv":
                    yield f"{prefix}.{place}.{part}.{name}.weight", (width, hidden)
                yield f"{prefix}.{place}.{part}.o.weight", (hidden, width)
                yield f"{prefix}.{place}.layer_norm.weight", (hidden,)
            for name, shape in (("wi_0", (inner, hidden)), ("wi_1", (inner, hidden)), ("wo", (hidden, inner))):
                yield f"{prefix}.{len(parts)}.DenseReluDense.{name}.weight", shape
            yield f"{prefix}.{len(parts)}.layer_norm.weight", (hidden,)
        buckets = config["relative_attention_num_buckets"]
        yield f"{stack}.block.0.layer.0.SelfAttention.relative_attention_bias.weight", (buckets, heads)


def _dense(name: str, inputs: int, outputs: int) -> Shapes:
    yield f"{name}.weight", (outputs, inputs)
    yield f"{name}.bias", (outputs,)


def _norm(name: str, width: int) -> Shapes:
    yield f"{name}.weight", (width,)
    yield f"{name}.bias", (width,)


def _draw(shapes: Shapes, scale: Callable[[str, tuple[int, ...]], float], seed: int) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    state = {}
    for name, shape in sorted(shapes):
        noise = torch.randn(shape, generator=generator)
        norm = "norm" in name.lower()
        state[name] = noise * (0.1 if norm else scale(name, shape)) + float(norm and name.endswith("weight"))
    return state


def _write_bleurt_pieces(root: Path) -> int:
    pieces = train_pieces(
        pad_id=0,
        pad_piece="[PAD]",
        unk_id=1,
        unk_piece="[UNK]",
        bos_id=2,
        bos_piece="[CLS]",
        eos_id=3,
        eos_piece="[SEP]",
        control_symbols=["[MASK]"],
        vocab_size=500,
    )
    (root / "spm.model").write_bytes(pieces)
    specials = {f"{name}_token": f"[{name.upper()}]" for name in ("cls", "mask", "pad", "sep", "unk")}
    specials |= {"bos_token": "[CLS]", "eos_token": "[SEP]"}
    _write_json(root / "special_tokens_map.json", specials)
    settings = {"do_lower_case": False, "split_by_punct": False, "sp_model_kwargs": {}}
    _write_json(root / "tokenizer_config.json", {**specials, **settings, "tokenizer_class": "BleurtSPTokenizer"})
    import sentencepiece

    return len(sentencepiece.SentencePieceProcessor(model_proto=pieces))


def _write_json(file: Path, content: dict[str, Any]) -> None:
    file.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
