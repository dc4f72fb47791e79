"""The folder of a stage of training: checkpoint, best weights and log, each written whole or not at all."""

from __future__ import annotations

import json
import pickle
import zipfile
from collections.abc import Callable, Sequence
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
CONTENT = ("recipe", "steps", "data", "learner", "optimizers", "place", "random", "random_cuda")  # of a checkpoint


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
        if not self.checkpoint.exists():
            return None
        content = _read(self.checkpoint)
        missing = [name for name in CONTENT if name not in content]
        if missing:
            raise _unreadable(self.checkpoint, f"it has no {', '.join(missing)}")
        return content

    def write_best(self, weights: dict[str, Any]) -> None:
        _write(self.path / BEST, weights)

    def read_best(self) -> dict[str, Any]:
        return _read(self.path / BEST)

    def append_to_log(self, line: dict[str, Any]) -> None:
        with disk_errors(self.path / LOG), (self.path / LOG).open("a", encoding="utf-8") as log:
            log.write(json.dumps(line) + "\n")

    def read_log(self) -> list[dict[str, Any]]:
        """The lines of the log; damaged and unfinished ones are left out."""
        return [line for line in map(_log_line, self._raw_log()) if line is not None]

    def cut_log(self, step: int, say: Callable[[str], None] = lambda message: None) -> None:
        """Drop lines that a killed run wrote after its last checkpoint, at this step: they will be written again.

        Damaged lines are dropped too, and `say` receives how many there were: the log is for people, and no step
        depends on it.
        """
        raw = self._raw_log()
        lines = {text: _log_line(text) for text in raw}
        kept = [text for text in raw if (line := lines[text]) is not None and line["step"] <= step]
        if kept != raw:
            with atomic_output(self.path / LOG, force=True) as stream:
                stream.write(b"".join(kept))
        damaged = sum(lines[text] is None and text.endswith(b"\n") for text in raw)
        if damaged:
            say(f"warning: {damaged} damaged lines of {self.path / LOG} were dropped; the training is not affected")

    def _raw_log(self) -> list[bytes]:
        file = self.path / LOG
        return file.read_bytes().splitlines(keepends=True) if file.exists() else []

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


def _log_line(text: bytes) -> dict[str, Any] | None:
    """A line of the log: a step, whether it was the best, and other numbers. None for anything else."""
    try:
        line = json.loads(text) if text.endswith(b"\n") else None
    except ValueError:
        return None
    if not isinstance(line, dict) or type(line.get("step")) is not int or type(line.get("best")) is not bool:
        return None
    return line if all(isinstance(value, int | float) for value in line.values()) else None


def _write(file: Path, content: dict[str, Any]) -> None:
    with atomic_output(file, force=True) as stream:
        torch.save(content, stream)


def _read(file: Path) -> dict[str, Any]:
    try:
        content: dict[str, Any] = torch.load(file, weights_only=True, map_location="cpu")
    except (OSError, EOFError, RuntimeError, ValueError, KeyError, pickle.UnpicklingError, zipfile.BadZipFile) as exc:
        raise _unreadable(file, str(exc).partition("\n")[0]) from exc
    if not isinstance(content, dict):
        raise _unreadable(file, f"it holds a {type(content).__name__}")
    return content


def _unreadable(file: Path, reason: str) -> ModelError:
    return ModelError(
        f"{file}: cannot be read as a file of a training run: {reason}; put back a copy, or delete the folder and "
        "train anew"
    )
