"""Which model a name stands for, and which back-end runs it: a folder, a bundled model, a hub name or an address."""

from __future__ import annotations

from pathlib import Path

from candidates.common.errors import ModelError
from candidates.common.hub import cached, hub_answers, offline, unreachable

BUNDLED = Path(__file__).parent.parent / "bundled"


def bundled_models() -> list[str]:
    """The translation models that ship with the package."""
    return sorted(path.parent.name for path in BUNDLED.glob("*/model.bin"))


def model_folder(model: str) -> Path | None:
    """The local folder a model's name stands for, or None where it can only be a hub name."""
    name = model.partition("@")[0]  # origins and signatures name the revision, too
    if name in bundled_models():
        return BUNDLED / name  # a folder of this name in the working directory is ./name
    if Path(model).is_dir():
        return Path(model)
    if model.startswith((".", "/", "~")) or model.count("/") > 1:
        raise ModelError(
            f"{model}: no such folder; expected a model folder, a hub name or one of {', '.join(bundled_models())}"
        )
    return None


def guess_backend(model: str) -> str:
    """The back-end for a model: `openai` for an address, `ct2` for a CTranslate2 folder, else `hf`."""
    if model.startswith(("http://", "https://")):
        return "openai"
    folder = model_folder(model)
    return "ct2" if folder is not None and (folder / "model.bin").is_file() else "hf"


def check_reachable(model: str) -> bool:
    """Whether transformers can get this model: it is a folder, or on a hub that answers, or in the local cache.

    Called before transformers, which would try for a minute.

    Returns:
        Whether only local files are to be used.

    Raises:
        ModelError: it is none of these.
    """
    silent = not Path(model).is_dir() and (offline() or not hub_answers())
    if silent and not cached(model):
        raise unreachable(model, f"the bundled {', '.join(bundled_models())} (--translator)", forbidden=offline())
    return silent
