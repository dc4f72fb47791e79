"""The walk of one sentence: candidates, how much they agree, what else speaks for them, and the choice.

    python -m benchmarks.walk

Makes docs/walk.svg.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from benchmarks.support.places import ROOT
from candidates import CandidateList
from candidates.lists import Candidate
from mbr import decode

SOURCE = "The old woman lives alone in a small house by the lake."
# The first of a beam of the bundled translator, with their log-probabilities.
BEAM = (
    ("Die alte Frau lebt alleine in einem kleinen Haus.", -2.00),
    ("Die alte Frau lebt allein in einem kleinen Haus.", -2.16),
    ("Die alte Frau lebt allein in einem kleinen Haus am See.", -4.60),
    ("Die alte Frau lebt allein in einem kleinen Haus auf dem See.", -4.94),
    ("Die alte Frau lebt allein im See.", -3.56),
)
TERMS = {"logprob": 6.0, "coverage": 4.5, "coverage-back": 2.1}
LABEL, COLUMN, BAR, ROW, TOP = 444, 128, 104, 40, 132
STYLE = """
text { font-family: sans-serif; font-size: 13px; fill: #1b2733; }
.small { font-size: 11px; fill: #51606e; }
.head { font-weight: bold; }
.best { font-weight: bold; fill: #0b6b43; }
.bar { fill: #8fb3d9; } .won { fill: #2e9e6b; } .ground { fill: #ffffff; }
@media (prefers-color-scheme: dark) {
  text { fill: #dfe5ec; } .small { fill: #9aa7b5; } .best { fill: #5fd39d; }
  .bar { fill: #47658a; } .won { fill: #2e9e6b; } .ground { fill: #1e2129; }
}
"""


def draw() -> str:
    """The picture, from a real decision."""
    item = CandidateList.of(SOURCE, [Candidate(text, logprob) for text, logprob in BEAM])
    (decision,) = decode([item], "chrf", add=TERMS)
    columns = [
        ("agreement", "chrF with the others", list(map(float, decision.expected))),
        *((name, f"weight {TERMS[name]:g}", list(map(float, decision.terms[name]))) for name in TERMS),
        ("score", "the weighted sum", list(map(float, decision.scores))),
    ]
    order, best = range(len(BEAM)), int(decision.ranking[0])
    width, height = LABEL + COLUMN * len(columns) + 16, TOP + ROW * len(BEAM) + 48
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}">',
        f"<style>{STYLE}</style>",
        f'<rect class="ground" width="{width}" height="{height}"/>',
        f'<text class="head" x="16" y="30">{escape(SOURCE)}</text>',
        '<text class="small" x="16" y="54">A translation model proposes candidates; each column is evidence; '
        "the best weighted sum wins.</text>",
        f'<text class="head" x="16" y="{TOP - 32}">candidates</text>',
        f'<text class="small" x="16" y="{TOP - 14}">mbr-generate, or your engine</text>',
    ]
    for place in order:
        style = "best" if place == best else "plain"
        parts.append(f'<text class="{style}" x="16" y="{TOP + place * ROW + 20}">{escape(BEAM[place][0])}</text>')
    for number, (name, words, values) in enumerate(columns):
        parts += _column(LABEL + number * COLUMN, name, words, values, best)
    parts.append(f'<text class="best" x="16" y="{height - 16}">chosen: {escape(decision.text)}</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"


def _column(x: int, name: str, words: str, values: Sequence[float], best: int) -> list[str]:
    """Bars of one kind of evidence; the best value has the longest."""
    low, high = min(values), max(values)
    parts = [
        f'<text class="head" x="{x}" y="{TOP - 32}">{escape(name)}</text>',
        f'<text class="small" x="{x}" y="{TOP - 14}">{escape(words)}</text>',
    ]
    for place, value in enumerate(values):
        y = TOP + place * ROW
        length = 6 + (BAR - 6) * (value - low) / (high - low)
        style = "won" if place == best else "bar"
        parts.append(f'<rect class="{style}" x="{x}" y="{y + 4}" width="{length:.1f}" height="10" rx="2"/>')
        parts.append(f'<text class="small" x="{x}" y="{y + 28}">{value:.2f}</text>')
    return parts


def main() -> None:
    target = ROOT / "docs" / "walk.svg"
    target.write_text(draw(), encoding="utf-8")
    print(f"wrote {target.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
