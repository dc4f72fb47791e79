"""What a training run leaves for people: a model card and a picture of its losses."""

from __future__ import annotations

from html import escape
from typing import Any

from candidates.common.pictures import QUIET, picture_head

TITLES = {
    "pear": "PEAR: by how much one translation is better than another",
    "single": "Single-candidate quality estimation, the matched baseline of PEAR",
    "resume": "RESUME: how much better a translation is than the reference",
    "sentinel-cand": "Sentinel that sees the candidate only",
    "sentinel-src": "Sentinel that sees the source only",
    "sentinel-ref": "Sentinel that sees the reference only",
}
WIDTH, HEIGHT, LEFT, BOTTOM, TOP = 720, 380, 30, 40, 84
COLOURS = ("#1f6feb", "#c9510c", "#0b7a4b")


def card(facts: dict[str, Any]) -> str:
    """The README of a trained model: what it is, its data, how it was made, what it reached."""
    lines = [
        "---",
        "library_name: mbr-decode",
        f"tags: [translation, quality-estimation, {facts['kind']}]",
        "---",
        f"# {TITLES[facts['kind']]}",
        "",
        f"Trained by `pear-train`, beginning with {facts['begins_with']}, on {', '.join(facts['data'])}.",
        "",
        "| stage | sources | judgments | pairs | steps | best development result |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for name, numbers in facts["statistics"].items():
        total, log = numbers["total"], facts["log"][name]
        best: dict[str, Any] = next((line for line in reversed(log) if line["best"]), {})
        reached = ", ".join(f"{key[4:]} {value:.3f}" for key, value in best.items() if key.startswith("dev_"))
        steps = log[-1]["step"] if log else 0
        lines.append(
            f"| {name} | {total['groups']} | {total['judgments']} | {total['pairs']} | {steps} "
            f"| {reached or 'none measured'} (step {best.get('step', 0)}) |"
        )
    lines += ["", f"Development: {facts['dev_sources']} sources that were not trained on.", ""]
    lines += ["Scores have the scale of the judgments; they mean nothing outside the languages and domain above.", ""]
    if facts["command"]:
        lines += ["    " + facts["command"], ""]
    lines += ["All settings, statistics and the log are in `training.json`; `loss.svg` draws the losses.", ""]
    return "\n".join(lines)


def draw_losses(logs: dict[str, list[dict[str, Any]]]) -> str:
    """Training loss and development statistics over the steps, one stage after the other, each on its own axis: SVG."""
    lines = [line for log in logs.values() for line in log]
    offset, steps = 0, []
    for log in logs.values():
        steps += [offset + line["step"] for line in log]
        offset += log[-1]["step"] if log else 0
    series = {"training loss": [line.get("loss") for line in lines]}
    for name in ("dev_acc_eq", "dev_pdp"):
        series[name.replace("dev_", "development ")] = [line.get(name) for line in lines]
    parts = [
        picture_head(WIDTH, HEIGHT),
        '<g font-size="12">',
        f'<text x="{LEFT}" y="{HEIGHT - 10}" fill="{QUIET}">0</text>',
        f'<text x="{WIDTH - 20}" y="{HEIGHT - 10}" fill="{QUIET}" text-anchor="end">{offset} steps</text>',
        f'<path d="M{LEFT} {TOP}V{HEIGHT - BOTTOM}H{WIDTH - 20}" fill="none" stroke="#8a97a3"/>',
    ]
    for number, (name, values) in enumerate(series.items()):
        measured = [(step, value) for step, value in zip(steps, values, strict=True) if value is not None]
        if not measured:
            continue
        low, high = min(value for _, value in measured), max(value for _, value in measured)
        points = " ".join(
            f"{LEFT + (WIDTH - LEFT - 20) * step / max(offset, 1):.1f},"
            f"{HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * ((value - low) / (high - low) if high > low else 0.5):.1f}"
            for step, value in measured
        )
        colour = COLOURS[number]
        parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>')
        label = f"{name}: from {measured[0][1]:.3g} to {measured[-1][1]:.3g}; the axis is {low:.3g} to {high:.3g}"
        parts.append(f'<text x="{LEFT}" y="{22 + 20 * number}" fill="{colour}">{escape(label)}</text>')
    return "\n".join([*parts, "</g>", "</svg>"]) + "\n"
