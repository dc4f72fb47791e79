"""Options of every model that scores texts."""

from __future__ import annotations

from pathlib import Path
from typing import TypedDict


class ModelOptions(TypedDict, total=False):
    """Options of every metric that is a network: where its files are and how it runs."""

    model: str | Path | None  # a folder, a file, a hub name; None is the metric's default
    revision: str | None
    encoder: str | Path | None  # its configuration and tokenizer, where the name the checkpoint gives leads nowhere
    cache_dir: str | Path | None
    offline: bool
    device: str
    dtype: str
    batch_tokens: int | None
    threads: int
