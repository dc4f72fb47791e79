"""The walk of one sentence: candidates, what speaks for each of them, and the choice of the default recipe.

    python -m benchmarks.walk

Makes docs/walk.svg, or the file that `--output` names. The bundled translator makes the list and the recipe that ships
with it decides, as `mbr-decode` does; what the picture shows is read off that decision. The translator computes as it
does on processors without VNNI (`support/processors.py`), so the picture is the same on all x86 processors.
"""

from __future__ import annotations

import argparse
import os
import textwrap
from collections.abc import Sequence
from html import escape
from pathlib import Path

from benchmarks.support.places import ROOT
from benchmarks.support.processors import SAME_ON_X86
from candidates import CandidateList, Settings, open_generator
from candidates.common.pictures import GOOD, INK, QUIET, picture_head
from mbr import Recipe, decode, read_recipe
from mbr.decide import Decision

SOURCE = "We were very tired after the long walk."
NBEST, SHOWN = 100, 5
# Narrow enough to be read on a telephone: each candidate has its bars below it.
WIDTH, COLUMN, BAR, ROW, TOP, LONGEST = 536, 87, 74, 64, 142, 74
BLUE, GREEN = "#8fb3d9", "#2e9e6b"


def decided() -> tuple[Decision, Recipe]:
    """The decision of the default recipe on a beam of the bundled translator."""
    with open_generator(Settings(nbest=NBEST)) as generator:
        (item,) = generator.generate([SOURCE])
    assert isinstance(item, CandidateList)
    (decision,) = decode([item])
    return decision, read_recipe("en-de")


def draw(decision: Decision, recipe: Recipe) -> str:
    """The picture: the candidates that score highest, and the beam's best where it is not among them."""
    item = decision.candidates
    assert item is not None
    beam = min(range(len(item)), key=lambda index: item.positions[index][0])
    rows = list(dict.fromkeys([*decision.ranking[: SHOWN - 1], beam]))
    columns = [
        (recipe.utility.upper(), f"weight {recipe.weight:g}", [float(decision.expected[row]) for row in rows]),
        *(
            (term.name, f"weight {term.weight:g}", [float(decision.terms[term.name][row]) for row in rows])
            for term in recipe.terms
        ),
        ("score", "weighted sum", [float(decision.scores[row]) for row in rows]),
    ]
    height = TOP + ROW * len(rows) - 8
    parts = [
        picture_head(WIDTH, height),
        _text(12, 26, SOURCE, size=14, bold=True),
        _text(12, 48, f"A beam of {len(item)} candidates: the highest scores, and the beam's best.", QUIET),
        _text(12, 66, "Each column is evidence. The choice, in green, has the best weighted sum.", QUIET),
    ]
    for number, (name, words, _) in enumerate(columns):
        x = 12 + number * COLUMN
        parts += [_text(x, 98, name, size=10, bold=True), _text(x, 113, words, QUIET, size=11)]
    for place, row in enumerate(rows):
        y = TOP + place * ROW
        best = row == decision.ranking[0]
        mark = " (the beam's best)" if row == beam else ""
        text = textwrap.shorten(item.texts[row], LONGEST - len(mark), placeholder=" …") + mark
        parts.append(_text(12, y, text, GOOD if best else INK, size=13, bold=best))
        for number, (_, _, values) in enumerate(columns):
            parts += _bar(12 + number * COLUMN, y + 10, values, place, GREEN if best else BLUE)
    return "\n".join([*parts, "</svg>"]) + "\n"


def _bar(x: int, y: int, values: Sequence[float], place: int, colour: str) -> list[str]:
    """A value of one kind of evidence; the best value of the kind has the longest bar."""
    low, high = min(values), max(values)
    length = 4 + (BAR - 4) * ((values[place] - low) / (high - low) if high > low else 1.0)
    bar = f'<rect x="{x}" y="{y}" width="{length:.1f}" height="8" rx="2" fill="{colour}"/>'
    return [bar, _text(x, y + 22, f"{values[place]:.2f}", QUIET, size=11)]


def _text(x: int, y: int, text: str, colour: str = INK, *, size: int = 12, bold: bool = False) -> str:
    weight = ' font-weight="bold"' if bold else ""
    return f'<text x="{x}" y="{y}" font-size="{size}" fill="{colour}"{weight}>{escape(text)}</text>'


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.walk", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--output", type=Path, default=ROOT / "docs" / "walk.svg", help="the picture to write")
    target = parser.parse_args(words).output
    os.environ.update(SAME_ON_X86)
    target.write_text(draw(*decided()), encoding="utf-8")
    print(f"wrote {target}")


if __name__ == "__main__":
    main()
