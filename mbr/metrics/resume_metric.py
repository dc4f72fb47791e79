"""RESUME as a metric: is the hypothesis better than its reference? From -1 (much worse) to 1 (Noh et al. 2024).

with Resume(model="resume-folder") as resume_metric:
    resume_metric.score([("A dog.", "Ein Hund.", "Hund.")])
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Unpack

import numpy as np
from numpy.typing import NDArray

from mbr.metrics.base import Row
from mbr.metrics.pear import ScorerMetric
from pear.resume_metric import ResumeMetric
from pear.runtime.options import ModelOptions


class Resume(ScorerMetric):
    """A checkpoint of kind resume. Options: `ModelOptions`, and those of `pear.runtime.options.ScorerOptions`."""

    name = "resume-metric"
    summary = "RESUME: learned, by how much a translation is better than its reference, from -1 to 1"
    family = "pear"
    needs = "name a checkpoint of kind resume (pear-train --kind resume)"
    scorer = ResumeMetric

    def __init__(self, **options: Unpack[ModelOptions]) -> None:
        super().__init__(options)

    def score(self, rows: Sequence[Row], *, progress: bool = False) -> NDArray[np.float32]:
        if rows:
            self.texts_per_row(rows)
        return self._engine.score(
            [(source, other, hypothesis) for source, hypothesis, other in rows], progress=progress
        )
