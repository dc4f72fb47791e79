"""RESUME as a utility: u(h, r) = RESUME(s, r, h), which of two candidates is the better translation (Noh et al. 2024).

Mostly a term beside another utility (`--utility chrf --add resume-metric=20 --add-model resume-metric=FOLDER`): a
utility such as chrF only measures how near a hypothesis is to a pseudo-reference. Nothing in RESUME makes it
antisymmetric, so both orders of a pair are scored.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np
from numpy.typing import NDArray

from candidates.common.errors import UsageError
from mbr.utilities.base import PairUtility, Triple
from mbr.utilities.pear import model_settings, precision_notes, window_of
from pear.resume_metric import ResumeMetric
from pear.runtime.options import RunOptions

if TYPE_CHECKING:
    from pear.runtime.choice import PrecisionChoice


class ResumeUtility(PairUtility):
    """A checkpoint of kind resume. Options as in `pear.scorer`."""

    name = "resume-metric"
    summary = "RESUME: by how much a candidate is better than another taken as reference, from -1 to 1"
    needs = "a checkpoint of kind resume (--model)"
    family = "pear"

    def __init__(self, *, model: str | Path | None = None, **options: Unpack[RunOptions]) -> None:
        if model is None:
            raise UsageError("utility 'resume-metric' needs a checkpoint of kind resume; give its folder (--model)")
        self._metric = ResumeMetric.load(
            model,
            **options,
        )
        self.window_passes = window_of(self._metric.engine)

    def settings(self) -> dict[str, object]:
        return model_settings(self._metric)

    def notes(self) -> list[str]:
        return precision_notes(self._metric)

    def score_pairs(self, triples: Sequence[Triple]) -> NDArray[np.float32]:
        rows = [(source, reference, hypothesis) for source, hypothesis, reference in triples]
        return self._metric.score(rows, progress=self.progress)

    def truncates(self, source: str, texts: Sequence[str]) -> bool:
        return self._metric.engine.truncates(source, texts)

    def cost(self, triples: Sequence[Triple]) -> dict[str, Any]:
        engine = self._metric.engine
        return {"tokens": engine.tokens(triples), "memory_bytes": engine.memory_bytes()}

    @property
    def precision_choice(self) -> PrecisionChoice | None:
        return self._metric.engine.runner.choice

    @property
    def on_gpu(self) -> bool:
        return self._metric.engine.on_gpu

    def close(self) -> None:
        self._metric.close()
