"""Small pieces of HTML for notebooks: a decision, a utility matrix. Everything a user wrote is escaped.

Colours are see-through, so that they work on dark and light pages alike.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

import numpy as np
from numpy.typing import NDArray

MOST_ROWS = 40  # of a matrix; the best
LONGEST = 60  # characters of a text beside a matrix
BLUE, ORANGE = "0,114,178", "213,94,0"
CELL = "padding:0;width:14px;min-width:6px;height:14px"
TEXT = "text-align:left;white-space:pre-wrap"


def table(head: Sequence[str], rows: Iterable[Sequence[str]], caption: str) -> str:
    """A table of texts; the last column is the widest."""
    heads = "".join(f'<th style="text-align:left">{escape(cell)}</th>' for cell in head)
    body = "".join(
        "<tr>" + "".join(f'<td style="{TEXT}">{escape(cell)}</td>' for cell in row) + "</tr>" for row in rows
    )
    return f"<table><caption>{escape(caption)}</caption><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table>"


def heat_map(
    values: NDArray[np.floating], known: NDArray[np.bool_], texts: Sequence[str], caption: str, *, signed: bool
) -> str:
    """A matrix as coloured cells, rows and columns sorted by the rows' means of what is `known`, best first.

    With `signed` the middle of the colours is 0, else the mean of what is known off the diagonal.
    """
    size = len(values)
    if not size:
        return f"<p>{escape(caption)}</p>"
    off = known & ~np.eye(size, dtype=np.bool_)
    means = np.where(off, values, 0).sum(axis=1) / np.maximum(off.sum(axis=1), 1)
    order = np.argsort(-means, kind="stable")[:MOST_ROWS]
    middle = 0.0 if signed or not off.any() else float(values[off].mean())
    spread = float(np.abs(values[off] - middle).max()) if off.any() else 0.0
    body = ""
    for row in order:
        cells = "".join(_cell(values[row, column], middle, spread, not off[row, column]) for column in order)
        name = texts[row] if row < len(texts) else str(row)
        shown = name if len(name) <= LONGEST else name[: LONGEST - 1] + "…"
        body += (
            f'<tr><td style="text-align:left" title="{escape(name)}">{escape(shown)}</td>'
            f'<td style="text-align:right">{means[row]:.3g}</td>{cells}</tr>'
        )
    left = f"; the best {MOST_ROWS} of {size} candidates" if size > MOST_ROWS else ""
    return f"<table><caption>{escape(caption + left)}</caption><tbody>{body}</tbody></table>"


def _cell(value: float, middle: float, spread: float, empty: bool) -> str:
    if empty or not spread or not np.isfinite(value):
        return f'<td style="{CELL}"></td>'
    share = float((value - middle) / spread)
    colour = BLUE if share > 0 else ORANGE
    return f'<td style="{CELL};background:rgba({colour},{min(abs(share), 1):.2f})" title="{value:.4g}"></td>'
