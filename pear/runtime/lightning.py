"""Lightning checkpoints as COMET and PEAR are released: `checkpoints/model.ckpt` and `hparams.yaml`.

Loading is safe: torch's restricted unpickler with the few harmless types below. A file that needs more than that could
run any program while it loads; it is refused, never silently trusted.
"""

from __future__ import annotations

import argparse
import pathlib
import pickle
import re
import zipfile
from pathlib import Path
from typing import Any

import torch
import yaml

from candidates.common.errors import ModelError
from candidates.common.text import yaml_problem
from pear.runtime.hub import root_of

SAVE_AGAIN = "load it with the library it was made with and save state_dict and hyper_parameters alone"


def checkpoint_file(path: Path) -> Path | None:
    """The checkpoint in a folder of the released layout, or the file itself."""
    for candidate in (path, path / "checkpoints" / "model.ckpt", path / "model.ckpt"):
        if candidate.is_file() and candidate.suffix == ".ckpt":
            return candidate
    return None


def read_released(
    file: Path, *, allow_pickle: bool = False, cure: str = SAVE_AGAIN
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The weights and the hyper-parameters, those of the checkpoint before those of `hparams.yaml`.

    `cure` ends the message about a file that is refused.
    """
    content = _read_lightning(file, allow_pickle, cure)
    return content["state_dict"], {**read_hparams(file), **_plain_dict(content.get("hyper_parameters"))}


def read_hparams(file: Path) -> dict[str, Any]:
    """The values of `hparams.yaml` beside a checkpoint; empty where there is none."""
    return _read_yaml(root_of(file) / "hparams.yaml")


def _read_lightning(file: Path, allow_pickle: bool, cure: str) -> dict[str, Any]:
    try:
        if allow_pickle:
            content = torch.load(file, map_location="cpu", weights_only=False)
        else:
            with torch.serialization.safe_globals(_harmless_types()):
                content = torch.load(file, map_location="cpu", weights_only=True, mmap=zipfile.is_zipfile(file))
    except pickle.UnpicklingError as exc:
        named = re.search(r"GLOBAL ([\w.]+)", str(exc))
        needs = f"it needs {named[1]}" if named else "it is not a plain tensor file"
        raise ModelError(
            f"{file}: refused, {needs}, which is not on the list of harmless types. Loading it could run any "
            f"program hidden in the file. If you trust its author as you would trust a program of theirs, {cure}"
        ) from exc
    except (OSError, EOFError, RuntimeError, zipfile.BadZipFile, ValueError, KeyError) as exc:
        raise ModelError(f"{file}: cannot be read as a torch checkpoint: {exc}") from exc
    if not isinstance(content, dict) or not isinstance(content.get("state_dict"), dict):
        raise ModelError(f"{file}: no state_dict inside; expected a Lightning checkpoint")
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
        raise ModelError(
            f"{file}: not plain YAML: {yaml_problem(exc)}; Python objects in YAML are never built"
        ) from exc
    if not isinstance(content, dict):
        raise ModelError(f"{file}: expected a table of hyper-parameters")
    return content
