"""Files of the small texts that the tests of mbr-evaluate judge."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.mbr.evaluate.made import REFERENCES, SOURCES, SYSTEMS


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """Sources, references and systems, one file each, in the folder that commands run in."""
    for name, texts in {"src": SOURCES, "ref": REFERENCES, **SYSTEMS}.items():
        (tmp_path / f"{name}.txt").write_text("".join(text + "\n" for text in texts), encoding="utf-8")
    return tmp_path
