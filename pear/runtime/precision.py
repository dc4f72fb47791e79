"""What a device computes quickly, how far rounded scores agree with float32, and what is remembered of that.

`auto` is the fastest precision of the device whose scores agree with those of float32 (`pear.runtime.choice`). The
verdict on a checkpoint is kept in the cache folder, with the processor's abilities and the version of torch it is
for; a cache that cannot be read or written only means that the check is made again.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from candidates.common.cache import cache_folder
from candidates.common.errors import MbrError, UsageError
from candidates.common.text import atomic_output
from pear.runtime.int8 import has_int8

Floats = NDArray[np.floating[Any]]

AUTO = "auto"
DTYPES = {"float32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
NAMES = (*DTYPES, "int8")

# On the probe pairs: root mean square of the differences, as a share of that of the float32 scores.
MOST_ERROR = 0.05
# On a list: what the choice loses by float32, as a share of the distance from the best candidate to the worst.
MOST_REGRET = 0.01
METHOD = 3  # changes when the check or the arithmetic does, so that old verdicts are not taken


@dataclass(frozen=True)
class Agreement:
    """How the scores of a precision compare with float32 on probe pairs, by which of two texts is better."""

    dtype: str
    error: float
    same_sign: float
    pairs: int

    @classmethod
    def between(cls, exact: Floats, fast: Floats, dtype: str) -> Agreement:
        exact, fast = np.asarray(exact, np.float64), np.asarray(fast, np.float64)
        size = float(np.sqrt(np.mean(exact**2)))
        error = float(np.sqrt(np.mean((fast - exact) ** 2)))
        share = error / size if size > 0 else float("inf" if error > 0 else 0.0)
        return cls(dtype, share, float(np.mean(np.sign(exact) == np.sign(fast))), len(exact))

    @property
    def fine(self) -> bool:
        return self.error <= MOST_ERROR  # not so for scores that are not numbers

    def __str__(self) -> str:
        verdict = "agrees" if self.fine else f"not taken, at most {MOST_ERROR:.0%} is"
        return (
            f"{self.dtype} against float32 on {self.pairs} probe pairs: error {self.error:.2%} of the scores, same "
            f"preference in {self.same_sign:.0%}; {verdict}"
        )


def regret(exact: Floats, fast: Floats) -> float:
    """What the choice by `fast` [N] loses by `exact` [N], as a share of the distance from the best to the worst."""
    if not np.isfinite(fast).all():
        return float("inf")
    best, worst = float(np.max(exact)), float(np.min(exact))
    return (best - float(exact[int(np.argmax(fast))])) / (best - worst) if best > worst else 0.0


def check_precision(dtype: str, device: str) -> None:
    """Refuse a precision that does not exist, or that the device does not compute.

    Raises:
        UsageError: `dtype` is unknown, or int8 where there is none.
    """
    if dtype not in NAMES:
        raise UsageError(f"dtype {dtype!r} is unknown; expected one of {', '.join((AUTO, *NAMES))}")
    if dtype != "int8":
        return
    if not device.startswith("cpu"):
        raise UsageError(f"int8 runs on the CPU, not on {device}; use dtype bf16 there, or device cpu")
    if not has_int8():
        raise UsageError("this processor has no int8 instructions (VNNI); use dtype float32, or auto")


def faster_precisions(device: str) -> tuple[str, ...]:
    """The precisions that a device computes faster than float32; which is the fastest depends on the model."""
    if device.startswith("cuda"):
        major = torch.cuda.get_device_capability(device)[0]
        return ("bf16",) if major >= 8 else ("fp16",) if major >= 7 else ()
    if device != "cpu":
        return ()
    can = cpu_abilities()
    integers = any(name in can for name in ("avx512_vnni", "avx_vnni", "amx_int8")) and has_int8()
    return (*(["int8"] if integers else []), *(["bf16"] if has_bf16(torch.device("cpu")) else []))


def has_bf16(device: torch.device) -> bool:
    """Whether the device multiplies bf16 matrices in hardware."""
    if device.type == "cuda":
        return bool(torch.cuda.get_device_capability(device)[0] >= 8)
    return device.type == "cpu" and any(name in cpu_abilities() for name in ("avx512_bf16", "amx_bf16"))


def cpu_abilities() -> tuple[str, ...]:
    """The instructions of this processor that decide how fast a precision is, by torch's names."""
    can = torch.cpu.get_capabilities()
    return tuple(sorted(name for name, value in can.items() if value is True and _decides(name)))


def _decides(name: str) -> bool:
    return name in ("avx2", "avx512_f") or any(part in name for part in ("vnni", "bf16", "amx", "i8mm"))


@dataclass(frozen=True)
class Verdict:
    """The precision for a checkpoint on this machine. `listed`: a list was checked, too."""

    dtype: str
    listed: bool = False


class Verdicts:
    """Verdicts on checkpoints in the cache folder, a small file for each."""

    def __init__(self, model: str, device: str) -> None:
        where = torch.cuda.get_device_name(device) if device.startswith("cuda") else " ".join(cpu_abilities())
        self._key = {"model": model, "device": where, "torch": torch.__version__, "method": METHOD}
        digest = hashlib.blake2b(json.dumps(self._key, sort_keys=True).encode(), digest_size=12).hexdigest()
        self._file: Path = cache_folder() / "precision" / f"{digest}.json"

    def recall(self) -> Verdict | None:
        try:
            content = json.loads(self._file.read_text(encoding="utf-8"))
            verdict = Verdict(str(content["dtype"]), bool(content["listed"]))
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return verdict if content.get("key") == self._key and verdict.dtype in NAMES else None

    def remember(self, verdict: Verdict) -> None:
        content = {"key": self._key, **asdict(verdict)}
        with contextlib.suppress(OSError, MbrError):
            self._file.parent.mkdir(parents=True, exist_ok=True)
            with atomic_output(self._file, force=True) as stream:
                stream.write((json.dumps(content, indent=1) + "\n").encode())
