"""A sequence-to-sequence model of transformers and what it takes to run it: device, number type, positions."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from candidates.backends.models import bundled_models, check_reachable
from candidates.common.errors import ModelError, UsageError
from candidates.common.hub import quiet_hub

DTYPES = ("float32", "float16", "bfloat16")


def check_dtype(name: str) -> None:
    if name not in DTYPES:
        raise UsageError(f"--compute-type {name} is unknown to hf; expected one of {', '.join(DTYPES)}")


def torch_device(name: str) -> str:
    """The device that `auto` stands for on this machine, or the name itself."""
    import torch

    if name != "auto":
        return name
    return "cuda" if torch.cuda.is_available() else "cpu"


def load_model(model: str, dtype: str, device: str) -> Any:
    """The network of a folder or hub name, ready to run."""
    local = check_reachable(model)
    import torch
    import transformers

    transformers.logging.set_verbosity_error()
    with suppress(AttributeError):
        transformers.logging.disable_progress_bar()
    try:
        with quiet_hub():
            network = transformers.AutoModelForSeq2SeqLM.from_pretrained(
                model, torch_dtype=getattr(torch, dtype), local_files_only=local
            )
    except (OSError, ValueError, RuntimeError, KeyError) as exc:
        raise ModelError(
            f"{model}: transformers cannot load it as a translation model: {exc}. Expected a folder or a hub name of "
            f"a sequence-to-sequence model, or a bundled model ({', '.join(bundled_models())})"
        ) from exc
    try:
        return network.to(device).eval()
    except (RuntimeError, AssertionError) as exc:
        raise UsageError(f"device {device!r} cannot be used: {exc}") from exc


def model_positions(config: Any) -> int | None:
    """The number of tokens that a model has positions for; None where they are relative (T5)."""
    if hasattr(config, "relative_attention_num_buckets"):
        return None
    positions = getattr(config, "max_position_embeddings", None)
    return int(positions) if positions else None


def revision(network: Any) -> str:
    """The commit of a model from the hub, or `local`."""
    return str(getattr(network.config, "_commit_hash", None) or "local")
