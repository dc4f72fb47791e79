"""PEAR checkpoints on disk: our folder, the authors' released layout, and the way between them.

| layout | files |
| --- | --- |
| ours | `config.json` (the encoder's configuration plus a `pear` section), `model.safetensors`, tokenizer files, `README.md` |
| released | `checkpoints/model.ckpt` (Lightning) and `hparams.yaml`; the encoder's configuration and tokenizer are looked up by the hyper-parameter `pretrained_model` |

Loading is safe: safetensors, or torch's restricted unpickler with the few harmless types below. A file that needs
more than that could run any program while it loads; it is refused, never silently trusted.
"""  # noqa: E501

from __future__ import annotations

import argparse
import hashlib
import json
import pathlib
import pickle
import re
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import yaml

from candidates.errors import InputError, MbrError, ModelError
from pear.agreement import PROBES
from pear.hub import ALIASES, ENCODER_FILES, REVISIONS, fetch, locate
from pear.model import HeadConfig, PearNetwork, build_network

FORMAT_VERSION = 1

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
) -> Checkpoint:
    """Load a PEAR from a folder in either layout, a `.ckpt` file, the package (`en-de`), or the hub (`pear`, `pear-xl`,
    `owner/name`).

    `encoder` names a folder or repository with the encoder's configuration and tokenizer, where a released
    checkpoint's own `pretrained_model` cannot be reached. `strict` refuses weights the network has no use for;
    missing ones are always an error. `kind` is what the model must be (`single`, `resume`, ...); None takes any.
    """
    hub: dict[str, Any] = {"cache_dir": cache_dir, "local_files_only": local_files_only}
    path, local = locate(model, revision=revision, **hub)
    if local:
        name = path.resolve().name if path.suffix != ".ckpt" else _root_of(path).name
    else:
        name = f"{ALIASES.get(str(model), model)}@{path.name[:12]}"
    try:
        if released := _released_file(path):
            network, tokenizer = _load_released(released, encoder, encoder_revision, hub, strict, allow_pickle)
        elif path.is_dir() and (path / "config.json").is_file():
            network, tokenizer = _load_ours(path, strict)
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
            f"{path} holds a model of kind {network.kind}, not {kind}; it scores other texts in another way"
        )
    if local:
        name = f"{name}@{fingerprint(network, tokenizer)}"
    return Checkpoint(network.eval(), tokenizer, name)


def fingerprint(network: PearNetwork, tokenizer: Any) -> str:
    """Twelve hexadecimal digits that tell checkpoints apart, by all weights and by how texts are tokenised."""
    digest = hashlib.blake2b(digest_size=6)
    for triple in PROBES:
        digest.update(repr(tokenizer(list(triple))["input_ids"]).encode())
    for name, weight in sorted(network.state_dict().items()):
        digest.update(f"{name}{tuple(weight.shape)}".encode())
        digest.update(weight.detach().contiguous().numpy().data)
    return digest.hexdigest()


def save_checkpoint(
    checkpoint: Checkpoint, folder: str | Path, *, origin: str = "", card: str | None = None, half: bool = False
) -> None:
    """Write our layout into a new folder. `half` keeps the weights in float16, for half the size."""
    from safetensors.torch import save_file

    folder = _new_folder(folder)
    network = checkpoint.network
    config = json.loads(network.encoder.config.to_json_string(use_diff=False))
    config["pear"] = {"format": FORMAT_VERSION, "kind": network.kind, **network.config.to_dict()}
    (folder / "config.json").write_text(json.dumps(config, indent=2, ensure_ascii=False) + "\n")
    weights = {key: value.half() if half else value for key, value in _to_ours(network).items()}
    save_file({key: value.contiguous() for key, value in weights.items()}, folder / "model.safetensors")
    (folder / "model.safetensors").chmod(0o644)  # safetensors keeps it to its owner
    _save_tokenizer(checkpoint.tokenizer, folder)
    (folder / "README.md").write_text(card or CARD.format(origin=origin), encoding="utf-8")


def save_released(checkpoint: Checkpoint, root: str | Path, *, final: str | Path | None = None) -> None:
    """Write the layout that pear-mt loads; the encoder's configuration and tokenizer go to `<root>/encoder`.

    The layout records where the encoder is; `final` is where the folder will stand if it is to be moved.
    """
    root = _new_folder(root)
    network = checkpoint.network
    encoder_type = network.encoder.config.model_type
    names = {kind: name for name, kind in reversed(ENCODER_TYPES.items())}
    if encoder_type not in names:
        raise ModelError(f"the released layout has no name for an encoder of type {encoder_type}")
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
    (root / "hparams.yaml").write_text(yaml.safe_dump(hparams, sort_keys=False))
    (root / "checkpoints").mkdir()
    state = {_released_name(key): value for key, value in _to_ours(network).items()}
    # Lightning refuses a checkpoint that does not say which of its versions wrote it.
    content = {"state_dict": state, "hyper_parameters": hparams, "pytorch-lightning_version": "2.6.0"}
    torch.save(content, root / "checkpoints" / "model.ckpt")


