"""What a training run begins with: a trained model, an encoder, translation models, or nothing.

begin("pear", Origin(encoder="microsoft/infoxlm-large"))        # a hub encoder under a fresh head
begin("pear", Origin(model="pear"))                             # start from the released checkpoint
begin("single", Origin(model="my-pear"))                        # its weights in another kind of model
begin("pear", Origin(layers=4, hidden=256), texts)              # from scratch, vocabulary learned from the texts
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from candidates.common.errors import InputError, ModelError, UsageError
from candidates.common.words import counted
from candidates.training.loop import learn_pieces
from pear.checkpoint import Checkpoint, load_checkpoint
from pear.model import HeadConfig, ResumeMetricNetwork, build_network
from pear.runtime.hub import ENCODER_WEIGHTS, fetch
from pear.runtime.reader import TranslationReader
from pear.runtime.shapes import READER, EncoderConfig
from pear.training.origin import Origin
from pear.training.reader import LAYERS, start_from_translators
from pear.training.recipe import Kind
from pear.training.translator import start_from_translator, tokenizer_of_pieces


def begin(kind: Kind, origin: Origin, texts: Iterable[str] = (), *, seed: int = 1) -> Checkpoint:
    """The network of a kind with its first weights, and its tokenizer; what is drawn at random follows the seed."""
    torch.manual_seed(seed)
    if origin.model is not None:
        return _from_model(kind, origin)
    if origin.encoder is not None:
        encoder, tokenizer = _from_encoder(origin)
        name = origin.encoder
    elif origin.translators is not None:
        encoder, tokenizer = _from_translators(*map(Path, origin.translators), origin=origin)
        name = Path(origin.translators[0]).name
    else:
        encoder, tokenizer = _from_nothing(origin, texts)
        name = "scratch"
    return Checkpoint(build_network(kind, encoder, _head(kind, origin)), tokenizer, name)


def _head(kind: Kind, origin: Origin) -> HeadConfig:
    config = ResumeMetricNetwork.HEAD if kind == "resume" else HeadConfig()
    return replace(
        config,
        hidden_sizes=origin.hidden_sizes or config.hidden_sizes,
        dropout=origin.dropout,
        architecture=origin.architecture or config.architecture,
    )


def _from_model(kind: Kind, origin: Origin) -> Checkpoint:
    """A trained model as it is; or, where another kind is wanted, its encoder, and its head if that fits too."""
    checkpoint = load_checkpoint(
        str(origin.model),
        revision=origin.revision,
        cache_dir=origin.cache_dir,
        local_files_only=origin.offline,
        kind=None,
        trainable=True,
    )
    before = checkpoint.network
    same_head = kind == before.kind or "resume" not in (kind, before.kind)
    if same_head and origin.hidden_sizes is not None:
        raise UsageError("hidden_sizes is for a fresh head; the model has one")
    if same_head and origin.architecture not in (None, before.config.architecture):
        raise UsageError(f"the model has the architecture {before.config.architecture}, not {origin.architecture}")
    if isinstance(before.encoder, TranslationReader) and origin.architecture == "comet":
        raise UsageError(
            "architecture comet encodes each text alone, the model's two translators read them together; leave the "
            "architecture out, or begin with another model"
        )
    if before.kind == kind:
        return checkpoint
    network = build_network(kind, before.encoder, before.config if same_head else _head(kind, origin))
    if same_head:
        network.head.load_state_dict(before.head.state_dict())
    return replace(checkpoint, network=network)


def _from_encoder(origin: Origin) -> tuple[Any, Any]:
    from safetensors import SafetensorError
    from transformers import AutoModel, AutoTokenizer

    wanted = str(origin.encoder)
    folder = Path(wanted).expanduser()
    if not folder.is_dir():
        if wanted.startswith((".", "/", "~")):
            raise ModelError(f"{folder} does not exist; expected a folder with an encoder, or a hub name")
        folder = fetch(
            wanted,
            revision=origin.revision,
            cache_dir=origin.cache_dir,
            local_files_only=origin.offline,
            files=ENCODER_WEIGHTS,
        )
    if _is_reader(folder):
        raise ModelError(
            f"{folder} is a metric over two translation models, not an encoder of transformers; give it by --from, or "
            "begin with its translation models (--from-translator FOLDER FOLDER)"
        )
    try:
        encoder, loading = AutoModel.from_pretrained(
            folder, add_pooling_layer=False, trust_remote_code=False, output_loading_info=True
        )
        tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
    except (OSError, ValueError, TypeError, KeyError, RuntimeError, SafetensorError) as exc:
        raise ModelError(f"{folder}: cannot be loaded as an encoder: {exc}") from exc
    missing = sorted(loading["missing_keys"])
    if missing:
        raise ModelError(
            f"{folder}: not in it: {counted(len(missing), 'weight')} of the encoder, e.g. {missing[0]}; a trained "
            "metric is given by --from"
        )
    return encoder.float(), tokenizer


def _is_reader(folder: Path) -> bool:
    """Whether a folder's encoder is our own, which transformers does not know; False where that cannot be read."""
    try:
        config = EncoderConfig.of_folder(folder)
    except (OSError, ValueError, ModelError):  # what is wrong, transformers finds
        return False
    return config is not None and config.model_type == READER


def _from_translators(forward: Path, backward: Path | None = None, *, origin: Origin) -> tuple[Any, Any]:
    if backward is None:
        return start_from_translator(forward, layers=origin.layers)
    return start_from_translators(forward, backward, layers=origin.layers or LAYERS, dropout=origin.dropout)


def _from_nothing(origin: Origin, texts: Iterable[str]) -> tuple[Any, Any]:
    from transformers import AutoConfig, AutoModel

    corpus = list(texts)
    if not corpus:
        raise InputError("no texts to learn a vocabulary from")
    with tempfile.TemporaryDirectory() as scratch:
        pieces = Path(scratch, "sentencepiece.model")
        try:
            learn_pieces(corpus, origin.vocabulary or 8000, pieces)
        except RuntimeError as exc:  # the message of sentencepiece has the reason, at length
            raise InputError(
                f"no vocabulary of {origin.vocabulary or 8000} pieces can be learned from these texts: {exc}"
            ) from exc
        tokenizer = tokenizer_of_pieces(pieces, origin.positions)
    config = AutoConfig.for_model(
        "xlm-roberta",
        vocab_size=len(tokenizer),
        hidden_size=origin.hidden or 256,
        num_hidden_layers=origin.layers or 4,
        num_attention_heads=origin.heads or 4,
        intermediate_size=4 * (origin.hidden or 256),
        max_position_embeddings=origin.positions + 2,
        type_vocab_size=1,
        pad_token_id=tokenizer.pad_token_id,
        hidden_dropout_prob=origin.dropout,
        attention_probs_dropout_prob=origin.dropout,
    )
    return AutoModel.from_config(config, add_pooling_layer=False), tokenizer
