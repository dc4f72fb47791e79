"""Any utility with RESUME added: u'(h, r) = u(h, r) + weight * RESUME(s, r, h), as Noh et al. (2024) add it to metrics.

A utility such as chrF can only say how near a hypothesis is to a pseudo-reference; RESUME says which of the two is the
better translation. Both orders of a pair are scored: nothing in RESUME makes it antisymmetric, and added to a utility
that rewards likeness it would not stay so.

    with WithResume(get_utility("chrf"), "resume-folder", weight=20) as utility:
        mbr.rerank("A dog.", ["Ein Hund.", "Der Hund."], utility)
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from candidates.common.errors import ModelError, UsageError
from mbr.utilities.base import MatrixUtility, PairUtility, QualityUtility, Triple, Utility
from mbr.utilities.ensemble import Ensemble
from mbr.utilities.pear import model_settings, window_of
from pear.resume_metric import ResumeMetric, check_weight


class WithResume(PairUtility):
    """`base` with RESUME added. `model` is a loaded `pear.ResumeMetric`, or what its `load` takes, with options.

    Each pair costs a pass of RESUME, so only the pairs that a strategy asks for are scored, also where `base` could
    compute them all at once. Closing it closes both.
    """

    summary = "a utility with RESUME added"
    needs = "a checkpoint of kind resume (--add-resume)"

    def __init__(self, base: Utility, model: str | Path | ResumeMetric, weight: float = 0.2, **options: Any) -> None:
        check_weight(weight)
        if isinstance(base, Ensemble):
            raise UsageError("RESUME cannot be added to an ensemble, whose scale differs from list to list")
        if options and isinstance(model, ResumeMetric):
            raise UsageError(f"options {', '.join(options)} go with a model's name; this one is loaded already")
        self.base = base
        self.weight = float(weight)
        self.resume = model if isinstance(model, ResumeMetric) else ResumeMetric.load(model, **options)
        self.name = f"{base.name}+resume"
        self.window_passes = window_of(self.resume.engine)
        if isinstance(base, PairUtility):
            self.window_passes = min(base.window_passes, self.window_passes)

    def settings(self) -> dict[str, object]:
        ours = model_settings(self.resume)
        return {
            **self.base.settings(),
            "resume": ours["model"],
            "resume-weight": self.weight,
            "resume-dtype": ours["dtype"],
            "resume-trunc": ours["trunc"],
        }

    def notes(self) -> list[str]:
        adds = f"RESUME adds from -{self.weight:g} to {self.weight:g} to each {self.base.name} score"
        agreement = self.resume.engine.agreement
        return [*self.base.notes(), adds, *([f"RESUME: {agreement}"] if agreement else [])]

    def score_pairs(self, triples: Sequence[Triple]) -> NDArray[np.float32]:
        self.base.progress = self.progress
        scores = np.asarray(self._base_scores(triples), np.float64)
        if scores.shape != (len(triples),):
            raise ModelError(f"utility {self.base.name!r} returned scores {scores.shape} for {len(triples)} pairs")
        residuals = self.resume.score([(s, r, h) for s, h, r in triples], progress=self.progress)
        return (scores + self.weight * residuals).astype(np.float32)

    def _base_scores(self, triples: Sequence[Triple]) -> NDArray[np.float32]:
        if isinstance(self.base, MatrixUtility):
            return pairs_of_matrices(self.base, triples)
        if isinstance(self.base, QualityUtility):
            return self.base.score_each([(source, hypothesis) for source, hypothesis, _ in triples])
        return cast(PairUtility, self.base).score_pairs(triples)

    def truncates(self, source: str, texts: Sequence[str]) -> bool:
        return self.base.truncates(source, texts) or self.resume.engine.truncates(source, texts)

    def cost(self, triples: Sequence[Triple]) -> dict[str, Any]:
        engine = self.resume.engine
        residual = {"tokens": engine.tokens(triples), "memory_bytes": engine.memory_bytes()}
        own = self.base.cost(triples) if isinstance(self.base, PairUtility) else {}
        return {key: value + own.get(key, 0) for key, value in residual.items()}

    @property
    def on_gpu(self) -> bool:
        return self.base.on_gpu or self.resume.engine.on_gpu

    def close(self) -> None:
        self.base.close()
        self.resume.close()


def pairs_of_matrices(utility: MatrixUtility, triples: Sequence[Triple]) -> NDArray[np.float32]:
    """Single pairs [triples] of a utility that computes matrices: one matrix per source, over the texts asked for."""
    places: dict[str, list[int]] = {}
    for place, (source, _, _) in enumerate(triples):
        places.setdefault(source, []).append(place)
    scores = np.empty(len(triples), np.float32)
    utility.prepare([(s, [text for place in some for text in triples[place][1:]]) for s, some in places.items()])
    for source, some in places.items():
        hypotheses = list(dict.fromkeys(triples[place][1] for place in some))
        references = list(dict.fromkeys(triples[place][2] for place in some))
        if set(references) == set(hypotheses):
            references = hypotheses  # the same list, which a utility may then take in once
        rows = {text: number for number, text in enumerate(hypotheses)}
        columns = {text: number for number, text in enumerate(references)}
        matrix = np.asarray(utility.matrix(source, hypotheses, references), np.float32)
        if matrix.shape != (len(hypotheses), len(references)):
            raise ModelError(
                f"utility {utility.name!r} returned a matrix {matrix.shape} for {len(hypotheses)} hypotheses"
            )
        scores[some] = matrix[
            [rows[triples[place][1]] for place in some], [columns[triples[place][2]] for place in some]
        ]
    return scores
