"""Too little memory, too many threads: a sentence and a code, whichever command."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from candidates.command.launch import COMMANDS
from candidates.common.errors import UsageError
from candidates.common.threads import most_threads
from tests.conftest import ROOT

LISTS = ["--candidates", "gone.jsonl"]
WITH_THREADS = {
    "mbr-decode": LISTS,
    "mbr-generate": ["--sources", "gone.txt"],
    "mbr-compare": [*LISTS, "-o", "out"],
    "mbr-evaluate": ["--systems", "gone.txt", "--references", "gone.txt"],
    "pear-score": ["gone.tsv"],
    "pear-train": ["--data", "gone.csv", "-o", "out"],
}


@pytest.mark.parametrize("command", WITH_THREADS)
def test_more_threads_than_a_machine_has_use_for_are_refused_before_any_work(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    words = [*WITH_THREADS[command], "--threads", "100000"]
    with pytest.raises(UsageError, match=rf"--threads: threads 100000.*expected {most_threads()} at most"):
        import_module(COMMANDS[command]).command(words)


def test_python_calls_have_the_same_limit() -> None:
    from candidates.backends.ct2_model import worker_count
    from pear.runtime.devices import limit_threads

    for call in (limit_threads, lambda threads: worker_count("cpu", threads)):
        with pytest.raises(UsageError, match="threads 100000"):
            call(100_000)
    assert worker_count("cpu", most_threads()) == most_threads()


@pytest.mark.parametrize("command", COMMANDS)
def test_a_limit_of_memory_too_low_for_the_libraries_is_named(command: str, tmp_path: Path) -> None:
    program = f"from candidates.command.launch import start; start({command!r})"

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-c", program, *words],
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (400_000 * 1024, 400_000 * 1024)),
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )

    result = run()
    assert result.returncode == 5, result.stderr
    assert result.stderr.startswith(f"{command}: error: the memory of this process is limited to 391 MiB (ulimit -v)")
    assert run("--help").returncode == 0
