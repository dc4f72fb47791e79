"""Cheap utilities with known properties, for tests of strategies."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from candidates import CandidateList
from mbr import PairUtility
from mbr.strategies import Enough, Outcome, Segment, Strategy


def number(text: str) -> float:
    """As good as random in (-1, 1), and different for different texts."""
    return zlib.crc32(text.encode()) / 2**31 - 1


class Better(PairUtility):
    """Antisymmetric: differences of qualities, and a part of its own for each pair."""

    name = "better"
    relation = "antisymmetric"
    default_strategy = "balanced"
    bias = 0.0

    def score_pairs(self, triples: Sequence[tuple[str, str, str]]) -> Any:
        scores = [number(a) - number(b) + (number(a + b) - number(b + a)) / 3 + self.bias for _, a, b in triples]
        return np.array(scores, np.float32)


class Biased(Better):
    """The same with an order bias."""

    bias = 0.2


class Similar(PairUtility):
    """No relation between u(i, j) and u(j, i); u(i, i) is far from all others."""

    name = "similar"

    def score_pairs(self, triples: Sequence[tuple[str, str, str]]) -> Any:
        scores = [9.0 if a == b else number(a) + number(b + b) + number(a + b) / 3 for _, a, b in triples]
        return np.array(scores, np.float32)


class Tables(PairUtility):
    """Looks scores up: a matrix for each source, and candidate 7 is the text "7"."""

    name = "tables"
    relation = "antisymmetric"
    default_strategy = "race"

    def __init__(self, matrices: Mapping[str, np.ndarray], window_passes: int = 16_384) -> None:
        self.matrices = matrices
        self.window_passes = window_passes
        self.calls: list[int] = []

    def score_pairs(self, triples: Sequence[tuple[str, str, str]]) -> Any:
        self.calls.append(len(triples))
        return np.array([self.matrices[source][int(a), int(b)] for source, a, b in triples], np.float32)

    def lists(self) -> list[CandidateList]:
        return [CandidateList.of(s, [str(i) for i in range(len(v))], id=s) for s, v in self.matrices.items()]


def questions(
    values: np.ndarray, strategy: Strategy, segment: Segment, answers: int | None = None
) -> tuple[Outcome, list[np.ndarray], list[float]]:
    """Hold the conversation with a matrix, or its first few answers; the pairs and the regrets of each request."""
    conversation = strategy.converse(segment)
    asked = [next(conversation)]
    try:
        while answers is None or len(asked) <= answers:
            asked.append(conversation.send(values[tuple(asked[-1].pairs.T)].astype(np.float32)))
        conversation.throw(Enough())
    except StopIteration as end:
        return end.value, [ask.pairs for ask in asked], [ask.regret for ask in asked]
    raise AssertionError("it went on after Enough")
