"""Judged lists that no model was trained on, for the quality benchmarks of PEAR.

`tatoeba_lists`: 100-best lists of the bundled translation model for sources of the part `unseen` that neither model
saw, each candidate with its agreement with the references. `wmt23_lists`: the outputs of the WMT23 systems for the
English-German segments with MQM scores.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.support.places import TATOEBA, WMT23, WORK
from benchmarks.support.tatoeba import candidate_lists, parts, references
from benchmarks.support.teacher import Embedder, agreement
from candidates.generation import Settings
from pear.data import Judgment, read_judgments

# WMT23 systems whose outputs drop text: length alone separates them from the others.
TRUNCATING = ("NLLB_Greedy", "NLLB_MBR_BLEU", "AIRC")


@dataclass(frozen=True)
class Judged:
    """Candidates of a source with the score that a metric should agree with."""

    source: str
    reference: str
    texts: list[str]
    scores: NDArray[np.float64]
    logprobs: list[float] | None = None
    systems: list[str] | None = None

    def only(self, places: list[int]) -> Judged:
        """Some of the candidates."""
        return Judged(
            self.source,
            self.reference,
            [self.texts[k] for k in places],
            self.scores[places],
            [self.logprobs[k] for k in places] if self.logprobs else None,
            [self.systems[k] for k in places] if self.systems else None,
        )


def tatoeba_lists(count: int, candidates: int, *, data: Path = TATOEBA, work: Path = WORK / "quality") -> list[Judged]:
    """`count` held-out sources with some candidates of their 100-best lists, drawn evenly, scored by the teacher."""
    work.mkdir(parents=True, exist_ok=True)
    sources = parts(data)["held-out"][:count]
    golden = references(data, "unseen")
    embed = Embedder()
    judged = []
    for item in candidate_lists(work / f"held-out-{count}.jsonl", sources, Settings(nbest=100)):
        draw = random.Random(item.source)
        places = sorted(draw.sample(range(len(item)), min(candidates, len(item))))
        texts = [item.texts[k] for k in places]
        scores = agreement(texts, golden[item.source], embed).score.astype(np.float64)
        chosen = [float(np.array(item.logprobs, np.float64)[k]) for k in places]
        judged.append(Judged(item.source, golden[item.source][0], texts, scores, chosen))
    return judged


def wmt23_lists(*, without: tuple[str, ...] = (), every: int = 1) -> list[Judged]:
    """The WMT23 English-German segments with human scores: all, or one of `every`."""
    segments: dict[tuple[str, str], list[Judgment]] = {}
    for row in read_judgments(WMT23, "mt-metrics-eval", lp="en-de", human="mqm"):
        if row.system not in without:
            segments.setdefault((row.document, row.segment), []).append(row)
    judged = [
        Judged(
            rows[0].source,
            rows[0].reference or "",
            [row.translation for row in rows],
            np.array([row.score for row in rows]),
            systems=[row.system for row in rows],
        )
        for rows in segments.values()
    ]
    return judged[::every]
