"""docs/tour.ipynb runs from the first cell to the last, and shows what it prints."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT

pytestmark = pytest.mark.one_world

TOUR = ROOT / "docs" / "tour.ipynb"


def _lines(cell: Any) -> list[str]:
    """What a cell prints, without its numbers: int8 gives a little other ones on other processors."""
    printed = "".join("".join(output.get("text", "")) for output in cell["outputs"])
    return re.sub(r"[-+]?[\d.]+", "0", printed).splitlines()


def _kinds(cell: Any) -> list[str]:
    return [output["output_type"] for output in cell["outputs"]]


def test_the_tour_runs_and_prints_what_it_shows() -> None:
    nbformat = pytest.importorskip("nbformat", reason="the tour needs nbformat (pip install '.[dev]')")
    nbclient = pytest.importorskip("nbclient", reason="the tour needs nbclient (pip install '.[dev]')")
    shown = nbformat.read(TOUR, as_version=4)
    run = nbformat.read(TOUR, as_version=4)
    nbclient.NotebookClient(run, timeout=120, resources={"metadata": {"path": str(TOUR.parent)}}).execute()
    pairs = [
        (before, after) for before, after in zip(shown.cells, run.cells, strict=True) if before.cell_type == "code"
    ]
    assert len(pairs) == 10
    for before, after in pairs:
        assert "error" not in _kinds(after)
        assert _kinds(before) == _kinds(after), before.source
        assert len(_lines(before)) == len(_lines(after)), before.source
    for number in (5, 8):  # names of weights; names of rows
        assert _lines(pairs[number][0]) == _lines(pairs[number][1])


def test_the_tour_is_stored_with_its_outputs_and_without_paths_of_a_machine() -> None:
    text = TOUR.read_text(encoding="utf-8")
    cells = [cell for cell in json.loads(text)["cells"] if cell["cell_type"] == "code"]
    assert all(cell["outputs"] for cell in cells)
    assert os.fspath(Path.home()) + "/" not in text
    assert not re.search(r"/(home|tmp|work|usr)/", text)
