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
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.support.teacher import Embedder, agreement
from candidates.common.text import atomic_output
from candidates.lists import CandidateList
from mbr.opening import open_decoder
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
    """The evidence on each list; computed once by `threads` processes and kept in `work`, block by block."""
    work.mkdir(parents=True, exist_ok=True)
    blocks = {work / f"{first // BLOCK:04d}.npz": lists[first : first + BLOCK] for first in range(0, len(lists), BLOCK)}
    missing = [file for file in blocks if not file.exists()]
    with ProcessPoolExecutor(threads, get_context("spawn")) as pool:
        own = [[references[item.source] for item in blocks[file]] for file in missing]
        list(pool.map(_write_block, missing, [blocks[file] for file in missing], own))
    for file, block in blocks.items():
        with closing(np.load(file)) as kept:
            observed, features, sizes = kept["observed"], kept["features"], kept["sizes"]
        ends = np.cumsum(sizes)
        for item, end, size in zip(block, ends, sizes, strict=True):
            rows = slice(end - size, end)
            yield Evidence(item.source, item.texts, observed[rows].astype(float), features[rows].astype(float))


def _write_block(file: Path, block: Sequence[CandidateList], references: Sequence[list[str]]) -> None:
    embed = Embedder()
    with open_decoder(Recipe("none", terms=TERMS, weights="uniform"), runtime={"threads": 1}) as decoder:
        decisions = [decision for window in decoder.windows(block) for decision in window]
    observed, features = [], []
    for item, decision, golden in zip(block, decisions, references, strict=True):
        own, source = embed(item.texts), embed([item.source])[0]
        terms = [decision.terms[name] for name in FEATURES[:-1]] if len(item) > 1 else [np.zeros(1)] * len(TERMS)
        features.append(np.column_stack([*terms, own @ source]))
        observed.append(agreement(item.texts, golden, embed, own).score)
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
