"""Data for the page's script: the segments with the choice of every row, and the matrices of a few segments.

Matrices are base64 of 16-bit numbers with a scale of their own: one of a hundred candidates takes 27 KB.
"""

from __future__ import annotations

import base64
import json
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mbr.compare.comparison import Comparison
from mbr.compare.document import plain
from mbr.compare.study import Portrait, Study, titles
from mbr.signature import Signature

MOST_SEGMENTS = 2000  # shown; those with the most different choices come first
MOST_CANDIDATES = 128  # of a heat map, the best
LEVELS = 32767


def page_data(done: Comparison) -> dict[str, Any]:
    standing = [row for row in done.rows if row.error is None]
    judges = [judge for judge in done.evaluation.judges if judge.error is None]
    places = _shown_segments(done)
    return {
        "rows": [
            {
                "label": row.label,
                "kind": row.kind,
                "signature": {} if row.signature is None else dict(Signature.parse(row.signature)),
            }
            for row in standing
        ],
        "settings": list(done.agreement.settings),
        "judges": [{"name": judge.label, "lower": judge.lower_is_better} for judge in judges],
        "segments": [
            {
                "id": done.lists[place].id,
                "source": done.lists[place].source,
                "references": list(dict.fromkeys(texts[place] for texts in done.references)),
                "size": len(done.lists[place]),
                "texts": list(dict.fromkeys(row.texts[place] for row in standing)),
                "choices": _numbers([row.texts[place] for row in standing]),
                "scores": [[_rounded(judge.segments[row.label][place]) for row in standing] for judge in judges],
                "regrets": [[_rounded(value) for value in line] for line in done.agreement.regrets[:, :, place]],
            }
            for place in places
        ],
        "left": len(done.lists) - len(places),
        "studies": [
            _study(done, study, title) for study, title in zip(done.studies, titles(done.studies), strict=True)
        ],
    }


def script_json(data: Any) -> str:
    """JSON that cannot end the script element that contains it, whatever the texts are."""
    text = json.dumps(plain(data), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def _shown_segments(done: Comparison) -> list[int]:
    """All segments in their order; of more than fit, those where the rows differ most."""
    chosen = [row.texts for row in done.rows if row.error is None]
    if len(done.lists) <= MOST_SEGMENTS:
        return list(range(len(done.lists)))
    different = [-len({texts[place] for texts in chosen}) for place in range(len(done.lists))]
    return sorted(np.argsort(different, kind="stable")[:MOST_SEGMENTS].tolist())


def _numbers(texts: list[str]) -> list[int]:
    places = {text: number for number, text in enumerate(dict.fromkeys(texts))}
    return [places[text] for text in texts]


def _rounded(value: float) -> float | None:
    return float(f"{value:.5g}") if np.isfinite(value) else None


def _study(done: Comparison, study: Study, title: str) -> dict[str, Any]:
    return {
        "title": title,
        "relation": study.relation,
        "segments": [_portrait(done, portrait) for portrait in study.portraits],
    }


def _portrait(done: Comparison, portrait: Portrait) -> dict[str, Any]:
    order = np.argsort(-portrait.scores, kind="stable")[:MOST_CANDIDATES]
    values = portrait.values[np.ix_(order, order)].astype(np.float64)
    place = next(number for number, item in enumerate(done.lists) if item is portrait.item)
    return {
        "id": portrait.item.id,
        "source": portrait.item.source,
        "all": len(portrait.item),
        "texts": [portrait.item.texts[number] for number in order],
        "scores": [_rounded(value) for value in portrait.scores[order]],
        "terms": {name: [_rounded(value) for value in values[order]] for name, values in portrait.terms.items()},
        "asymmetry": _rounded(portrait.asymmetry),
        "chosen": {
            row.label: int(np.flatnonzero(order == row.choices[place])[0])
            for row in done.rows
            if row.error is None and row.choices[place] in order
        },
        "values": packed(values),
    }


def packed(values: NDArray[np.float64]) -> dict[str, Any]:
    """A matrix as base64 of little-endian 16-bit numbers, times `scale`, plus `middle`."""
    middle = float((values.max() + values.min()) / 2)
    scale = float(max(values.max() - middle, 1e-12) / LEVELS)
    steps = np.rint((values - middle) / scale).astype("<i2")
    return {"middle": middle, "scale": scale, "numbers": base64.b64encode(steps.tobytes()).decode()}
