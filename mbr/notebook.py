"""Decisions and utility matrices as HTML for notebooks. Everything a user wrote is escaped.

Values show themselves through `_repr_html_`, which imports this module only then. Colours are translucent, so that they
work on dark and light pages alike.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from mbr.decide import Decision
    from mbr.matrix import UtilityMatrix

DECISION_ROWS = 5  # candidates of a decision; the best
MATRIX_ROWS = 40  # candidates of a matrix; the best
LONGEST = 60  # characters of a text beside a matrix
BLUE, ORANGE = "0,114,178", "213,94,0"
CELL = "padding:0;width:14px;min-width:6px;height:14px"
TEXT = "text-align:left;white-space:pre-wrap"


def decision_html(decision: Decision) -> str:
    """A table of the best candidates with their scores, expected utilities and terms."""
    source = decision.candidates.source if decision.candidates else decision.source
    caption = f"{source} ({decision.passes} pairs scored{''.join(f', {flag}' for flag in decision.flags)})"
    if decision.candidates is None or decision.error is not None:
        return _table(["no decision"], [[decision.error or ""]], caption)
    columns = {"expected utility": decision.expected}
    if decision.terms:
        columns = {"score": decision.scores, **columns, **decision.terms}
    rows = [
        [
            str(rank),
            *(f"{values[index]:.4g}" if np.isfinite(values[index]) else "" for values in columns.values()),
            decision.candidates.texts[index],
        ]
        for rank, index in enumerate(decision.ranking[:DECISION_ROWS], 1)
    ]
    return _table(["rank", *columns, "candidate"], rows, caption)


def matrix_html(matrix: UtilityMatrix) -> str:
    """A heat map, rows and columns sorted by the mean of each row."""
    caption = f"{matrix.utility}: utility of each row against each column, {matrix.passes} pairs scored"
    antisymmetric = matrix.relation == "antisymmetric"
    defined = matrix.scored | matrix.scored.T if antisymmetric else matrix.scored
    return _heat_map(matrix.values, defined, matrix.texts, caption, signed=antisymmetric)


def _table(header: Sequence[str], rows: Iterable[Sequence[str]], caption: str) -> str:
    """A table of texts; the last column is the widest."""
    heads = "".join(f'<th style="text-align:left">{escape(cell)}</th>' for cell in header)
    body = "".join(
        "<tr>" + "".join(f'<td style="{TEXT}">{escape(cell)}</td>' for cell in row) + "</tr>" for row in rows
    )
    return f"<table><caption>{escape(caption)}</caption><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table>"


def _heat_map(
    values: NDArray[np.floating], defined: NDArray[np.bool_], texts: Sequence[str], caption: str, *, signed: bool
) -> str:
    """A matrix as coloured cells, rows and columns sorted by the rows' means over `defined` cells, best first.

    With `signed` the middle of the colours is 0, else the mean of the defined cells off the diagonal.
    """
    size = len(values)
    if not size:
        return f"<p>{escape(caption)}</p>"
    compared = defined & ~np.eye(size, dtype=np.bool_)
    means = np.where(compared, values, 0).sum(axis=1) / np.maximum(compared.sum(axis=1), 1)
    order = np.argsort(-means, kind="stable")[:MATRIX_ROWS]
    middle = 0.0 if signed or not compared.any() else float(values[compared].mean())
    spread = float(np.abs(values[compared] - middle).max()) if compared.any() else 0.0
    body = ""
    for row in order:
        cells = "".join(_cell(values[row, column], middle, spread, not compared[row, column]) for column in order)
        text = texts[row] if row < len(texts) else str(row)
        shortened = text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"
        body += (
            f'<tr><td style="text-align:left" title="{escape(text)}">{escape(shortened)}</td>'
            f'<td style="text-align:right">{means[row]:.3g}</td>{cells}</tr>'
        )
    selection = f"; the best {MATRIX_ROWS} of {size} candidates" if size > MATRIX_ROWS else ""
    return f"<table><caption>{escape(caption + selection)}</caption><tbody>{body}</tbody></table>"


def _cell(value: float, middle: float, spread: float, empty: bool) -> str:
    if empty or not spread or not np.isfinite(value):
        return f'<td style="{CELL}"></td>'
    share = float((value - middle) / spread)
    colour = BLUE if share > 0 else ORANGE
    return f'<td style="{CELL};background:rgba({colour},{min(abs(share), 1):.2f})" title="{value:.4g}"></td>'