# --- our layout


def _load_ours(folder: Path, strict: bool) -> tuple[PearNetwork, Any]:
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
    network = build_network(str(head.get("kind", "pear")), _empty_encoder(folder), HeadConfig.from_dict(head))
    _fill(network, state, weights, strict)
    return network, _tokenizer(folder)


# --- the released layout


def _released_file(path: Path) -> Path | None:
    for candidate in (path, path / "checkpoints" / "model.ckpt", path / "model.ckpt"):
        if candidate.is_file() and candidate.suffix == ".ckpt":
            return candidate
    return None


def _root_of(file: Path) -> Path:
    """`<root>/checkpoints/model.ckpt` -> `<root>`; a bare file is its folder's."""
    folder = file.resolve().parent
    return folder.parent if folder.name == "checkpoints" else folder


def _load_released(
    file: Path,
    encoder: str | Path | None,
    encoder_revision: str | None,
    hub: dict[str, Any],
    strict: bool,
    allow_pickle: bool,
) -> tuple[PearNetwork, Any]:
    root = _root_of(file)
    content = _read_lightning(file, allow_pickle=allow_pickle)
    hparams = {**_read_yaml(root / "hparams.yaml"), **_plain_dict(content.get("hyper_parameters"))}
    for name, only in (("blend", "last"), ("task", "regression"), ("use_antisymmetric_head", True)):
        if hparams.get(name, only) != only:
            raise ModelError(f"{file}: {name} is {hparams[name]!r}; PEAR checkpoints have {only!r}")
    kind = ENCODER_TYPES.get(str(hparams.get("encoder_model", "InfoXLM")))
    if kind is None:
        raise ModelError(
            f"{file}: encoder_model {hparams['encoder_model']!r} is unknown; expected one of {', '.join(ENCODER_TYPES)}"
        )
    wanted = str(encoder or hparams.get("pretrained_model", "microsoft/infoxlm-large"))
    folder = _locate_encoder(wanted, root, encoder_revision, hub)
    network = PearNetwork(_empty_encoder(folder, kind), HeadConfig.from_dict(hparams))
    _fill(network, {_our_name(key): value for key, value in content["state_dict"].items()}, file, strict)
    return network, _tokenizer(folder)


def _locate_encoder(wanted: str, root: Path, revision: str | None, hub: dict[str, Any]) -> Path:
    """The encoder's configuration and tokenizer: a folder (as named, or beside the checkpoint), or the hub."""
    local = wanted.startswith((".", "/", "~"))
    for folder in (Path(wanted).expanduser(), root / wanted, root / "encoder"):
        if folder.is_dir() and (local or folder != root / "encoder"):
            return folder
    if local:
        raise ModelError(
            f"the checkpoint's encoder folder {wanted} does not exist; give the folder of its configuration and "
            "tokenizer (--encoder FOLDER)"
        )
    try:
        return fetch(wanted, revision=revision or REVISIONS.get(wanted), files=ENCODER_FILES, **hub)
    except ModelError as exc:
        raise ModelError(
            f"the checkpoint needs the configuration and tokenizer of its encoder {wanted}: {exc}; a local folder "
            "may be given instead (--encoder FOLDER)"
        ) from exc


