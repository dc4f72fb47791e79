"""Random COMET checkpoints in the genuine format of unbabel-comet 2.2.7, of any size: nothing here is downloaded.

A folder as `comet.download_model` leaves it (`checkpoints/model.ckpt`, `hparams.yaml`), and beside these the encoder's
folder (configuration and tokenizer, no weights) that the hyper-parameters name. COMET itself is not needed to write
it. Weights are drawn as for random PEAR checkpoints; scores lie around 0.6 and spread beyond 1, where XCOMET cuts them.
The genuine files hold a few tensors that no reader needs, so these hold them too: the encoder's `position_ids`, the
masks of the layer dropout, the class weights of XCOMET's loss.

    write_random_comet(Path("comet"), kind="regression_metric", layers=12, hidden=384, heads=12, attention_gain=0.1)
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
import yaml

from tests.support.random_pear import (
    CORPUS,
    draw_weights,
    encoder_config,
    train_pieces,
    write_bert_tokenizer,
    write_tokenizer,
)

KINDS = ("regression_metric", "referenceless_regression_metric", "unified_metric", "xcomet_metric")
# Of classes whose estimator reads sentence vectors: how many.
VECTORS = {"regression_metric": 6, "referenceless_regression_metric": 4}
ENCODERS = {"xlm-roberta": "XLM-RoBERTa", "xlm-roberta-xl": "XLM-RoBERTa-XL", "bert": "BERT", "deberta-v2": "DeBERTa"}
# mDeBERTa knows places by their distance only, in buckets that grow.
ENCODER_SETTINGS: dict[str, dict[str, Any]] = {
    "bert": {"type_vocab_size": 2},
    "deberta-v2": {
        "type_vocab_size": 0,
        "relative_attention": True,
        "max_relative_positions": -1,
        "position_buckets": 16,
        "norm_rel_ebd": "layer_norm",
        "share_att_key": True,
        "pos_att_type": ["p2c", "c2p"],
        "position_biased_input": False,
    },
}
SEVERITIES = ["minor", "major", "critical"]
# The size of the layer mix's scalars before sparsemax: some layers get no weight at all, several get some.
MIX = 0.3


def write_random_comet(
    root: Path,
    *,
    kind: str = "regression_metric",
    layers: int = 2,
    hidden: int = 64,
    heads: int = 4,
    encoder: str = "xlm-roberta",
    hidden_sizes: Sequence[int] = (48, 24),
    layer_transformation: str = "sparsemax",
    layer_norm: bool = False,
    pool: str = "avg",
    seed: int = 1,
    max_tokens: int = 512,
    attention_gain: float = 1.0,
    pretrained_model: str | None = None,
    **hparams: Any,
) -> Path:
    """Write a checkpoint of one of `KINDS`, the same for the same arguments, and return `root`.

    `hparams` are further hyper-parameters of that class (`input_segments`, `word_level_training`, `activations`,
    `layer` ...). `pretrained_model` is what the checkpoint calls its encoder, by default the absolute path of
    `root/encoder`. Many random layers average all tokens into one vector; a small `attention_gain` keeps them apart.
    """
    from transformers import AutoModel

    folder = root.resolve() / "encoder"
    tokenizer, config = write_encoder(folder, encoder, layers=layers, hidden=hidden, heads=heads, max_tokens=max_tokens)
    settings = {
        **hyper_parameters(kind, layers),
        "encoder_model": ENCODERS[encoder],
        "pretrained_model": pretrained_model or str(folder),
        "hidden_sizes": list(hidden_sizes),
        "layer_transformation": layer_transformation,
        "layer_norm": layer_norm,
        **({"pool": pool} if kind in VECTORS else {}),
        **hparams,
    }
    pooler = {} if encoder == "deberta-v2" else {"add_pooling_layer": False}
    network = build_network(kind, AutoModel.from_config(config, **pooler), settings)
    draw_weights(network, seed, attention_gain)
    centre(network, tokenizer, settings, seed)
    write_lightning(root, network, settings)
    return root


def write_random_lite(root: Path, **shape: Any) -> Path:
    """An XCOMET-lite: the same as an XCOMET on DeBERTa, in the files of the hub's mixin, which keeps few settings."""
    import json

    from safetensors.torch import save_file

    write_random_comet(root, kind="xcomet_metric", encoder="deberta-v2", layer_transformation="softmax", **shape)
    checkpoint = root / "checkpoints" / "model.ckpt"
    content = torch.load(checkpoint, weights_only=True)
    kept = ("encoder_model", "hidden_sizes", "pretrained_model", "validation_data", "word_layer", "word_level_training")
    settings = {key: content["hyper_parameters"][key] for key in kept}
    (root / "config.json").write_text(json.dumps({**settings, "load_pretrained_weights": False}), encoding="utf-8")
    save_file({key: value.clone() for key, value in content["state_dict"].items()}, root / "model.safetensors")
    return root


