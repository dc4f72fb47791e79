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
# Narrow enough to be read on a telephone: each candidate has its cells below it.
WIDTH, LEFT, CELL, HIGH, ROW, TOP = 536, 12, 48, 22, 48, 110


def draw(source: str, candidates: list[str]) -> str:
    decision = rerank(source, candidates, "chrf", keep_matrix=True)
    assert decision.matrix is not None
    values = decision.matrix.values[list(decision.ranking)][:, list(decision.ranking)]
    texts = [decision.matrix.texts[index] for index in decision.ranking]
    expected = [decision.expected[index] for index in decision.ranking]
    low = float(values.min())
    right = LEFT + CELL * len(texts) + 14
    parts = [
        picture_head(WIDTH, TOP + ROW * len(texts) + 6),
        _text(LEFT, 26, source, size=14, bold=True),
        _text(LEFT, 48, "Every candidate (row) scored with every other as pseudo-reference (column):", QUIET),
        _text(LEFT, 66, "chrF, from 0 to 100. The row with the best mean, in green, is chosen.", QUIET),
        _text(right, TOP - 14, "expected", QUIET, size=11),
    ]
    for column in range(len(texts)):
        parts.append(_text(_middle(column), TOP - 14, str(column + 1), QUIET, size=11, anchor="middle"))
    for row, text in enumerate(texts):
        y = TOP + row * ROW
        colour, best = (GOOD, True) if row == 0 else (INK, False)
        parts.append(_text(LEFT, y + 6, f"{row + 1} {text}", colour, size=13, bold=best))
        for column, value in enumerate(values[row]):
            shade = (float(value) - low) / (100 - low)
            # Blue that lets the ground through is pale in light mode and deep in dark mode.
            fill = f'fill="{GRID}"' if row == column else f'fill="{SHADES[0]}" fill-opacity="{0.06 + 0.9 * shade:.2f}"'
            size = f'width="{CELL - 2}" height="{HIGH}"'
            parts.append(f'<rect x="{LEFT + column * CELL}" y="{y + 13}" {size} rx="3" {fill}/>')
            if row != column:
                ink = PAPER if shade > 0.8 else INK
                parts.append(_text(_middle(column), y + 28, f"{value:.0f}", ink, anchor="middle"))
        parts.append(_text(right, y + 28, f"{expected[row]:.1f}", colour, size=13, bold=best))
    return "\n".join([*parts, "</svg>"]) + "\n"


def _middle(column: int) -> int:
    return LEFT + column * CELL + CELL // 2 - 1


def _text(
    x: int, y: int, text: str, colour: str = INK, *, size: int = 12, bold: bool = False, anchor: str = "start"
) -> str:
    weight = ' font-weight="bold"' if bold else ""
    return (
        f'<text x="{x}" y="{y}" font-size="{size}" text-anchor="{anchor}" fill="{colour}"{weight}>{escape(text)}</text>'
    )


def main() -> None:
    record = json.loads(SAMPLE.read_text(encoding="utf-8").splitlines()[1])
    target = ROOT / "docs" / "matrix.svg"
    target.write_text(draw(record["source"], record["candidates"]), encoding="utf-8")
    print(f"wrote {target.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
