"""Published data, where this machine has them, and a small test set."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import DATA
from tests.pear.data.files import write


@pytest.fixture(scope="session")
def wmt_mqm() -> Path:
    folder = DATA / "wmt-mqm"
    if not folder.is_dir():
        pytest.skip(f"no MQM tables at {folder}; set MBR_DATA to the folder that holds them")
    return folder


@pytest.fixture(scope="session")
def mlqe() -> Path:
    folder = DATA / "mlqe-pe"
    if not folder.is_dir():
        pytest.skip(f"no MLQE-PE data at {folder}; set MBR_DATA to the folder that holds it")
    return folder


@pytest.fixture
def tiny_set(tmp_path: Path) -> Path:
    folder = tmp_path / "wmt99"
    files = {
        "sources/en-de.txt": "A dog.\nA cat.\n",
        "references/en-de.refA.txt": "Ein Hund.\nEine Katze.\n",
        "references/en-de.refB.txt": "Hund.\nKatze.\n",
        "system-outputs/en-de/X.txt": "Hund!\nKatze!\n",
        "system-outputs/en-de/refB.txt": "Hund.\nKatze.\n",
        "documents/en-de.docs": "news\td1\nnews\td2\n",
        "human-scores/en-de.mqm.seg.score": "X\t-1\nrefB\t0\nX\tNone\nrefB\t-0.1\n",
    }
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        write(folder / name, text)
    return folder
