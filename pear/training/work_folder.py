"""The folder of a stage of training: checkpoint, best weights and log, each written whole or not at all."""

from __future__ import annotations

import json
import pickle
import zipfile
from collections.abc import Sequence
from dataclasses import asdict
from hashlib import blake2b
from pathlib import Path
from typing import Any

import torch

from candidates.common.errors import ModelError, UsageError
from candidates.common.text import atomic_output, disk_errors
from pear.data import Group
from pear.training.recipe import Recipe

CHECKPOINT = "checkpoint.pt"
BEST = "best.pt"
LOG = "log.jsonl"


class WorkFolder:
    """Files that a run writes and continues from. Only the leading process writes."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def checkpoint(self) -> Path:
        return self.path / CHECKPOINT

    def write_checkpoint(self, content: dict[str, Any]) -> None:
        _write(self.checkpoint, content)

    def read_checkpoint(self) -> dict[str, Any] | None:
        """The last checkpoint; None where the folder has none."""
        return _read(self.checkpoint) if self.checkpoint.exists() else None

    def write_best(self, weights: dict[str, Any]) -> None:
        _write(self.path / BEST, weights)

    def read_best(self) -> dict[str, Any]:
        return _read(self.path / BEST)

    def append_to_log(self, line: dict[str, Any]) -> None:
        with disk_errors(self.path / LOG), (self.path / LOG).open("a", encoding="utf-8") as log:
            log.write(json.dumps(line) + "\n")

    def cut_log(self, step: int) -> None:
        """Drop lines that a killed run wrote after its last checkpoint, at this step: they will be written again."""
        file = self.path / LOG
        lines = file.read_text(encoding="utf-8").splitlines(keepends=True) if file.exists() else []
        kept = [line for line in lines if line.endswith("\n") and json.loads(line)["step"] <= step]
        if kept != lines:
            with atomic_output(file, force=True) as stream:
                stream.write("".join(kept).encode())

    def check_same_run(self, content: dict[str, Any], recipe: Recipe, data: str, steps: int) -> None:
        """Raises UsageError where a checkpoint comes from another recipe or other data."""
        settings, before = asdict(recipe), content["recipe"]
        changed = [
            f"{name} was {before.get(name)!r}, is {settings.get(name)!r}"
            for name in dict.fromkeys([*before, *settings])
            if before.get(name) != settings.get(name)
        ]
        if content["data"] != data:
            changed.append("the data are not the same")
        if not changed and content["steps"] != steps:
            changed.append(f"the data make {steps} steps, not {content['steps']}")
        if changed:
            raise UsageError(
                f"{self.checkpoint} comes from another run ({'; '.join(changed)}); continue with the same settings and "
                "data, or train in another folder"
            )


def data_digest(*data: Sequence[Group]) -> str:
    """Sixteen hexadecimal digits that tell data sets apart, so that a run is not continued with another one."""
    digest = blake2b(digest_size=8)
    for groups in data:
        digest.update(f"{len(groups)}\n".encode())
        for item in groups:
            digest.update(repr(item).encode())
    return digest.hexdigest()


def _write(file: Path, content: dict[str, Any]) -> None:
    with atomic_output(file, force=True) as stream:
        torch.save(content, stream)


def _read(file: Path) -> dict[str, Any]:
    try:
        content: dict[str, Any] = torch.load(file, weights_only=True, map_location="cpu")
    except (OSError, EOFError, RuntimeError, ValueError, KeyError, pickle.UnpicklingError, zipfile.BadZipFile) as exc:
        reason = str(exc).partition("\n")[0]
        raise ModelError(
            f"{file}: cannot be read as a file of a training run: {reason}; put back a copy, or delete the folder and "
            "train anew"
        ) from exc
    return content
