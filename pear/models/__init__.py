"""Loading under the names of pear-mt 1.1.1: `download_model`, `load_from_checkpoint`, and the metric's class."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from candidates.common.errors import ModelError
from pear.models.base import MetricModel
from pear.runtime.hub import ALIASES, REVISIONS, fetch

PairwiseMetric = MetricModel  # pear-mt's one subclass; here they are one
str2model = {"pairwise_metric": PairwiseMetric}

DEFAULT_HF_MODELS = {name: ALIASES[name] for name in ("pear", "pear-xl")}
DEFAULT_HF_REVISIONS = {
    name: REVISIONS[repository] for alias, repository in DEFAULT_HF_MODELS.items() for name in (alias, repository)
}

__all__ = [
    "DEFAULT_HF_MODELS",
    "DEFAULT_HF_REVISIONS",
    "MetricModel",
    "ModelNotFetched",
    "PairwiseMetric",
    "download_model",
    "load_from_checkpoint",
    "str2model",
]


class ModelNotFetched(ModelError, KeyError):
    """A `ModelError` that scripts for pear-mt can catch as the KeyError they know."""

    __str__ = Exception.__str__  # that of KeyError quotes the message


def download_model(
    model: str,
    saving_directory: str | Path | None = None,
    local_files_only: bool = False,
    revision: str | None = None,
) -> str:
    """Fetch a released model from the hub and return the path of its `model.ckpt`."""
    try:
        folder = fetch(model, revision=revision, cache_dir=saving_directory, local_files_only=local_files_only)
    except ModelError as exc:
        raise ModelNotFetched(str(exc)) from exc
    return str(folder / "checkpoints" / "model.ckpt")


def load_from_checkpoint(
    checkpoint_path: str | os.PathLike[str],
    reload_hparams: bool = False,
    strict: bool = False,
    local_files_only: bool = False,
    class_identifier: str = "pairwise_metric",
    encoder_revision: str | None = None,
    trusted_checkpoint: bool = False,
) -> MetricModel:
    """Load a local checkpoint file. Only `trusted_checkpoint=True` ever unpickles freely."""
    path = Path(checkpoint_path)
    if not path.is_file():
        raise FileNotFoundError(f"Invalid checkpoint path: {path}")
    if reload_hparams and not (path.resolve().parents[1] / "hparams.yaml").is_file():
        raise FileNotFoundError(f"no hparams.yaml in {path.resolve().parents[1]}")
    if class_identifier not in str2model:
        raise ModelError(f"class_identifier {class_identifier!r} is unknown; expected {', '.join(str2model)}")
    options: dict[str, Any] = {} if encoder_revision is None else {"encoder_revision": encoder_revision}
    if trusted_checkpoint:
        options["weights_only"] = False
    return str2model[class_identifier].load_from_checkpoint(
        path, load_pretrained_weights=False, strict=strict, local_files_only=local_files_only, **options
    )