def _read_lightning(file: Path, *, allow_pickle: bool) -> dict[str, Any]:
    try:
        if allow_pickle:
            content = torch.load(file, map_location="cpu", weights_only=False)
        else:
            with torch.serialization.safe_globals(_harmless_types()):
                content = torch.load(file, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as exc:
        named = re.search(r"GLOBAL ([\w.]+)", str(exc))
        needs = f"it needs {named[1]}" if named else "it is not a plain tensor file"
        raise ModelError(
            f"{file}: refused, {needs}, which is not on the list of harmless types. Loading it could run any "
            "program hidden in the file. If you trust whoever made it as you would trust a program of theirs, "
            "convert it once: pear-convert --allow-pickle"
        ) from exc
    except (OSError, EOFError, RuntimeError, zipfile.BadZipFile, ValueError, KeyError) as exc:
        raise ModelError(f"{file}: cannot be read as a torch checkpoint: {exc}") from exc
    if not isinstance(content, dict) or not isinstance(content.get("state_dict"), dict):
        raise ModelError(f"{file}: no state_dict inside; expected a Lightning checkpoint of PEAR")
    return content


def _harmless_types() -> list[Any]:
    """Containers and values a training run leaves in its hyper-parameters; none of them can run anything."""
    attribute_dict = [
        (dict, f"{package}.AttributeDict")
        for package in (
            "pytorch_lightning.utilities.parsing",
            "lightning.pytorch.utilities.parsing",
            "lightning_fabric.utilities.data",
            "lightning.fabric.utilities.data",
        )
    ]
    return [*attribute_dict, argparse.Namespace, pathlib.PosixPath, pathlib.PurePosixPath]


def _plain_dict(hparams: Any) -> dict[str, Any]:
    if isinstance(hparams, argparse.Namespace):
        return vars(hparams)
    return dict(hparams) if isinstance(hparams, dict) else {}


def _read_yaml(file: Path) -> dict[str, Any]:
    if not file.is_file():
        return {}
    try:
        content = yaml.safe_load(file.read_text(encoding="utf-8"))
    except (yaml.YAMLError, ValueError, RecursionError) as exc:
        raise ModelError(f"{file}: not plain YAML: {exc}; Python objects in YAML are never built") from exc
    if not isinstance(content, dict):
        raise ModelError(f"{file}: expected a table of hyper-parameters")
    return content


# --- both


def _empty_encoder(folder: Path, kind: str | None = None) -> Any:
    """The encoder in its shape, weights still random, without the pooler that PEAR does not use."""
    from transformers import AutoConfig, AutoModel

    try:
        config = AutoConfig.from_pretrained(folder, trust_remote_code=False)
        if kind is not None and config.model_type != kind:
            raise ModelError(f"{folder}: an encoder of type {config.model_type}, but the checkpoint has {kind}")
        return AutoModel.from_config(config, add_pooling_layer=False, trust_remote_code=False)
    except (OSError, ValueError, TypeError, KeyError) as exc:
        raise ModelError(f"{folder}: cannot build the encoder from this configuration: {exc}") from exc


def _tokenizer(folder: Path) -> Any:
    from transformers import AutoTokenizer

    try:
        tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
        probe = tokenizer(PROBES[0][0])["input_ids"][1:-1]
    except (OSError, ValueError, TypeError, KeyError, AttributeError, ImportError) as exc:
        raise ModelError(f"{folder}: cannot load the tokenizer: {exc}") from exc
    # Without its vocabulary file a tokenizer may still load, and read every text as unknown.
    if not probe or set(probe) <= {tokenizer.unk_token_id}:
        raise ModelError(f"{folder}: the tokenizer knows no words; is its vocabulary file missing?")
    return tokenizer


def _fill(network: PearNetwork, state: dict[str, Any], file: Path, strict: bool) -> None:
    """Load weights by name. Unlike a lenient load, a missing weight is an error: it would be random."""
    prefixed = {key if key.startswith("encoder.") else f"head.{key}": value for key, value in state.items()}
    try:
        result = network.load_state_dict(prefixed, strict=False, assign=True)
    except RuntimeError as exc:
        raise ModelError(f"{file}: the weights do not fit the configuration: {exc}") from exc
    if any(weight.is_complex() for weight in network.parameters()):
        raise ModelError(f"{file}: complex weights; expected real ones")
    if result.missing_keys:
        raise ModelError(f"{file}: {len(result.missing_keys)} weights are missing, e.g. {result.missing_keys[0]}")
    if strict and result.unexpected_keys:
        raise ModelError(f"{file}: unexpected weights, e.g. {result.unexpected_keys[0]} (strict loading)")
    network.float()


def _save_tokenizer(tokenizer: Any, folder: Path) -> None:
    """As transformers writes it; but its version 5 has a new name for the plain fast tokenizer, which 4 cannot load."""
    tokenizer.save_pretrained(folder)
    file = folder / "tokenizer_config.json"
    settings = json.loads(file.read_text(encoding="utf-8"))
    if settings.get("tokenizer_class") == "TokenizersBackend":
        settings["tokenizer_class"] = "PreTrainedTokenizerFast"
        settings.pop("backend", None)
        file.write_text(json.dumps(settings, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def _to_ours(network: PearNetwork) -> dict[str, Any]:
    return {key.removeprefix("head."): value for key, value in network.state_dict().items()}


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
