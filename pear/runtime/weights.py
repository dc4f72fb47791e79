"""What is in a transformers folder: its configuration, and weights in one file or several, safetensors or torch.

A file that needs more than tensors could run any program while it loads: it is refused.
"""

from __future__ import annotations

import json
import pickle
import zipfile
from pathlib import Path
from typing import Any

import torch

from candidates.common.errors import ModelError
from pear.runtime.encoders import locate_encoder
from pear.runtime.options import ModelOptions

# As transformers writes them, in the order in which it looks for them.
NAMES = ("model.safetensors", "pytorch_model.bin")


def read_config(folder: Path) -> dict[str, Any]:
    """`config.json` as it is written: transformers fills gaps with defaults that differ between its versions."""
    return read_json(folder / "config.json", "expected the folder of a transformers model")


def tokenizer_folder(wanted: str | Path, root: Path, options: ModelOptions) -> Path:
    """Where a tokenizer is that was asked for by name: a folder, which need hold nothing else, or the hub."""
    folder = Path(wanted).expanduser()
    if folder.is_dir():
        return folder
    hub = {"cache_dir": options.get("cache_dir"), "local_files_only": options.get("offline", False)}
    return locate_encoder(wanted, "", root, None, hub)


def read_weights(folder: Path) -> dict[str, Any]:
    """All weights by name, on the CPU, in the precision of the files."""
    for name in NAMES:
        if (folder / name).is_file():
            return _read_tensors(folder / name)
        index = folder / f"{name}.index.json"
        if index.is_file():
            return _read_shards(index)
    raise ModelError(f"{folder} holds no weights; expected {' or '.join(NAMES)}, or the index of several such files")


def _read_shards(index: Path) -> dict[str, Any]:
    places = read_json(index, "expected the index of a model in several files").get("weight_map")
    if not isinstance(places, dict) or not all(isinstance(name, str) for name in places.values()):
        raise ModelError(f"{index}: no weight_map from weights to files inside; fetch the model again")
    state: dict[str, Any] = {}
    for name in sorted(set(places.values())):
        file = index.parent / name
        if Path(name).name != name:
            raise ModelError(f"{index} names {name}, which is not a file of this folder")
        if not file.is_file():
            raise ModelError(f"{index} names {name}, which is missing; fetch the model again")
        state.update(_read_tensors(file))
    return state


def _read_tensors(file: Path) -> dict[str, Any]:
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        if file.suffix == ".safetensors":
            content = load_file(file)
        else:
            # What older versions of torch wrote is not a zip archive, and cannot be mapped into memory.
            content = torch.load(file, map_location="cpu", weights_only=True, mmap=zipfile.is_zipfile(file))
    except pickle.UnpicklingError as exc:
        raise ModelError(
            f"{file}: refused, it is not a plain file of weights: loading it could run any program hidden in it "
            f"({str(exc).splitlines()[0]})"
        ) from exc
    except (SafetensorError, OSError, EOFError, RuntimeError, zipfile.BadZipFile, ValueError, KeyError) as exc:
        raise ModelError(f"{file} is broken, fetch it again: {exc}") from exc
    if not isinstance(content, dict) or not all(isinstance(value, torch.Tensor) for value in content.values()):
        raise ModelError(f"{file}: expected weights by name, found something else")
    return content


def read_json(file: Path, expected: str) -> dict[str, Any]:
    """The object in a file; `expected` ends the message where it is none."""
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError as exc:
        raise ModelError(f"{file.parent} has no {file.name}; {expected}") from exc
    except (OSError, ValueError) as exc:
        raise ModelError(f"{file} cannot be read: {exc}") from exc
    if not isinstance(content, dict):
        raise ModelError(f"{file} is not a JSON object; {expected}")
    return content
