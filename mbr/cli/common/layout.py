"""Tables of text: columns beside each other as wide as a terminal shows them, and TSV."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence
from typing import Any

from candidates.common.words import counted as counted

WIDTH = 110  # of a table that goes to a file or a pipe
LONGEST_NAME = 28


def side_by_side(names: Sequence[str], columns: Sequence[Sequence[str]], width: int) -> str:
    """A table with as many columns as fit in the width beside the names; further columns in tables below."""
    longest = max(map(display_width, names))
    blocks: list[list[Sequence[str]]] = []
    used = width
    for column in columns:
        wide = max(map(display_width, column))
        if used + 2 + wide > width:
            blocks.append([[name + " " * (longest - display_width(name)) for name in names]])
            used = longest
        blocks[-1].append([" " * (wide - display_width(cell)) + cell for cell in column])
        used += 2 + wide
    return "\n".join(lines(block) for block in blocks)


def lines(columns: Sequence[Sequence[str]]) -> str:
    rows = ["  ".join(row).rstrip() for row in zip(*columns, strict=True)]
    return "\n".join([rows[0], "-" * max(map(display_width, rows)), *rows[1:]]) + "\n"


def tsv(rows: Iterable[Sequence[Any]]) -> str:
    return "".join("\t".join(_cell(cell) for cell in row) + "\n" for row in rows)


def _cell(cell: Any) -> str:
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    return "" if cell is None else " ".join(str(cell).split())


def short_name(name: str, longest: int = LONGEST_NAME) -> str:
    """A name that fits; the middle of a long one is left out."""
    if display_width(name) <= longest:
        return name
    head, tail = name, name
    while display_width(head) > longest // 2:
        head = head[:-1]
    while display_width(tail) > longest - longest // 2 - 1:
        tail = tail[1:]
    return f"{head}…{tail}"


def display_width(text: str) -> int:
    """Columns of a text in a terminal: two for wide characters, none for combining marks."""
    return sum(
        0 if unicodedata.category(c) in ("Mn", "Me", "Cf") else 2 if unicodedata.east_asian_width(c) in "WF" else 1
        for c in text
    )
