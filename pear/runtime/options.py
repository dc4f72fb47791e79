"""Options of every model that scores texts: where its files are and how it runs."""

from __future__ import annotations

from pathlib import Path
from typing import TypedDict


class RunOptions(TypedDict, total=False):
    """What all of them take."""

    revision: str | None
    encoder: str | Path | None  # its configuration and tokenizer, where the name the checkpoint gives leads nowhere
    cache_dir: str | Path | None
    offline: bool
    device: str
    dtype: str
    batch_tokens: int | None
    threads: int


class ModelOptions(RunOptions, total=False):
    """Options of a metric that is a network."""

    model: str | Path | None  # a folder, a file, a hub name; None is the metric's default


class LibraryOptions(ModelOptions, total=False):
    """Options of a metric that its own library can run, too (`mbr.metrics.library`)."""

    backend: str  # torch, which is our own reader, or library
