"""The public functions, with the names, arguments, sign and defaults of pear-mt 1.1.1.

`batch_size` bounds memory as it does there (pairs of full length); the real batches are cut by tokens. The model may be
any object with pear-mt's `predict`. Errors are of our types, which say what to do.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, Protocol

from candidates.common.errors import InputError, UsageError
from pear.checkpoint import load_checkpoint
from pear.models import MetricModel, load_from_checkpoint

Mode = Literal["single", "both"]
Scores = list[float] | dict[str, list[float]]


class Predictor(Protocol):
    """What the functions need of a model.

    `predict(samples, batch_size=, gpus=, progress_bar=, output_field="scores")` returns a mapping with `scores`, one
    per sample of `src`, `mt_0`, `mt_1`.
    """

    def predict(self, *args: Any, **options: Any) -> Any: ...


def load_metric(
    model: str | Path = "pear",
    *,
    cache_dir: str | Path | None = None,
    local_files_only: bool = False,
    strict: bool = False,
    revision: str | None = None,
    encoder_revision: str | None = None,
) -> MetricModel:
    """Load a PEAR: `pear`, `pear-xl`, a hub repository, a checkpoint file, or a folder in either layout."""
    path = Path(model).expanduser()
    if path.is_file():
        if revision is not None:
            raise UsageError(
                f"revision {revision!r} is only valid for a model on the Hugging Face hub, and {path} is a local file; "
                "leave it out"
            )
        return load_from_checkpoint(
            path,
            strict=strict,
            local_files_only=local_files_only,
            encoder_revision=encoder_revision,
            trusted_checkpoint=False,
        )
    return MetricModel(
        load_checkpoint(
            model,
            cache_dir=cache_dir,
            local_files_only=local_files_only,
            strict=strict,
            revision=revision,
            encoder_revision=encoder_revision,
        )
    )


def build_pairwise_samples(
    sources: Sequence[str], translations_a: Sequence[str], translations_b: Sequence[str]
) -> list[dict[str, str]]:
    """Rows of `src`, `mt_0`, `mt_1` from three parallel sequences."""
    lengths = [len(sources), len(translations_a), len(translations_b)]
    if len(set(lengths)) != 1:
        raise InputError(f"sources and translations must have equal lengths; got {lengths}")
    rows = zip(sources, translations_a, translations_b, strict=True)
    return [{"src": source, "mt_0": a, "mt_1": b} for source, a, b in rows]


def build_reference_anchored_samples(
    sources: Sequence[str], translations: Sequence[str], references: Sequence[str]
) -> list[dict[str, str]]:
    """The same rows with the reference as `mt_1`."""
    return build_pairwise_samples(sources, translations, references)


def score_pairwise(
    model: Predictor,
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
        raise UsageError(f"mode {mode!r} is unknown; mode must be 'single' or 'both'")

    def predict(first: Sequence[str], second: Sequence[str]) -> list[float]:
        samples = build_pairwise_samples(sources, first, second)
        prediction = model.predict(
            samples, batch_size=batch_size, gpus=gpus, progress_bar=progress_bar, output_field="scores"
        )
        return [float(score) for score in prediction["scores"]]

    forward = predict(translations_a, translations_b)
    if mode == "single":
        return forward
    return {"forward": forward, "reverse": predict(translations_b, translations_a)}


def score_reference_anchored(
    model: Predictor,
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
