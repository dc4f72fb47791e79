"""The utility matrix of a shipped sample list, sorted by expected utility.

    python -m benchmarks.picture

Makes docs/matrix.svg.
"""

from __future__ import annotations

import json
from html import escape

from benchmarks.support.places import ROOT
from candidates.common.pictures import GOOD, GRID, INK, PAPER, QUIET, SHADES, picture_head
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
        picture_head(width, height),
        '<g font-size="13">',
        f'<text x="16" y="30" font-size="16" font-weight="bold" fill="{INK}">{escape(source)}</text>',
        f'<text x="16" y="54" fill="{QUIET}">Every candidate (row) scored with every other as pseudo-reference '
        "(column); the row with the best mean is chosen.</text>",
        f'<text x="{LABEL}" y="{TOP - 12}" fill="{QUIET}">utility: chrF</text>',
        f'<text x="{right + 14}" y="{TOP - 12}" fill="{QUIET}">expected</text>',
    ]
    for row, text in enumerate(texts):
        y = TOP + row * CELL
        weight, colour = ("bold", GOOD) if row == 0 else ("normal", INK)
        style = f'font-weight="{weight}" fill="{colour}"'
        parts.append(f'<text x="{LABEL - 12}" y="{y + 22}" text-anchor="end" {style}>{escape(text)}</text>')
        for column, value in enumerate(values[row]):
            shade = (float(value) - low) / (100 - low)
            # Blue that lets the ground through is pale in light mode and deep in dark mode.
            fill = f'fill="{GRID}"' if row == column else f'fill="{SHADES[0]}" fill-opacity="{0.06 + 0.9 * shade:.2f}"'
            ink = PAPER if shade > 0.5 and row != column else INK
            x = LABEL + column * CELL
            parts.append(f'<rect x="{x}" y="{y}" width="{CELL - 2}" height="{CELL - 2}" rx="3" {fill}/>')
            if row != column:
                middle = x + CELL / 2 - 1
                place = f'x="{middle}" y="{y + 21}" text-anchor="middle"'
                parts.append(f'<text {place} font-size="11" fill="{ink}">{value:.0f}</text>')
        parts.append(f'<text x="{right + 14}" y="{y + 22}" {style}>{expected[row]:.1f}</text>')
    chosen = f'<text x="16" y="{height - 16}" fill="{GOOD}" font-weight="bold">chosen: {escape(texts[0])}</text>'
    return "\n".join([*parts, chosen, "</g>", "</svg>"]) + "\n"


def main() -> None:
    record = json.loads(SAMPLE.read_text(encoding="utf-8").splitlines()[1])
    target = ROOT / "docs" / "matrix.svg"
    target.write_text(draw(record["source"], record["candidates"]), encoding="utf-8")
    print(f"wrote {target.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
