"""Lists whose qualities are known: a candidate has as many right words as its planted features and chance say."""

from __future__ import annotations

import os
import random
import re
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from candidates.lists import CandidateList
from mbr.decide import ReferenceWeights
from mbr.terms import Term
from mbr.utilities import PairUtility

WORDS = 30
FEATURES: dict[tuple[str, str], Any] = {}  # of the made candidates, by source and text

TERMS = {f"planted-{place}": f"tests.mbr.tune.made:Planted{place}" for place in range(4)}
UTILITIES = {"fragile": "tests.mbr.tune.made:Fragile", "planted": "tests.mbr.tune.made:PlantedUtility"}


def made_lists(
    count: int, weights: Sequence[float], *, noise: float = 0.5, size: int = 12, seed: int = 1
) -> tuple[list[CandidateList], list[tuple[str]]]:
    """Lists with features of these weights in the quality, and their references."""
    draw = np.random.default_rng(seed)
    lists, references = [], []
    for number in range(count):
        source = f"source {number}"
        right = [f"{draw.integers(36**6):06x}" for _ in range(WORDS)]
        texts = []
        for place in range(size):
            features = draw.normal(size=len(weights))
            quality = features @ np.array(weights) + noise * draw.normal()
            correct = int(np.clip(round(WORDS / 2 + 4 * quality), 0, WORDS))
            text = " ".join(right[:correct] + [f"{place}{k}zzzz" for k in range(WORDS - correct)])
            FEATURES[source, text] = features
            texts.append(text)
        lists.append(CandidateList.of(source, texts, id=number))
        references.append((" ".join(right),))
    return lists, references


class _Planted(Term):
    place: ClassVar[int]

    def values(self, lists: Sequence[CandidateList], references: ReferenceWeights) -> list[Any]:
        return [np.array([FEATURES[item.source, text][self.place] for text in item.texts]) for item in lists]


class Planted0(_Planted):
    name, place = "planted-0", 0


class Planted1(_Planted):
    name, place = "planted-1", 1


class Planted2(_Planted):
    name, place = "planted-2", 2


class Planted3(_Planted):
    name, place = "planted-3", 3


class PlantedUtility(PairUtility):
    """By how much the second feature of one candidate is larger."""

    name, relation = "planted", "antisymmetric"

    def score_pairs(self, triples: Sequence[tuple[str, str, str]]) -> Any:
        return np.array([FEATURES[s, a][1] - FEATURES[s, b][1] for s, a, b in triples], np.float32)


class Fragile(PairUtility):
    """Prefers longer texts; kills its process at the call that $FRAGILE_DIES_AT names, and counts its pairs."""

    name = "fragile"
    scored: ClassVar[int] = 0
    calls: ClassVar[int] = 0

    def score_pairs(self, triples: Sequence[tuple[str, str, str]]) -> Any:
        Fragile.calls += 1
        if Fragile.calls == int(os.environ.get("FRAGILE_DIES_AT", 0)):
            os.kill(os.getpid(), signal.SIGKILL)
        Fragile.scored += len(triples)
        if counts := os.environ.get("FRAGILE_COUNTS"):
            Path(counts).write_text(str(Fragile.scored))
        return np.array([np.tanh((len(a) - len(b)) / 7) for _, a, b in triples], np.float32)


GERMAN = re.findall(
    r"\w+", "der die das ein eine hund katze haus baum läuft schläft steht gross klein rot blau und heute"
)


def made_records(count: int = 30, seed: int = 1) -> list[dict[str, Any]]:
    """Candidates with wrong words, whose log-probability falls with their number."""
    draw = random.Random(seed)
    records = []
    for number in range(count):
        right = draw.sample(GERMAN, 8)
        candidates = []
        for _ in range(8):
            wrong = draw.randrange(6)
            text = " ".join([*right[: 8 - wrong], *draw.sample(GERMAN, wrong + draw.randrange(2))])
            candidates.append({"text": text, "logprob": -wrong - draw.random()})
        records.append(
            {"id": number, "source": f"source {number}", "candidates": candidates, "references": [" ".join(right)]}
        )
    return records