def write_encoder(folder: Path, encoder: str, *, layers: int, hidden: int, heads: int, max_tokens: int) -> Any:
    """Write the encoder's folder, without weights, and return its tokenizer and configuration."""
    from transformers import AutoTokenizer

    from mbr.metrics.plain_encoder import load_deberta_tokenizer

    if encoder == "bert":
        write_bert_tokenizer(folder)
    elif encoder == "deberta-v2":
        write_deberta_tokenizer(folder)
    else:
        write_tokenizer(folder)
        # What transformers 5 writes about special tokens, transformers 4 cannot read; XLM-R's own file has no more.
        (folder / "tokenizer_config.json").write_text('{"model_max_length": 512}\n')
    # Both versions of transformers must draw the same weights, and version 5 reads this vocabulary in another way.
    tokenizer = load_deberta_tokenizer(folder) if encoder == "deberta-v2" else AutoTokenizer.from_pretrained(folder)
    config = encoder_config(
        encoder,
        tokenizer,
        layers=layers,
        hidden=hidden,
        heads=heads,
        max_tokens=max_tokens,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        **ENCODER_SETTINGS.get(encoder, {"type_vocab_size": 1}),
    )
    config.save_pretrained(folder)
    return tokenizer, config


def write_deberta_tokenizer(folder: Path) -> None:
    """A sentencepiece vocabulary as mDeBERTa ships it."""
    import json

    names = {"pad": "[PAD]", "bos": "[CLS]", "eos": "[SEP]", "unk": "[UNK]"}
    numbers: dict[str, Any] = {f"{name}_id": number for number, name in enumerate(names)}
    pieces: dict[str, Any] = {f"{name}_piece": piece for name, piece in names.items()}
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "spm.model").write_bytes(
        train_pieces(vocab_size=500, user_defined_symbols=["[MASK]"], **numbers, **pieces)
    )
    kind = {"tokenizer_class": "DebertaV2Tokenizer", "vocab_type": "spm"}
    settings = {**kind, "do_lower_case": False, "model_max_length": 512}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings), encoding="utf-8")
    (folder / "config.json").write_text('{"model_type": "deberta-v2"}\n')


def write_lightning(root: Path, network: Any, settings: dict[str, Any]) -> None:
    """The checkpoint as Lightning writes it, and its hyper-parameters beside it."""
    checkpoint = {
        "epoch": 1,
        "global_step": 1000,
        "pytorch-lightning_version": "1.8.2",
        "state_dict": {name: tensor.contiguous() for name, tensor in network.state_dict().items()},
        "loops": {},
        "callbacks": {},
        "optimizer_states": [],
        "lr_schedulers": [],
        "hparams_name": "kwargs",
        "hyper_parameters": settings,
    }
    file = root / "checkpoints" / "model.ckpt"
    file.parent.mkdir(parents=True, exist_ok=True)
    torch.save(checkpoint, file)
    (root / "hparams.yaml").write_text(yaml.safe_dump(settings), encoding="utf-8")


def hyper_parameters(kind: str, layers: int) -> dict[str, Any]:
    """Hyper-parameters of the released checkpoints of a class, without those that `write_random_comet` takes."""
    if kind not in KINDS:
        raise ValueError(f"{kind!r} is no class of checkpoints that can be drawn here; expected one of {KINDS}")
    common = {
        "activations": "Tanh",
        "batch_size": 4,
        "class_identifier": kind,
        "dropout": 0.1,
        "encoder_learning_rate": 1e-06,
        "final_activation": None,
        "keep_embeddings_frozen": True,
        "layerwise_decay": 0.95,
        "learning_rate": 1.5e-05,
        "load_pretrained_weights": False,
        "loss": "mse",
        "nr_frozen_epochs": 0.3,
        "optimizer": "AdamW",
        "train_data": [],
        "validation_data": [],
        "warmup_steps": 0,
    }
    if kind in VECTORS:
        return {**common, "layer": "mix"}
    unified = {**common, "sent_layer": "mix", "word_layer": layers, "loss_lambda": 0.65}
    if kind == "unified_metric":
        words = {"word_level_training": False, "error_labels": SEVERITIES[:2], "cross_entropy_weights": None}
        return {**unified, **words, "input_segments": ["mt", "src"]}
    return {
        **unified,
        "word_level_training": True,
        "error_labels": SEVERITIES,
        "cross_entropy_weights": [0.08, 0.486, 0.505, 0.533],
        "input_segments": ["mt", "src", "ref"],
    }


