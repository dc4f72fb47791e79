"""Training lists for the bundled PEAR: candidates with the teacher's scores, and damaged references.

Each source whose lists no translation model learnt from gives two lists. `top`: candidates that the evidence without
references puts first, where the choice is made and differences are small; chosen by their scores instead, they would
mostly be ones that the reference happens to favour. `spread`: some of the whole list. Every third source gives a third
one, `damaged`: the reference beside damaged copies of it, graded, and the beam's best. `order_rows` gives one more: the
reference beside copies whose words are swapped or repeated, the damage that is learnt last.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from benchmarks.support.evidence import Evidence, Teacher
from pear.data.corruptions import Corruption, corrupted

TOP, OF_TOP, SPREAD = 30, 12, 10  # candidates: the best ones, those drawn of them, those drawn of all
DAMAGED = 4  # damaged copies of a reference
EVERY = 3  # one source in three has a list of damaged references
SWAPPED = 1  # of these, copies with words in another order, which other damage teaches least
LEAST_DAMAGE, PER_PENALTY = 0.5, 3.0  # points that a damaged reference loses: at least, and for a penalty of one


def lesson_rows(
    evidence: Sequence[Evidence], teacher: Teacher, references: dict[str, list[str]]
) -> Iterator[dict[str, Any]]:
    """The training lists as rows of JSON lines; wrong words and sentences come from references of these sources."""
    pool = [references[item.source][0] for item in evidence]
    for number, item in enumerate(evidence):
        draw = random.Random(item.source)
        scores = teacher.scores(item)
        golden = references[item.source]
        order = np.argsort(-teacher.likely(item)).tolist()
        top = sorted({0, *draw.sample(order[:TOP], min(OF_TOP, len(order)))})
        spread = draw.sample(range(len(order)), min(SPREAD, len(order)))
        for document, places in (("top", top), ("spread", spread)):
            yield _row(item.source, golden[0], document, [(item.texts[k], float(scores[k])) for k in places])
        if number % EVERY:
            continue
        best = max(float(scores.max()), float(item.observed.max()))
        damaged = corrupted(item.source, golden[0], pool, seed=1)
        swaps = [damage for damage in damaged if damage.kind == "swap"]
        chosen = draw.sample(swaps, min(SWAPPED, len(swaps)))
        others = [damage for damage in damaged if damage not in chosen]
        chosen += draw.sample(others, min(DAMAGED - len(chosen), len(others)))
        first = (item.texts[0], min(float(scores[0]), best))
        yield _row(item.source, golden[0], "damaged", [(golden[0], best), *_harmed(chosen, best), first])


def order_rows(
    evidence: Sequence[Evidence], teacher: Teacher, references: dict[str, list[str]]
) -> Iterator[dict[str, Any]]:
    """One list for each source: its reference, and copies with words swapped or repeated."""
    for item in evidence[::EVERY]:
        reference = references[item.source][0]
        best = max(float(teacher.scores(item).max()), float(item.observed.max()))
        damaged = corrupted(item.source, reference, [], seed=2)
        chosen = [damage for damage in damaged if damage.kind in ("swap", "repetition")]
        if chosen:
            yield _row(item.source, reference, "order", [(reference, best), *_harmed(chosen, best)])


def _harmed(damaged: Sequence[Corruption], best: float) -> list[tuple[str, float]]:
    return [(damage.text, best - LEAST_DAMAGE - PER_PENALTY * damage.penalty) for damage in damaged]


def _row(source: str, reference: str, document: str, candidates: list[tuple[str, float]]) -> dict[str, Any]:
    unique: dict[str, float] = {}
    for text, score in candidates:
        if text.strip():
            unique.setdefault(text, round(score, 3))
    return {
        "source": source,
        "lp": "en-de",
        "document": document,
        "reference": reference,
        "candidates": [{"text": text, "score": score} for text, score in unique.items()],
    }
