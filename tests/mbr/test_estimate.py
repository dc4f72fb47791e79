"""Memory: what --dry-run says of it, and what is advised when there is too little."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from candidates.common.errors import ResourceError
from mbr.cli.decode.command import command
from tests.conftest import write_jsonl

MEASURED = """
import sys
from pathlib import Path
from candidates.command.launch import start
try:
    start("mbr-decode")
finally:
    print(Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()[0], "KB", file=sys.stderr)
"""


@pytest.fixture
def lists(tmp_path: Path) -> Path:
    records = [
        {"source": f"s {n}", "candidates": [f"ein Hund {k} läuft {n * k} mal" for k in range(12)]} for n in range(20)
    ]
    return write_jsonl(tmp_path / "lists.jsonl", records)


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="no /proc, by which memory is measured")
@pytest.mark.parametrize("utility", ["chrf", "pear"])
def test_a_dry_run_tells_the_memory_of_the_run_within_a_factor_of_two(utility: str, lists: Path, ours: Path) -> None:
    def measure(*more: str) -> tuple[str, int]:
        words = ["--utility", utility, "--candidates", str(lists), *more]
        words += ["--model", str(ours), "--threads", "1"] if utility == "pear" else []
        done = subprocess.run([sys.executable, "-c", MEASURED, *words], capture_output=True, text=True, check=True)
        return done.stdout, int(done.stderr.split()[-2]) * 1024

    output, _ = measure("--dry-run")
    match = re.search(r"^memory      about ([\d.]+) (MiB|GiB)$", output, re.MULTILINE)
    assert match, output
    estimated = float(match[1]) * {"MiB": 2**20, "GiB": 2**30}[match[2]]
    _, measured = measure()
    assert measured / 2 < estimated < 2 * measured


@pytest.mark.parametrize(("utility", "batches"), [("chrf", False), ("pear", True)])
def test_advice_on_memory_fits_the_utility(
    utility: str, batches: bool, lists: Path, ours: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*words: Any, **options: Any) -> Any:
        raise MemoryError

    monkeypatch.setattr("mbr.pool.Pool.step", fail)
    words = ["--utility", utility, "--candidates", str(lists), *(["--model", str(ours)] if batches else [])]
    with pytest.raises(ResourceError, match="^out of memory; compare fewer candidates .--nbest N") as error:
        command(words)
    assert ("--batch-tokens" in str(error.value)) is batches
