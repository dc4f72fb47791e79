"""Evidence on every candidate of a list: its agreement with the references, and evidence that needs none.

Agreement with one reference is noisy: a good translation in other words scores low. Evidence without a reference has
less noise: the translation model's log-probability, that of the reverse model, coverage by the word table in both
directions, consensus of the list, and similarity with the source. `fit_teacher` weighs it so that choosing by it gives
the best expected agreement with the references (the listwise objective of mbr-tune); the teacher's score of a candidate
is mostly this likely agreement, and a share of the one observed.

    parts = gather(lists, references, Path("work/evidence"), threads=1)
    teacher = fit_teacher(parts)
    teacher.scores(parts[0])
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.support.teacher import Embedder, agreement
from candidates.common.text import atomic_output
from candidates.lists import CandidateList
from mbr.opening import open_decoder
from mbr.pipeline import Decoder
from mbr.recipe import Recipe, TermSpec
from mbr.tune.listwise import Problem, fit, standardised

Floats = NDArray[np.float64]

TERMS = (
    TermSpec("logprob"),
    TermSpec("reverse", options={"model": "de-en"}),
    TermSpec("coverage", options={"model": "en-de"}),
    TermSpec("coverage-back", options={"model": "en-de"}),
    TermSpec("chrf"),
)
FEATURES = (*(term.name for term in TERMS), "source")
BLOCK = 500  # lists that are kept together, so that a run that was stopped continues
PENALTY = 0.001
OBSERVED = 0.5  # share of the observed agreement in the teacher's score


@dataclass(frozen=True)
class Evidence:
    """One list: observed agreement with the references [N], and features [N, features] in the order of `FEATURES`."""

    source: str
    texts: tuple[str, ...]
    observed: Floats
    features: Floats


@dataclass(frozen=True)
class Teacher:
    """Weights of the features, in points of observed agreement."""

    weights: tuple[float, ...]
    explained: float  # share of the variance of observed agreement within lists

    def likely(self, evidence: Evidence) -> Floats:
        """The agreement that the features let expect, 0 on average over the list."""
        centred = evidence.features - evidence.features.mean(axis=0)
        return np.asarray(centred @ np.array(self.weights))

    def scores(self, evidence: Evidence) -> Floats:
        """The scores to learn [N]; their mean is that of the observed agreement."""
        observed = evidence.observed - evidence.observed.mean()
        mixed = (1 - OBSERVED) * self.likely(evidence) + OBSERVED * observed
        return np.asarray(mixed + evidence.observed.mean())

    def write(self, file: Path) -> None:
        record = {"features": FEATURES, **asdict(self)}
        file.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


def gather(
    lists: Sequence[CandidateList], references: dict[str, list[str]], work: Path, *, threads: int
) -> Iterator[Evidence]:
    """The evidence on each list; computed once and kept in `work`, block by block."""
    work.mkdir(parents=True, exist_ok=True)
    recipe = Recipe("none", terms=TERMS, weights="uniform")
    embed: Embedder | None = None
    decoder: Decoder | None = None
    for first in range(0, len(lists), BLOCK):
        block = lists[first : first + BLOCK]
        file = work / f"{first // BLOCK:04d}.npz"
        if not file.exists():
            embed = embed or Embedder()
            decoder = decoder or open_decoder(recipe, runtime={"threads": threads})
            _write_block(file, block, references, decoder, embed)
        with closing(np.load(file)) as kept:
            observed, features, sizes = kept["observed"], kept["features"], kept["sizes"]
        ends = np.cumsum(sizes)
        for item, end, size in zip(block, ends, sizes, strict=True):
            rows = slice(end - size, end)
            yield Evidence(item.source, item.texts, observed[rows].astype(float), features[rows].astype(float))
    if decoder is not None:
        decoder.close()


def _write_block(
    file: Path, block: Sequence[CandidateList], references: dict[str, list[str]], decoder: Decoder, embed: Embedder
) -> None:
    decisions = [decision for window in decoder.windows(block) for decision in window]
    observed, features = [], []
    for item, decision in zip(block, decisions, strict=True):
        vectors = embed([item.source, *item.texts])
        similar = vectors[1:] @ vectors[0]
        terms = [decision.terms[name] for name in FEATURES[:-1]] if len(item) > 1 else [np.zeros(1)] * len(TERMS)
        features.append(np.column_stack([*terms, similar]))
        observed.append(agreement(item.texts, references[item.source], embed).score)
    with atomic_output(file) as stream:
        np.savez(
            stream,
            observed=np.concatenate(observed).astype(np.float32),
            features=np.concatenate(features).astype(np.float32),
            sizes=np.array([len(item) for item in block]),
        )


def fit_teacher(evidence: Sequence[Evidence]) -> Teacher:
    """Weights by the listwise objective, scaled to points of observed agreement by least squares within lists."""
    values, deviations = standardised([item.features for item in evidence])
    problem = Problem.of(values, [item.observed for item in evidence])
    weights = fit(problem, PENALTY, seed=1)
    predicted = np.concatenate([value @ weights for value in values])
    centred = np.concatenate([item.observed - item.observed.mean() for item in evidence])
    slope = float(predicted @ centred / (predicted @ predicted))
    explained = 1 - float(((centred - slope * predicted) ** 2).sum() / (centred**2).sum())
    scaled = slope * weights / np.where(deviations > 0, deviations, np.inf)
    return Teacher(tuple(float(weight) for weight in scaled), explained)
