"""`benchmarks.gpu` on the CPU: its table is whole, and scores on the device are those of the CPU."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT

pytestmark = pytest.mark.one_world


def test_the_table_of_a_device(tmp_path: Path) -> None:
    words = ["-m", "benchmarks.gpu", "--device", "cpu", "--quick", "--repeats", "1"]
    environment = {**os.environ, "MBR_CACHE": str(tmp_path), "OMP_NUM_THREADS": "1"}
    result = subprocess.run(
        [sys.executable, *words], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300
    )
    assert result.returncode == 0, result.stderr
    lines = result.stdout.splitlines()
    assert lines[0].startswith("cpu, 1 threads; torch ")
    rows = [line for line in lines if line.startswith("| ")]
    assert [row.split(" | ")[0] for row in rows[:3]] == ["| precision", "| ---", "| float32"]
    assert "1.00x" in rows[2]
    assert any("bf16" in row for row in rows[3:])
    assert "differs from the CPU by" in result.stdout
    assert ": fine" in result.stdout
    assert "auto takes" in result.stdout
