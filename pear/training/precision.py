"""Where half precision helps: bf16 on devices that multiply it, never where it is emulated."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import torch

from candidates.common.errors import UsageError
from pear.runtime.precision import has_bf16


def autocast_of(device: torch.device, dtype: str) -> Callable[[], AbstractContextManager[Any]]:
    """A context for the forward pass: bf16 where `dtype` is bf16, or auto and the device has it; else plain."""
    if dtype == "bf16" and not has_bf16(device):
        raise UsageError(f"{device.type} here has no bf16 of its own and would emulate it slowly; use --dtype float32")
    if dtype == "float32" or not has_bf16(device):
        return contextlib.nullcontext
    return lambda: torch.autocast(device.type, torch.bfloat16)
