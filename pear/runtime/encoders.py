"""Parts of every neural metric: an encoder in its shape, its tokenizer, its weights.

The encoder's configuration and tokenizer are a folder or a hub repository; its weights come with the metric's own.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import torch
from torch import nn

from candidates.common.errors import ModelError
from candidates.common.words import counted
from pear.runtime.hub import ENCODER_FILES, REVISIONS, fetch
from pear.runtime.probes import PROBES
from pear.runtime.reader import TranslationReader
from pear.runtime.shapes import READER, EncoderConfig
from pear.runtime.stamps import Stamp, remembered
from pear.runtime.tokenization import FastTokenizer
from pear.runtime.transformer import Transformer

FEW_WEIGHTS = 2**20  # are digested in no time


def locate_encoder(
    named: str | Path | None, recorded: str, root: Path, revision: str | None, hub: dict[str, Any]
) -> Path:
    """The encoder's configuration and tokenizer: a folder or hub name from the user, or the recorded one.

    What the checkpoint recorded may have moved: it is looked for beside it too.
    """
    wanted = str(named or recorded)
    local = wanted.startswith((".", "/", "~"))
    beside = [] if named else [root / wanted, root / "encoder"]
    for folder in [Path(wanted).expanduser(), *beside]:
        if (folder / "config.json").is_file():
            return folder
    if local:
        raise ModelError(
            f"the encoder folder {wanted} does not exist or has no config.json; give the folder of its configuration "
            "and tokenizer (--encoder FOLDER)"
        )
    try:
        return fetch(wanted, revision=revision or REVISIONS.get(wanted), files=ENCODER_FILES, **hub)
    except ModelError as exc:
        raise ModelError(
            f"the checkpoint needs the configuration and tokenizer of its encoder {wanted}: {exc}; a local folder "
            "may be given instead (--encoder FOLDER)"
        ) from exc


def empty_encoder(folder: Path, kind: str | None = None, *, trainable: bool = False) -> Any:
    """The encoder in its shape, without weights (`fill_weights`) and without the pooler, which no metric uses.

    It is one of `pear.runtime.transformer`; or transformers' own for other model types, and where it is to be trained.
    """
    try:
        config = EncoderConfig.of_folder(folder)
        with torch.device("meta"):  # to draw billions of random weights would take longer than to read the real ones
            if config is not None and config.model_type == READER:
                encoder: Any = TranslationReader(config)
            else:
                encoder = _transformers_encoder(folder) if config is None or trainable else Transformer(config)
        model_type = encoder.config.model_type
        if kind is not None and model_type != kind:
            raise ModelError(f"{folder}: an encoder of type {model_type}, but the checkpoint has {kind}")
        make_buffers(encoder)
        return encoder
    except (OSError, ValueError, TypeError, KeyError) as exc:
        raise ModelError(f"{folder}: cannot build the encoder from this configuration: {exc}") from exc


def _transformers_encoder(folder: Path) -> Any:
    from transformers import AutoConfig, AutoModel

    config = AutoConfig.from_pretrained(folder, trust_remote_code=False)
    return AutoModel.from_config(config, add_pooling_layer=False, trust_remote_code=False)


def make_buffers(encoder: Any) -> None:
    """What an encoder made on the device `meta` holds besides its weights, and no file stores: positions and types."""
    for name, buffer in list(encoder.named_buffers()):
        owner = encoder.get_submodule(name.rpartition(".")[0])
        kind = name.rpartition(".")[2]
        if kind not in ("position_ids", "token_type_ids"):
            raise ValueError(f"its part {name} is unknown here")
        values = torch.arange(buffer.shape[-1]) if kind == "position_ids" else torch.zeros(buffer.shape[-1])
        owner.register_buffer(kind, values.to(buffer.dtype).expand(buffer.shape).clone(), persistent=False)


def load_tokenizer(folder: Path, class_name: str | None = None) -> Any:
    """The tokenizer in a folder, of the class that it names itself, or of `class_name`."""
    try:
        tokenizer = FastTokenizer.of_folder(folder, class_name) or _transformers_tokenizer(folder, class_name)
        probe = tokenizer(PROBES[0][0])["input_ids"][1:-1]
    except (OSError, ValueError, TypeError, KeyError, AttributeError, ImportError) as exc:
        raise ModelError(f"{folder}: cannot load the tokenizer: {exc}") from exc
    # Without its vocabulary file a tokenizer may still load, and read every text as unknown.
    if not probe or set(probe) <= {tokenizer.unk_token_id}:
        raise ModelError(f"{folder}: the tokenizer knows no words; is its vocabulary file missing?")
    return tokenizer


def _transformers_tokenizer(folder: Path, class_name: str | None) -> Any:
    import transformers

    if class_name is not None:
        tokenizer = getattr(transformers, class_name).from_pretrained(folder)
    else:
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
    if tokenizer.pad_token_id is None and (folder / "sentencepiece.bpe.model").is_file():
        # Folders of the larger XLM-R may not say which tokenizer they hold, and transformers 5 does not guess it.
        tokenizer = transformers.XLMRobertaTokenizerFast.from_pretrained(folder)
    return tokenizer


def fill_weights(network: nn.Module, state: dict[str, Any], file: Path, strict: bool = False) -> None:
    """Load weights by name, in the precision they have. `strict` refuses those the network has no place for.

    Unlike with a lenient load, a missing weight is always an error: it would be random.
    """
    try:
        result = network.load_state_dict(state, strict=False, assign=True)
    except RuntimeError as exc:
        raise ModelError(f"{file}: the weights do not fit the configuration: {exc}") from exc
    missing, unexpected = result.missing_keys, result.unexpected_keys
    if not all(weight.is_floating_point() for weight in network.parameters()):
        raise ModelError(f"{file}: quantised or complex weights; expected floating-point numbers")
    if missing:
        raise ModelError(f"{file}: {counted(len(missing), 'weight is', 'weights are')} missing, e.g. {missing[0]}")
    if strict and unexpected:
        raise ModelError(
            f"{file}: {counted(len(unexpected), 'weight has', 'weights have')} no place in this network, e.g. "
            f"{unexpected[0]}"
        )


def fingerprint(network: nn.Module, tokenizer: Any, settings: str = "", *, stamp: Stamp | None = None) -> str:
    """Twelve hexadecimal digits that tell checkpoints apart.

    By all weights as stored, by how texts are tokenised, and by `settings`, which may change what is computed of them.
    With a `stamp` of their files, taken before they were read, large weights are digested once and then remembered.
    """
    weights = sorted(network.named_parameters())
    tokenised = [repr(tokenizer(list(triple))["input_ids"]) for triple in PROBES]

    def compute() -> str:
        digest = hashlib.blake2b(settings.encode(), digest_size=6)
        for ids in tokenised:
            digest.update(ids.encode())
        for name, weight in weights:
            digest.update(f"{name}{tuple(weight.shape)}".encode())
            digest.update(weight.detach().reshape(-1).view(torch.uint8).numpy().data)
        return digest.hexdigest()

    if stamp is None or sum(weight.numel() for _, weight in weights) < FEW_WEIGHTS:
        return compute()
    shapes = [(name, tuple(weight.shape), str(weight.dtype)) for name, weight in weights]
    return remembered(stamp, repr((settings, tokenised, shapes)).encode(), compute)
