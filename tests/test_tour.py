"""docs/tour.ipynb runs from the first cell to the last, and shows what it prints."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from benchmarks.support.processors import other_processor
from benchmarks.transcripts import TOUR, Step, executed_tour, same

pytestmark = pytest.mark.one_world


def _printed(cell: Any) -> str:
    """What a cell prints: text, and what notebooks show of a value as text."""
    return "\n".join(
        "".join(output.get("text", "") or output.get("data", {}).get("text/plain", "")) for output in cell["outputs"]
    )


def _kinds(cell: Any) -> list[str]:
    return [output["output_type"] for output in cell["outputs"]]


def test_the_tour_runs_and_prints_what_it_shows() -> None:
    """`python -m benchmarks.transcripts --write` writes what it prints now."""
    nbformat = pytest.importorskip("nbformat", reason="the tour needs nbformat (pip install '.[dev]')")
    pytest.importorskip("nbclient", reason="the tour needs nbclient (pip install '.[dev]')")
    shown, run = nbformat.read(TOUR, as_version=4), executed_tour()
    pairs = [
        (before, after) for before, after in zip(shown.cells, run.cells, strict=True) if before.cell_type == "code"
    ]
    assert len(pairs) == 10
    for before, after in pairs:
        assert "error" not in _kinds(after)
        assert _kinds(before) == _kinds(after), before.source
    different = [after for before, after in pairs if not same(Step("", "text", _printed(before)), _printed(after))]
    if different and other_processor():
        pytest.skip(f"{len(different)} of 10 cells differ: {other_processor()}")
    assert not different, f"{different[0].source}\n{_printed(different[0])}"


def test_the_tour_is_stored_with_its_outputs_and_without_paths_of_a_machine() -> None:
    text = TOUR.read_text(encoding="utf-8")
    cells = [cell for cell in json.loads(text)["cells"] if cell["cell_type"] == "code"]
    assert all(cell["outputs"] for cell in cells)
    assert os.fspath(Path.home()) + "/" not in text
    assert not re.search(r"/(home|tmp|work|usr)/", text)
