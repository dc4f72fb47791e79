"""The notebook docs/tour.ipynb as a page of the site: its text, its code, and the outputs that are stored in it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any


def notebook_page(file: Path) -> str:
    """The Markdown of a notebook. Tables stay HTML; other outputs become blocks of text."""
    cells = json.loads(file.read_text(encoding="utf-8"))["cells"]
    title, *rest = "".join(cells[0]["source"]).split("\n", 1)
    link = f"This page is the notebook [{file.name}]({file.name}); every cell is run in the tests."
    return "\n\n".join([title, link, *rest, *(part for cell in cells[1:] for part in _cell(cell))]) + "\n"


def _cell(cell: dict[str, Any]) -> Iterator[str]:
    source = "".join(cell["source"])
    if cell["cell_type"] == "markdown":
        yield source
        return
    yield f"```python\n{source}\n```"
    for output in cell["outputs"]:
        data = output.get("data", {})
        if "text/html" in data:
            # A class keeps the theme from drawing it as one of its own tables.
            table = "".join(data["text/html"]).replace("\n", " ").replace("<table>", '<table class="notebook">')
            yield f'<div class="notebook-output">{table}</div>'
        else:
            text = "".join(output.get("text", data.get("text/plain", "")))
            yield f"```text\n{text.rstrip()}\n```"
