"""PEAR checkpoints on disk: our folder, the authors' released layout, and the way between them.

| layout | files |
| --- | --- |
| ours | `config.json` (the encoder's configuration plus a `pear` section), `model.safetensors`, tokenizer files, `README.md` |
| released | `checkpoints/model.ckpt` (Lightning) and `hparams.yaml`; the encoder's configuration and tokenizer are looked up by the hyper-parameter `pretrained_model` |

A metric over two translation models (`pear.runtime.reader`), such as the bundled one, has our layout only.

Loading is safe: safetensors, or torch's restricted unpickler with a few harmless types (pear/runtime/lightning.py). A file that needs
more than that could run any program while it loads; it is refused, never silently trusted.
"""  # noqa: E501

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import yaml

from candidates.common.errors import InputError, MbrError, ModelError
from candidates.common.text import atomic_output
from pear.model import HeadConfig, PearNetwork, build_network
from pear.runtime.encoders import empty_encoder, fill_weights, fingerprint, load_tokenizer, locate_encoder
from pear.runtime.hub import ALIASES, locate, root_of
from pear.runtime.lightning import checkpoint_file, read_released
from pear.runtime.stamps import Stamp

FORMAT_VERSION = 1
SCALE = ".scale"  # behind the name of a matrix in int8: by what to multiply each of its rows
CONVERT = "convert it once: pear-convert --allow-pickle"

# Encoder names in released hyper-parameters, and the transformers types they stand for.
ENCODER_TYPES = {
    "XLM-RoBERTa": "xlm-roberta",
    "InfoXLM": "xlm-roberta",
    "XLM-RoBERTa-XL": "xlm-roberta-xl",
    "BERT": "bert",
}

CARD = """\
---
library_name: mbr-decode
tags: [translation, quality-estimation, pear]
---
# PEAR checkpoint

Predicts by how much one translation of a source is better than another (positive: the first is better).
{origin}

    from mbr import rerank
    rerank("A dog.", ["Ein Hund.", "Der Hund."], utility="pear", model="PATH_OF_THIS_FOLDER")
"""


@dataclass
class Checkpoint:
    """A loaded model: the network on the CPU in float32, its tokenizer, and where it came from."""

    network: PearNetwork
    tokenizer: Any
    name: str


def load_checkpoint(
    model: str | Path = "pear",
    *,
    revision: str | None = None,
    encoder: str | Path | None = None,
    encoder_revision: str | None = None,
    cache_dir: str | Path | None = None,
    local_files_only: bool = False,
    strict: bool = False,
    allow_pickle: bool = False,
    kind: str | None = "pear",
    trainable: bool = False,
) -> Checkpoint:
    """Load a PEAR from a folder in either layout, a `.ckpt` file, the package (`en-de`), or the hub (`pear`, `pear-xl`,
    `owner/name`).

    `encoder` names a folder or repository with the encoder's configuration and tokenizer, where a released
    checkpoint's own `pretrained_model` cannot be reached. `strict` refuses weights the network has no use for;
    missing ones are always an error. `kind` is what the model must be (`single`, `resume`, ...); None takes any.
    `trainable` builds the encoder by transformers, with dropout.
    """
    hub: dict[str, Any] = {"cache_dir": cache_dir, "local_files_only": local_files_only}
    path, local = locate(model, revision=revision, **hub)
    if local:
        name = path.resolve().name if path.suffix != ".ckpt" else root_of(path).name
        stamp = Stamp.of(path if path.is_dir() else root_of(path))
    else:
        name = f"{ALIASES.get(str(model), model)}@{path.name[:12]}"
    try:
        if released := checkpoint_file(path):
            network, tokenizer = _load_released(
                released, encoder, encoder_revision, hub, strict, allow_pickle, trainable
            )
        elif path.is_dir() and (path / "config.json").is_file():
            network, tokenizer = _load_ours(path, strict, trainable)
        else:
            raise ModelError(
                f"{path} is not a PEAR checkpoint: expected a folder with config.json and model.safetensors, or one "
                "with checkpoints/model.ckpt, or a .ckpt file"
            )
    except (MbrError, MemoryError):
        raise
    except Exception as exc:  # files may be wrong in more ways than can be listed
        raise ModelError(f"{path}: this checkpoint is broken: {type(exc).__name__}: {exc}") from exc
    if kind is not None and network.kind != kind:
        raise ModelError(
            f"{path} holds a model of kind {network.kind}; expected one of kind {kind}, whose inputs are different; "
            "name another checkpoint"
        )
    if local:
        name = f"{name}@{fingerprint(network, tokenizer, stamp=stamp)}"
    return Checkpoint(network.eval(), tokenizer, name)


