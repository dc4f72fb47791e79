"""The public functions, with the names, arguments, sign and defaults of pear-mt 1.1.1.

A script written for pear-mt runs unchanged. `batch_size` bounds memory as it does there (pairs of full
length); the real batches are cut by tokens. Errors are of our types, which say what to do.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import torch

from candidates.common.errors import InputError, UsageError
from pear.checkpoint import Checkpoint, load_checkpoint
from pear.engine import Engine
from pear.runtime.batches import default_batch_tokens
from pear.runtime.devices import resolve_devices
from pear.runtime.hub import fetch

Mode = Literal["single", "both"]
Scores = list[float] | dict[str, list[float]]
FULL_LENGTH = 512


class Prediction(dict[str, Any]):
    """What `Metric.predict` returns: `prediction["scores"]` or `prediction.scores`."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError as exc:
            raise AttributeError(name) from exc


class Metric:
    """A loaded PEAR. Engines are made per device as they are asked for and kept."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        self.checkpoint = checkpoint
        self._engine: tuple[str, Engine] | None = None

    def engine(self, gpus: int | str = "auto", batch_size: int = 8) -> Engine:
        device = ",".join(resolve_devices(_device(gpus)))
        if batch_size < 1:
            raise UsageError(f"batch_size {batch_size} is not a positive number")
        if self._engine is None or self._engine[0] != device:
            network, tokenizer = self.checkpoint.network, self.checkpoint.tokenizer
            self._engine = (device, Engine(network, tokenizer, device=device))
        engine = self._engine[1]
        budget = batch_size * FULL_LENGTH
        if device == "cpu":
            hidden = self.checkpoint.network.encoder.config.hidden_size
            budget = min(budget, default_batch_tokens(hidden, on_cpu=True))
        engine.runner.batch_tokens = budget
        return engine

    def predict(
        self,
        samples: Sequence[dict[str, str]],
        batch_size: int = 16,
        progress_bar: bool = True,
        gpus: int | str = "auto",
        **ignored: Any,
    ) -> Prediction:
        """Score samples of `src`, `mt_0`, `mt_1`. Lightning's further options are accepted and not needed."""
        triples = [(str(row["src"]), str(row["mt_0"]), str(row["mt_1"])) for row in samples]
        scores = self.engine(gpus, batch_size).score(triples, progress=progress_bar).tolist()
        return Prediction(scores=scores, system_score=sum(scores) / len(scores) if scores else float("nan"))

    def eval(self) -> Metric:
        """A metric is always in evaluation mode; here because scripts call it."""
        return self

    def requires_references(self) -> bool:
        return False


def load_metric(
    model: str | Path = "pear",
    *,
    cache_dir: str | Path | None = None,
    local_files_only: bool = False,
    strict: bool = False,
    revision: str | None = None,
    encoder_revision: str | None = None,
) -> Metric:
    """Load a PEAR: `pear`, `pear-xl`, a hub repository, a checkpoint file, or a folder in either layout."""
    return Metric(
        load_checkpoint(
            model,
            cache_dir=cache_dir,
            local_files_only=local_files_only,
            strict=strict,
            revision=revision,
            encoder_revision=encoder_revision,
        )
    )


def load_from_checkpoint(
    checkpoint_path: str | os.PathLike[str],
    reload_hparams: bool = False,
    strict: bool = False,
    local_files_only: bool = False,
    class_identifier: str = "pairwise_metric",
    encoder_revision: str | None = None,
    trusted_checkpoint: bool = False,
) -> Metric:
    """Load a local checkpoint file. Unlike pear-mt, only `trusted_checkpoint=True` ever unpickles freely."""
    path = Path(checkpoint_path)
    if not path.is_file():
        raise FileNotFoundError(f"Invalid checkpoint path: {path}")
    if reload_hparams and not (path.resolve().parents[1] / "hparams.yaml").is_file():
        raise FileNotFoundError(f"no hparams.yaml in {path.resolve().parents[1]}")
    return Metric(
        load_checkpoint(
            path,
            strict=strict,
            local_files_only=local_files_only,
            encoder_revision=encoder_revision,
            allow_pickle=trusted_checkpoint,
        )
    )


def download_model(
    model: str,
    saving_directory: str | Path | None = None,
    local_files_only: bool = False,
    revision: str | None = None,
) -> str:
    """Fetch a released model from the hub and return the path of its `model.ckpt`."""
    folder = fetch(model, revision=revision, cache_dir=saving_directory, local_files_only=local_files_only)
    return str(folder / "checkpoints" / "model.ckpt")


def build_pairwise_samples(
    sources: Sequence[str], translations_a: Sequence[str], translations_b: Sequence[str]
) -> list[dict[str, str]]:
    """Rows of `src`, `mt_0`, `mt_1` from three parallel sequences."""
    lengths = [len(sources), len(translations_a), len(translations_b)]
    if len(set(lengths)) != 1:
        raise InputError(f"sources and translations must have equal lengths; found {lengths}")
    rows = zip(sources, translations_a, translations_b, strict=True)
    return [{"src": source, "mt_0": a, "mt_1": b} for source, a, b in rows]


def build_reference_anchored_samples(
    sources: Sequence[str], translations: Sequence[str], references: Sequence[str]
) -> list[dict[str, str]]:
    """The same rows with the reference as `mt_1`."""
    return build_pairwise_samples(sources, translations, references)


def score_pairwise(
    model: Metric,
    sources: Sequence[str],
    translations_a: Sequence[str],
    translations_b: Sequence[str],
    *,
    mode: Mode = "single",
    batch_size: int = 8,
    gpus: int | str = "auto",
    progress_bar: bool = True,
) -> Scores:
    """By how much each a is better than its b; `both` also scores the swapped order, under `reverse`."""
    if mode not in ("single", "both"):
        raise UsageError(f"mode {mode!r} is unknown; expected 'single' or 'both'")

    def predict(first: Sequence[str], second: Sequence[str]) -> list[float]:
        samples = build_pairwise_samples(sources, first, second)
        scores: list[float] = model.predict(samples, batch_size, progress_bar, gpus).scores
        return scores

    forward = predict(translations_a, translations_b)
    if mode == "single":
        return forward
    return {"forward": forward, "reverse": predict(translations_b, translations_a)}


def score_reference_anchored(
    model: Metric,
    sources: Sequence[str],
    translations: Sequence[str],
    references: Sequence[str],
    *,
    mode: Mode = "single",
    batch_size: int = 8,
    gpus: int | str = "auto",
    progress_bar: bool = True,
) -> Scores:
    """By how much each translation is better than its anchor: a reference, or any other translation."""
    return score_pairwise(
        model,
        sources,
        translations,
        references,
        mode=mode,
        batch_size=batch_size,
        gpus=gpus,
        progress_bar=progress_bar,
    )


def _device(gpus: int | str) -> str:
    """pear-mt's 'auto', 0 or 1; here also the number of CUDA devices to share the work."""
    if gpus == "auto":
        return "auto"
    if isinstance(gpus, bool) or not isinstance(gpus, int) or gpus < 0:
        raise UsageError(f"gpus {gpus!r} is not 'auto' or a number of devices")
    if gpus == 0:
        return "cpu"
    if gpus == 1 and not torch.cuda.is_available() and torch.backends.mps.is_available():
        return "mps"
    return ",".join(f"cuda:{number}" for number in range(gpus))
