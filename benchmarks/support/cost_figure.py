"""The picture of docs/peers.md: quality of the choices against their cost, one panel per judge.

Drawn from the report.json of a comparison (`benchmarks.compare` keeps its own).
"""

from __future__ import annotations

from typing import Any

from mbr.drawing import Cloud, cloud_panels

JUDGES = {"chrf": "chrF", "bleu": "BLEU", "embedding": "embedding similarity", "ter": "TER (lower is better)"}


def draw(report: dict[str, Any]) -> str:
    """Scores with their intervals against seconds per sentence, and the beam's best as a line, as SVG."""
    segments = len(report["choices"])
    settings = [row for row in report["rows"] if row["seconds"] and not row["error"]]
    first = next(row for row in report["rows"] if row["label"] == report["baseline"])
    panels = []
    for judge, title in JUDGES.items():
        scores = {row["label"]: row["scores"][judge] for row in settings if judge in row["scores"]}
        if not scores:
            continue
        costs = {row["label"]: row["seconds"] / segments for row in settings}
        level = first["scores"].get(judge)
        panels.append(
            Cloud(
                title,
                {label: [(costs[label], score["score"])] for label, score in scores.items()},
                {} if level is None else {report["baseline"]: round(level["score"], 3 if judge == "embedding" else 1)},
                {label: (score["low"], score["high"]) for label, score in scores.items() if score["low"] is not None},
            )
        )
    return cloud_panels(
        f"Quality against cost: {segments:,} sentences, {report['candidates']:.0f} candidates each",
        panels,
        "CPU seconds per sentence for choosing (log scale)",
        "score of the choices with its 95 % interval; the dashed line is the beam's best",
    )
