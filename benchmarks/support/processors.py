"""What makes results of models in int8 the same on x86 processors with and without VNNI instructions.

    ONEDNN_MAX_CPU_ISA=AVX2 mbr-decode --sources benchmarks/sample/en.txt

Without VNNI, oneDNN adds products of 8-bit integers in 16 bits, which saturate; with it, in 32 bits. Limited to AVX2 it
takes the same path on both. It reads the variable when it computes for the first time in a process.
"""

from __future__ import annotations

import platform
from pathlib import Path

SAME_ON_X86 = {"ONEDNN_MAX_CPU_ISA": "AVX2"}


def abilities() -> frozenset[str]:
    """The instructions of this processor by the names of Linux; empty on other systems."""
    file = Path("/proc/cpuinfo")
    return frozenset(file.read_text(encoding="utf-8").split()) if file.exists() else frozenset()


def other_processor() -> str:
    """Why models in int8 may give other results here than on the pages; empty on x86_64."""
    return (
        "" if platform.machine() in ("x86_64", "AMD64") else f"pages were written on x86_64, not {platform.machine()}"
    )
