"""The picture of docs/strategies.md: mean regret against passes, one panel per set of matrices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mbr.drawing import Cloud, cloud_panels

METHODS = (
    *("race", "halving", "prune", "balanced", "half", "random anchors", "random pairs"),
    *("low rank (mbrs)", "low rank, tuned", "pruning (mbrs)"),
)
LEAST = 0.01  # per cent: smaller ones are drawn here, a logarithmic scale has no zero


def draw(rows: Sequence[dict[str, Any]], sets: Sequence[str]) -> str:
    """Regret against passes as SVG; a method with several budgets or tolerances is a line."""
    panels = []
    for name in sets:
        points = {
            method: [
                (row["passes"], max(100 * row["regret"], LEAST))
                for row in rows
                if row["set"] == name and (row["method"] == method or row["method"].startswith(f"{method}, tolerance"))
            ]
            for method in METHODS
        }
        title = name if "PEAR" in name else f"synthetic matrices, {name}"
        panels.append(Cloud(title, {method: line for method, line in points.items() if line}))
    return cloud_panels(
        "What fewer comparisons lose",
        panels,
        "passes per list (log scale)",
        "mean regret: loss of the choice as a share of best minus mean (log scale)",
        log_y=" %",
    )
