"""The utility matrix of a shipped sample list, sorted by expected utility.

    python -m benchmarks.picture

Makes docs/matrix.svg.
"""

from __future__ import annotations

import json
from html import escape

from benchmarks.support.places import ROOT
from mbr import rerank

SAMPLE = ROOT / "benchmarks" / "sample" / "en-de.jsonl"
CELL, LABEL, TOP = 34, 490, 104


def draw(source: str, candidates: list[str]) -> str:
    decision = rerank(source, candidates, "chrf", keep_matrix=True)
    assert decision.matrix is not None
    values = decision.matrix.values[list(decision.ranking)][:, list(decision.ranking)]
    texts = [decision.matrix.texts[index] for index in decision.ranking]
    expected = [decision.expected[index] for index in decision.ranking]
    low = float(values.min())
    right = LABEL + CELL * len(texts)
    width, height = right + 120, TOP + CELL * len(texts) + 44
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        'font-family="sans-serif" font-size="13">',
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
        f'<text x="16" y="30" font-size="16" font-weight="bold" fill="#1b2733">{escape(source)}</text>',
        '<text x="16" y="54" fill="#51606e">Every candidate (row) scored with every other as pseudo-reference '
        "(column); the row with the best mean is chosen.</text>",
        f'<text x="{LABEL}" y="{TOP - 12}" fill="#51606e">utility: chrF</text>',
        f'<text x="{right + 14}" y="{TOP - 12}" fill="#51606e">expected</text>',
    ]
    for row, text in enumerate(texts):
        y = TOP + row * CELL
        weight, colour = ("bold", "#0b5d3b") if row == 0 else ("normal", "#1b2733")
        style = f'font-weight="{weight}" fill="{colour}"'
        parts.append(f'<text x="{LABEL - 12}" y="{y + 22}" text-anchor="end" {style}>{escape(text)}</text>')
        for column, value in enumerate(values[row]):
            shade = (float(value) - low) / (100 - low)
            fill = "#e9edf1" if row == column else f"hsl(205 70% {96 - 56 * shade:.0f}%)"
            ink = "#ffffff" if shade > 0.62 and row != column else "#33414e"
            x = LABEL + column * CELL
            parts.append(f'<rect x="{x}" y="{y}" width="{CELL - 2}" height="{CELL - 2}" rx="3" fill="{fill}"/>')
            if row != column:
                middle = x + CELL / 2 - 1
                place = f'x="{middle}" y="{y + 21}" text-anchor="middle"'
                parts.append(f'<text {place} font-size="11" fill="{ink}">{value:.0f}</text>')
        parts.append(f'<text x="{right + 14}" y="{y + 22}" {style}>{expected[row]:.1f}</text>')
    chosen = f'<text x="16" y="{height - 16}" fill="#0b5d3b" font-weight="bold">chosen: {escape(texts[0])}</text>'
    return "\n".join([*parts, chosen, "</svg>"]) + "\n"


def main() -> None:
    record = json.loads(SAMPLE.read_text(encoding="utf-8").splitlines()[1])
    target = ROOT / "docs" / "matrix.svg"
    target.write_text(draw(record["source"], record["candidates"]), encoding="utf-8")
    print(f"wrote {target.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
