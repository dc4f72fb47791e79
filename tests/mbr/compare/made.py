"""Utilities that count what they are asked, and lists to compare on."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from candidates.common.errors import ModelError
from candidates.lists import Candidate, CandidateList
from mbr import MatrixUtility, PairUtility, QualityUtility
from tests.mbr.made import number

WORDS = [
    "der",
    "die",
    "das",
    "ein",
    "Hund",
    "Katze",
    "läuft",
    "rennt",
    "schnell",
    "heute",
    "morgen",
    "nicht",
    "immer",
    "hier",
    "dort",
]


class Counting(PairUtility):
    """Antisymmetric; counts the pairs that it scores, in all its lives. A text with NAN in it has no score."""

    name = "counting"
    relation = "antisymmetric"
    default_strategy = "race"
    family = "made"
    scored: ClassVar[int] = 0
    loaded: ClassVar[int] = 0
    burns: ClassVar[float] = 0.0  # CPU seconds, once in a life

    def __init__(self, *, model: str | None = None) -> None:
        if model == "missing":
            raise ModelError("models/missing: no such folder")
        self._model = model
        type(self).loaded += 1

    def settings(self) -> dict[str, object]:
        return {"model": self._model}

    def score_pairs(self, triples: Sequence[tuple[str, str, str]]) -> Any:
        if self._model == "broken":
            raise RuntimeError("the model <b>fell</b> over")
        type(self).scored += len(triples)
        end = time.process_time() + type(self).burns
        while time.process_time() < end:
            pass
        type(self).burns = 0.0
        scores = [number(a) - number(b) + (number(a + b) - number(b + a)) / 3 for _, a, b in triples]
        return np.array(
            [np.nan if "NAN" in "".join(row) else s for row, s in zip(triples, scores, strict=True)], np.float32
        )


class Overlap(MatrixUtility):
    """Shared words; counts its matrices."""

    name = "overlap"
    relation = "symmetric"
    family = "made"
    matrices: ClassVar[int] = 0

    def matrix(self, source: str, hypotheses: Sequence[str], references: Sequence[str]) -> Any:
        type(self).matrices += 1
        words = [[set(text.split()) for text in texts] for texts in (hypotheses, references)]
        return np.array([[len(a & b) / max(len(a | b), 1) for b in words[1]] for a in words[0]], np.float32)


class Longer(QualityUtility):
    """Rates by length; counts its candidates."""

    name = "longer"
    family = "made"
    rated: ClassVar[int] = 0

    def score_each(self, rows: Sequence[tuple[str, str]]) -> Any:
        type(self).rated += len(rows)
        return np.array([len(text) for _, text in rows], np.float32)


def lists(count: int, size: int = 8, seed: int = 1) -> list[CandidateList]:
    """Random lists, with duplicates here and there."""
    draw = np.random.default_rng(seed)
    return [
        CandidateList.of(
            f"source {place}",
            [Candidate(" ".join(draw.choice(WORDS, 5)), -float(k)) for k in range(size)],
            id=f"s{place}",
        )
        for place in range(count)
    ]


def references(items: Sequence[CandidateList], seed: int = 2) -> list[list[str]]:
    """One set: each like some candidate, but for a word."""
    draw = np.random.default_rng(seed)
    texts = []
    for item in items:
        words = item.texts[int(draw.integers(len(item)))].split()
        words[int(draw.integers(len(words)))] = str(draw.choice(WORDS))
        texts.append(" ".join(words))
    return [texts]
