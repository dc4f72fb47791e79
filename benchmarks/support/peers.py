"""Environments of the peers, built on demand under benchmarks/work, and a way to run something in them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from benchmarks.support.places import ROOT, WORK

# What to install, in this order; constraints/<name>.txt pins it.
PEERS = {
    "pear-mt": (("torch",), ("pear-mt",)),
    "mbrs": (("torch",), ("mbrs", "setuptools")),
    "litellm": (("litellm",),),
}


def version(name: str) -> str:
    """The pinned version of a peer."""
    lines = (ROOT / "constraints" / f"{name}.txt").read_text(encoding="utf-8").splitlines()
    (pinned,) = (line.partition("==")[2] for line in lines if line.startswith(f"{name}=="))
    return pinned


def environment(name: str) -> Path:
    """The Python of a virtual environment that holds one peer, pinned by constraints/<name>.txt."""
    folder = WORK / f"env-{name}"
    python = folder / "bin" / "python"
    if not (folder / "complete").exists():
        print(f"building an environment for {name} {version(name)} ...", file=sys.stderr)
        constraints = ROOT / "constraints" / f"{name}.txt"
        subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True)
        for packages in PEERS[name]:
            subprocess.run([python, "-m", "pip", "install", "--quiet", "-c", str(constraints), *packages], check=True)
        (folder / "complete").touch()
    return python


def ask_pear_mt(checkpoint: Path, jobs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Run jobs of pear-mt 1.1.1 with a checkpoint in the released layout, on one thread."""
    python = environment("pear-mt")
    request = {"checkpoint": str(checkpoint / "checkpoints" / "model.ckpt"), "jobs": jobs}
    return _ask(python, "peer_pear_mt.py", request)


def ask_mbrs(jobs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Decode the lists of some jobs (see peer_mbrs.py) with mbrs 0.1.8, on one thread."""
    python = environment("mbrs")
    return _ask(python, "peer_mbrs.py", {"jobs": jobs})


def ask_litellm(request: dict[str, Any]) -> list[dict[str, Any]]:
    """Rerank through each route of litellm that a service must answer (see peer_litellm.py)."""
    return _ask(environment("litellm"), "peer_litellm.py", request)


def _ask(python: Path, script: str, request: dict[str, Any]) -> list[dict[str, Any]]:
    one_thread = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "RAYON_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    result = subprocess.run(
        [python, Path(__file__).with_name(script)],
        input=json.dumps(request),
        capture_output=True,
        text=True,
        check=False,
        cwd=WORK,
        env={**os.environ, **one_thread, "PYTHONPATH": ""},
    )
    if result.returncode:
        raise RuntimeError(f"{script} failed:\n{result.stderr}")
    answer: list[dict[str, Any]] = json.loads(result.stdout.splitlines()[-1])
    return answer


def ask_worker(module: str, request: dict[str, Any]) -> dict[str, Any]:
    """Run `--worker` of a benchmark in a process of its own, on one thread; its last line of output is the answer."""
    result = subprocess.run(
        [sys.executable, "-m", module, "--worker"],
        input=json.dumps(request),
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"},
    )
    answer: dict[str, Any] = json.loads(result.stdout.splitlines()[-1])
    return answer