def save_checkpoint(
    checkpoint: Checkpoint, folder: str | Path, *, origin: str = "", card: str | None = None, half: bool = False
) -> None:
    """Write our layout into a new folder. `half` keeps the weights in float16, for half the size; and in int8, with a
    scale for each row, matrices that were rounded to that before, such as those of translation models."""
    from safetensors.torch import save_file

    folder = _new_folder(folder)
    network = checkpoint.network
    config = json.loads(network.encoder.config.to_json_string(use_diff=False))
    config["pear"] = {"format": FORMAT_VERSION, "kind": network.kind, **network.config.to_dict()}
    (folder / "config.json").write_text(json.dumps(config, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    weights = _to_ours(network)
    if half:
        weights = {name: part for key, value in weights.items() for name, part in _halved(key, value).items()}
    save_file({key: value.contiguous() for key, value in weights.items()}, folder / "model.safetensors")
    (folder / "model.safetensors").chmod(0o644)  # safetensors keeps it to its owner
    _save_tokenizer(checkpoint.tokenizer, folder)
    (folder / "README.md").write_text(card or CARD.format(origin=origin), encoding="utf-8")


def save_released(checkpoint: Checkpoint, root: str | Path, *, final: str | Path | None = None) -> None:
    """Write the layout that pear-mt loads; the encoder's configuration and tokenizer go to `<root>/encoder`.

    The layout records where the encoder is; `final` is where the folder will stand if it is to be moved.

    Raises:
        ModelError: pear-mt has no encoder of this type; that of the bundled PEAR, over two translation models
            (`pear.runtime.reader`), is one.
    """
    network = checkpoint.network
    encoder_type = network.encoder.config.model_type
    names = {kind: name for name, kind in reversed(ENCODER_TYPES.items())}
    if encoder_type not in names:
        raise ModelError(
            f"{checkpoint.name} has an encoder of type {encoder_type}; the released layout, which pear-mt loads, has "
            f"only {', '.join(names)}; keep our layout, which mbr-decode loads, or give a PEAR with one of these"
        )
    root = _new_folder(root)
    encoder = root / "encoder"
    network.encoder.config.save_pretrained(encoder)
    _save_tokenizer(checkpoint.tokenizer, encoder)
    settings = network.config.to_dict()
    hparams = {
        "class_identifier": "pairwise_metric",
        "encoder_model": names[encoder_type],
        "pretrained_model": str(Path(final or root).resolve() / "encoder"),
        **settings,
        "hidden_sizes": list(settings["hidden_sizes"]),
    }
    (root / "hparams.yaml").write_text(yaml.safe_dump(hparams, sort_keys=False), encoding="utf-8")
    (root / "checkpoints").mkdir()
    state = {_released_name(key): value for key, value in _to_ours(network).items()}
    # Lightning refuses a checkpoint that does not say which of its versions wrote it.
    content = {"state_dict": state, "hyper_parameters": hparams, "pytorch-lightning_version": "2.6.0"}
    with atomic_output(root / "checkpoints" / "model.ckpt") as stream:
        torch.save(content, stream)


# --- our layout


def _load_ours(folder: Path, strict: bool, trainable: bool) -> tuple[PearNetwork, Any]:
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        settings = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except ValueError as exc:
        raise ModelError(f"{folder / 'config.json'}: not valid JSON: {exc}") from exc
    if not isinstance(settings, dict) or not isinstance(settings.get("pear"), dict):
        raise ModelError(
            f"{folder / 'config.json'} has no `pear` section: this is some other model; expected a folder written "
            "by pear-convert or pear-train, or the released layout"
        )
    head = settings["pear"]
    if head.get("format") != FORMAT_VERSION:
        raise ModelError(
            f"{folder}: checkpoint format {head.get('format')!r}, this version reads {FORMAT_VERSION}; "
            "update mbr-decode"
        )
    weights = folder / "model.safetensors"
    try:
        state = load_file(weights)
    except (OSError, SafetensorError) as exc:
        raise ModelError(f"{weights}: cannot be read as safetensors: {exc}") from exc
    state = {key: _whole(key, value, state) for key, value in state.items() if not key.endswith(SCALE)}
    encoder = empty_encoder(folder, trainable=trainable)
    network = build_network(str(head.get("kind", "pear")), encoder, HeadConfig.from_dict(head))
    fill_weights(network, {_network_name(key): value for key, value in state.items()}, weights, strict)
    return network.float(), load_tokenizer(folder)


def _halved(key: str, weight: torch.Tensor) -> dict[str, torch.Tensor]:
    """What stands for a weight in a file of half size: int8 and a scale where nothing is lost by it, or float16."""
    if weight.dim() == 2:
        scale = weight.abs().amax(dim=1).clamp_min(1e-30) / 127  # [rows]
        rounded = (weight / scale[:, None]).round()
        if torch.allclose(rounded * scale[:, None], weight, rtol=1e-4, atol=0):
            return {key: rounded.to(torch.int8), f"{key}{SCALE}": scale}
    return {key: weight.half()}


def _whole(key: str, weight: torch.Tensor, state: dict[str, torch.Tensor]) -> torch.Tensor:
    """The weight that stands in a file under a name, times its scale if it has one."""
    scale = state.get(f"{key}{SCALE}")
    return weight if scale is None else weight.float() * scale[:, None]


# --- the released layout


def _load_released(
    file: Path,
    encoder: str | Path | None,
    encoder_revision: str | None,
    hub: dict[str, Any],
    strict: bool,
    allow_pickle: bool,
    trainable: bool,
) -> tuple[PearNetwork, Any]:
    root = root_of(file)
    state, hparams = read_released(file, allow_pickle=allow_pickle, cure=CONVERT)
    for name, only in (("blend", "last"), ("task", "regression"), ("use_antisymmetric_head", True)):
        if hparams.get(name, only) != only:
            raise ModelError(f"{file}: {name} is {hparams[name]!r}; PEAR checkpoints have {only!r}")
    kind = ENCODER_TYPES.get(str(hparams.get("encoder_model", "InfoXLM")))
    if kind is None:
        raise ModelError(
            f"{file}: encoder_model {hparams['encoder_model']!r} is unknown; expected one of {', '.join(ENCODER_TYPES)}"
        )
    recorded = str(hparams.get("pretrained_model", "microsoft/infoxlm-large"))
    folder = locate_encoder(encoder, recorded, root, encoder_revision, hub)
    network = PearNetwork(empty_encoder(folder, kind, trainable=trainable), HeadConfig.from_dict(hparams))
    fill_weights(network, {_network_name(_our_name(key)): value for key, value in state.items()}, file, strict)
    return network.float(), load_tokenizer(folder)


def _save_tokenizer(tokenizer: Any, folder: Path) -> None:
    """As it writes itself; but transformers 5 has a new name for the plain fast tokenizer, which 4 cannot load."""
    tokenizer.save_pretrained(folder)
    file = folder / "tokenizer_config.json"
    settings = json.loads(file.read_text(encoding="utf-8"))
    if settings.get("tokenizer_class") == "TokenizersBackend":
        settings["tokenizer_class"] = "PreTrainedTokenizerFast"
        settings.pop("backend", None)
        file.write_text(json.dumps(settings, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def _to_ours(network: PearNetwork) -> dict[str, Any]:
    return {key.removeprefix("head."): value for key, value in network.state_dict().items()}


def _network_name(key: str) -> str:
    """In the network what is not the encoder's is the head's."""
    return key if key.startswith("encoder.") else f"head.{key}"


def _our_name(key: str) -> str:
    """Released `encoder.model.X` is our `encoder.X`; the head's names are the same."""
    return "encoder." + key.removeprefix("encoder.model.") if key.startswith("encoder.model.") else key


def _released_name(key: str) -> str:
    return "encoder.model." + key.removeprefix("encoder.") if key.startswith("encoder.") else key


def _new_folder(folder: str | Path) -> Path:
    folder = Path(folder)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(f"{folder} exists and is not an empty folder; give another name")
    folder.mkdir(parents=True, exist_ok=True)
    return folder
