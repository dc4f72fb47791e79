"""mbr-decode --ray: clean output, signals, and runs that are resumed with or without a cluster."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Run
from tests.mbr.ray.conftest import ROOT

pytestmark = pytest.mark.one_world
MBR_DECODE = str(Path(sys.executable).with_name("mbr-decode"))
SOURCES = str(ROOT / "benchmarks" / "sample" / "en.txt")


def test_text_on_a_cluster_gives_the_same_lines_and_nothing_else(cluster: Any, warm: Run) -> None:
    words = ["--nbest", "8", "--threads", "1", "--format", "jsonl", "--sources", SOURCES]
    alone = warm("mbr-decode", *words)
    there = subprocess.run(
        [MBR_DECODE, *words, "--ray", cluster.address], capture_output=True, text=True, check=False, timeout=120
    )
    assert there.returncode == 0, there.stderr
    assert there.stdout == alone.stdout
    assert "8 segments in 1 window, " in there.stderr


def test_a_terminated_run_leaves_no_process_and_is_resumed_without_ray(cluster: Any, warm: Run, tmp_path: Path) -> None:
    many = warm("mbr-generate", "--nbest", "4", "--sources", str(ROOT / "benchmarks" / "sample" / "hundred.en.txt"))
    (tmp_path / "lists.jsonl").write_text(many.stdout * 120, encoding="utf-8")
    words = ["--candidates", "lists.jsonl", "--utility", "chrf", "--threads", "1", "--format", "jsonl"]
    command = [MBR_DECODE, *words, "--ray", cluster.address, "-o", "out.jsonl"]
    environment = {**os.environ, "MBR_COMMIT_SECONDS": "0"}
    for number, resume in ((signal.SIGKILL, []), (signal.SIGTERM, ["--resume"])):
        before = (tmp_path / "out.jsonl.partial").stat().st_size if resume else 0
        process = subprocess.Popen(
            [*command, *resume], cwd=tmp_path, stderr=subprocess.PIPE, text=True, env=environment
        )
        wait_for_growth(tmp_path / "out.jsonl.partial", before, process)
        process.send_signal(number)
        _, errors = process.communicate(timeout=60)
        assert process.returncode == (143 if number == signal.SIGTERM else -9), errors
    rest = warm("mbr-decode", *words, "-o", "out.jsonl", "--resume")
    assert rest.returncode == 0, rest.stderr
    whole = warm("mbr-decode", *words)
    assert (tmp_path / "out.jsonl").read_text(encoding="utf-8") == whole.stdout
    assert wait_until(lambda: not workers_of_ours()), "a worker is still running"


def wait_for_growth(file: Path, before: int, process: subprocess.Popen[str]) -> None:
    """Until the first windows of this run are on disk."""
    assert wait_until(lambda: process.poll() is not None or (file.exists() and file.stat().st_size > before))
    assert process.poll() is None, process.communicate()[1]


def wait_until(done: Any, seconds: float = 90) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if done():
            return True
        time.sleep(0.05)
    return False


def workers_of_ours() -> list[str]:
    found = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout.splitlines()
    return [line for line in found if line.startswith("ray::Worker")]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--ray", "--budget-total", "1000"], "--budget-total decides all lists together"),
        (["--ray-workers", "2"], "--ray-workers goes with --ray"),
        (["--ray", "--ray-workers", "0"], "--ray-workers 0 is not a positive number"),
        (["--ray", "--ray-patience", "nan"], "--ray-patience nan is not a positive number"),
    ],
)
def test_options_that_do_not_go_together_are_refused(warm: Run, words: list[str], message: str) -> None:
    refused = warm("mbr-decode", "--utility", "chrf", "--candidates", "-", *words, stdin="")
    assert refused.returncode == 2
    assert message in refused.stderr
