"""Where half precision helps: bf16 on devices that multiply it, never where it is emulated."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import torch

from candidates.common.errors import UsageError


def autocast_of(device: torch.device, dtype: str) -> Callable[[], AbstractContextManager[Any]]:
    """A context for the forward pass: bf16 where `dtype` is bf16, or auto and the device has it; else plain."""
    if dtype == "bf16" and not has_bf16(device):
        raise UsageError(f"{device.type} here has no bf16 of its own and would emulate it slowly; use --dtype float32")
    if dtype == "float32" or not has_bf16(device):
        return contextlib.nullcontext
    return lambda: torch.autocast(device.type, torch.bfloat16)


def has_bf16(device: torch.device) -> bool:
    """Whether the device multiplies bf16 matrices in hardware."""
    if device.type == "cuda":
        return bool(torch.cuda.get_device_capability(device)[0] >= 8)
    if device.type != "cpu":
        return False
    try:
        flags = Path("/proc/cpuinfo").read_text(encoding="utf-8").split("flags", 2)[1].split("\n", 1)[0].split()
    except (OSError, IndexError):
        return False
    return "amx_bf16" in flags or "avx512_bf16" in flags