def build_network(kind: str, encoder: Any, settings: dict[str, Any]) -> Any:
    """Modules whose parameters have the names and shapes of COMET's."""
    units = encoder.config.hidden_size
    network = torch.nn.Module()
    network.encoder = torch.nn.Module()
    network.encoder.model = encoder
    positions = torch.arange(encoder.config.max_position_embeddings)[None]  # [1, positions]
    encoder.embeddings.register_buffer("position_ids", positions, persistent=True)
    if settings["layer" if kind in VECTORS else "sent_layer"] == "mix":
        network.layerwise_attention = layer_mix(encoder.config.num_hidden_layers + 1, settings["dropout"])
    network.estimator = torch.nn.Module()
    network.estimator.ff = feed_forward(units * VECTORS.get(kind, 1), settings)
    if settings.get("word_level_training"):
        labels = len(settings["error_labels"]) + 1
        network.hidden2tag = torch.nn.Linear(units, labels)
        if settings["cross_entropy_weights"]:
            network.wordloss = torch.nn.CrossEntropyLoss(weight=torch.tensor(settings["cross_entropy_weights"]))
    return network.eval()


def layer_mix(layers: int, dropout: float) -> Any:
    """A scalar for each layer, the embeddings' included, and one for all."""
    mix = torch.nn.Module()
    mix.scalar_parameters = torch.nn.ParameterList(torch.nn.Parameter(torch.zeros(1)) for _ in range(layers))
    mix.gamma = torch.nn.Parameter(torch.ones(1))
    if dropout:
        mix.register_buffer("dropout_mask", torch.zeros(layers))
        mix.register_buffer("dropout_fill", torch.full((layers,), -1e20))
    return mix


def feed_forward(units: int, settings: dict[str, Any]) -> Any:
    """Linear layers at the places 0, 3, 6 ..., each but the last followed by an activation and a dropout."""
    steps: list[Any] = []
    for size in settings["hidden_sizes"]:
        activation = getattr(torch.nn, settings["activations"].title())()
        steps += [torch.nn.Linear(units, size), activation, torch.nn.Dropout(settings["dropout"])]
        units = size
    return torch.nn.Sequential(*steps, torch.nn.Linear(units, 1))


def centre(network: Any, tokenizer: Any, settings: dict[str, Any], seed: int) -> None:
    """Put scores and labels where those of trained models are: scores around 0.6, a part of the tokens with an error.

    In a random encoder the first token's vector is almost the same for all texts. What they share, measured on
    some pairs of sentences, is taken off before the head of the classes that read that vector.
    """
    generator = torch.Generator().manual_seed(seed + 1)
    first, last = network.estimator.ff[0], network.estimator.ff[-1]
    mix = getattr(network, "layerwise_attention", None)
    with torch.no_grad():
        if mix is not None:
            for scalar in mix.scalar_parameters:
                scalar.copy_(MIX * torch.randn(1, generator=generator))
            mix.gamma.copy_(1 + 0.2 * torch.randn(1, generator=generator))
        last.weight *= 0.3
        last.bias.fill_(0.6)
        if "sent_layer" not in settings:
            return
        pairs = tokenizer(CORPUS, CORPUS[1:] + CORPUS[:1], padding=True, truncation=True, return_tensors="pt")
        output = network.encoder.model(
            input_ids=pairs["input_ids"], attention_mask=pairs["attention_mask"], output_hidden_states=True
        )
        states = torch.stack(output.hidden_states)  # [layers + 1, pairs, tokens, hidden]
        if mix is None:
            vectors = states[settings["sent_layer"], :, 0]  # [pairs, hidden]
        else:
            # Near enough to sparsemax for this purpose.
            weights = torch.softmax(torch.cat(list(mix.scalar_parameters)), dim=0)
            vectors = mix.gamma * torch.einsum("l,lph->ph", weights, states[:, :, 0])
        first.bias -= first.weight @ vectors.mean(dim=0)
        last.weight *= 0.25 / network.estimator.ff(vectors).std()
        if hasattr(network, "hidden2tag"):
            tokens = states[settings["word_layer"]][pairs["attention_mask"].bool()]  # [tokens of all pairs, hidden]
            tagger = network.hidden2tag
            tagger.weight *= 2 / tagger(tokens).std(dim=0)[:, None]
            tagger.bias -= tagger(tokens).mean(dim=0)
            tagger.bias[0] += 2.0
