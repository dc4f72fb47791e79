"""The picture of docs/strategies.md: mean regret against passes, one panel per set of matrices."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any


def draw(rows: list[dict[str, Any]], sets: Sequence[str], path: Path) -> None:
    """Regret against passes, one panel per set; PNG and SVG."""
    import matplotlib  # type: ignore[import-not-found, unused-ignore]

    matplotlib.use("Agg")
    from matplotlib import pyplot  # type: ignore[import-not-found, unused-ignore]

    styles = {
        "race": ("#1f6feb", "o", "-"),
        "halving": ("#0b7a4b", "s", "-"),
        "prune": ("#8250df", "^", ""),
        "random anchors": ("#8a97a3", "v", "--"),
        "random pairs": ("#8a97a3", "x", ":"),
        "low rank (mbrs)": ("#c9510c", "D", "--"),
        "low rank, tuned": ("#c9510c", "d", ":"),
        "pruning (mbrs)": ("#bf3989", "^", "--"),
        "half": ("#000000", "*", ""),
        "balanced": ("#000000", "P", ""),
    }
    figure, panels = pyplot.subplots(1, len(sets), figsize=(5.2 * len(sets), 4.2), squeeze=False, sharey=True)
    for panel, name in zip(panels[0], sets, strict=True):
        for label, (colour, marker, line) in styles.items():
            points = [
                (row["passes"], max(100 * row["regret"], 0.01))
                for row in rows
                if row["set"] == name and (row["method"] == label or row["method"].startswith(f"{label}, tolerance"))
            ]
            if points:
                x, y = zip(*sorted(points), strict=True)
                panel.plot(x, y, color=colour, marker=marker, linestyle=line or "none", label=label, markersize=5)
        panel.axhline(1, color="#d0d7de", linewidth=1, zorder=0)
        title = name if "PEAR" in name else f"synthetic matrices, {name}"
        panel.set(xscale="log", yscale="log", title=title, xlabel="passes per list", xlim=(20, 6000))
        panel.set_xticks(
            [25, 50, 100, 200, 500, 1000, 2000, 5000], labels=["25", "50", "100", "200", "500", "1000", "2000", "5000"]
        )
        panel.set_yticks([0.01, 0.1, 1, 10, 100], labels=["0.01 %", "0.1 %", "1 %", "10 %", "100 %"])
        panel.minorticks_off()
        panel.grid(visible=True, which="major", color="#eaeef2")
    panels[0][0].set_ylabel("mean regret, share of best - mean")
    lines, labels = panels[0][0].get_legend_handles_labels()
    figure.tight_layout(rect=(0, 0.1, 1, 1))
    figure.legend(lines, labels, fontsize=9, loc="lower center", ncols=len(labels), frameon=False)
    for suffix in (".png", ".svg"):
        figure.savefig(path.with_suffix(suffix), dpi=110, metadata={"Date": None} if suffix == ".svg" else None)
    print(f"{path}.png and .svg")
