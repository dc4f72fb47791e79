"""A CTranslate2 folder and what it takes to run it: device, workers, positions, a digest of the weights."""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path
from typing import Any

from candidates.backends.models import BUNDLED, model_folder
from candidates.backends.tokens import read_json
from candidates.common.errors import MbrError, ModelError, ResourceError, UsageError
from candidates.common.threads import check_threads

SIDECAR = "mbr-generate.json"  # beside the weights: what CTranslate2's own files do not record
COMPUTE_TYPES = ("default", "auto", "int8", "int8_float32", "int8_float16", "int8_bfloat16", "int16", "float16",
                 "bfloat16", "float32")  # fmt: skip
_NO_POSITION = re.compile(r"No position encodings are defined for positions >= (\d+)")


def ct2_folder(model: str) -> Path:
    """The folder of a CTranslate2 model, by path or by a bundled model's name."""
    folder = model_folder(model)
    if folder is None or not (folder / "model.bin").is_file():
        raise ModelError(
            f"{model}: not a CTranslate2 folder (no model.bin); convert a transformers model with "
            f"mbr-generate --convert {model} -o FOLDER, or run it as it is with --backend hf"
        )
    wanted = model.partition("@")[2] if folder.parent == BUNDLED else ""
    if wanted and wanted != (digest := weights_digest(folder)):
        raise ModelError(f"{model}: this package has the revision {digest}; leave out @{wanted} to use that one")
    return folder


def known_positions(folder: Path) -> int | None:
    """The number of tokens that the model has positions for, where the folder records it."""
    positions: int | None = read_json(folder / SIDECAR).get("positions")
    return positions


def check_compute_type(name: str) -> None:
    if name not in COMPUTE_TYPES:
        raise UsageError(f"--compute-type {name} is unknown; expected one of {', '.join(COMPUTE_TYPES)}")


def ct2_device(name: str) -> tuple[str, int]:
    """The kind of a device and its number, which CTranslate2 takes apart."""
    kind, _, index = name.partition(":")
    if kind not in ("auto", "cpu", "cuda") or not (index.isdigit() or not index):
        raise UsageError(f"device {name!r} is unknown to CTranslate2; expected auto, cpu, cuda or cuda:N")
    if kind == "auto":
        import ctranslate2

        kind = "cuda" if ctranslate2.get_cuda_device_count() else "cpu"
    return kind, int(index or 0)


def worker_count(device: str, threads: int | None) -> int:
    """Workers with one thread each: as many as threads on a CPU, one on a GPU.

    Results may differ in the last digit between numbers of threads per worker, so that number stays one.
    """
    if device == "cuda":
        return 1
    return check_threads(threads or 0) or (
        len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    )


def load_translator(folder: Path, device: tuple[str, int], compute_type: str, workers: int) -> Any:
    """A `ctranslate2.Translator` with one thread per worker."""
    import ctranslate2

    try:
        return ctranslate2.Translator(
            str(folder),
            device=device[0],
            device_index=device[1],
            compute_type=compute_type,
            inter_threads=workers,
            intra_threads=1,
        )
    except (RuntimeError, ValueError) as exc:
        raise ModelError(f"{folder}: CTranslate2 cannot load it: {exc}") from exc


def position_limit(error: Exception) -> int | None:
    """The number of positions that an error of CTranslate2 names; None where it is another error."""
    limit = _NO_POSITION.search(str(error))
    return int(limit[1]) if limit else None


def ct2_error(folder: Path, error: Exception, remedy: str) -> MbrError:
    """An error of CTranslate2 in the words of ours; `remedy` is what to do when memory runs out."""
    if isinstance(error, ValueError):
        return UsageError(f"{folder}: CTranslate2 refuses a setting: {error}")
    if "out of memory" in str(error).lower():
        return ResourceError(f"{folder}: CTranslate2 is out of memory: {error}; {remedy}")
    return ModelError(f"{folder}: CTranslate2 failed: {error}")


def weights_digest(folder: Path) -> str:
    """Eight hexadecimal digits that change when the weights do. Reads the whole file."""
    digest = hashlib.blake2b(digest_size=4)
    with (folder / "model.bin").open("rb") as stream:
        while block := stream.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()
