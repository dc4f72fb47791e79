"""Where things are: the repository, what benchmarks keep, and the data, which is not part of the repository.

`MBR_WORK` and `MBR_DATA` name other folders for the last two.
"""

from __future__ import annotations

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
WORK = Path(os.environ.get("MBR_WORK", ROOT / "benchmarks" / "work"))
DATA = Path(os.environ.get("MBR_DATA", ROOT.parent / "shared" / "data"))
TATOEBA = DATA / "tatoeba" / "deu-eng.tsv.gz"
WMT23 = DATA / "mt-metrics-eval-v2" / "wmt23"
