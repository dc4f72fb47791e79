"""RESUME: is a candidate better than its reference? From -1 (much worse) to 1 (much better).

A metric that compares with a reference gives nothing more than the reference's own score, however good a candidate
is. RESUME reads source, reference and candidate together and gives the residual, which is added to any metric f:
f(s, r, c) + weight * RESUME(s, r, c) (Noh et al. 2024). The paper's weight of 0.2 goes with metrics from 0 to 1.

    with ResumeMetric.load("resume-folder") as resume_metric:
        resume_metric.score([("A dog.", "Hund.", "Ein Hund.")])       # (source, reference, candidate) -> array([0.3])
        metric = with_resume_metric(my_metric, resume_metric)         # my_metric(sources, references, candidates)
        metric(["A dog."], ["Hund."], ["Ein Hund."])
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from candidates.common.errors import InputError, ModelError, UsageError
from pear.scorer import Scorer

Metric = Callable[..., Any]


class ResumeMetric(Scorer):
    """A loaded RESUME."""

    kinds = ("resume",)

    def score(self, triples: Sequence[tuple[str, str, str]], *, progress: bool = False) -> NDArray[np.float32]:
        """Scores [triples] of (source, reference, candidate), positive where the candidate is better."""
        return self.engine.score(triples, progress=progress)


def with_resume_metric(
    metric: Metric, resume_metric: ResumeMetric, weight: float = 0.2
) -> Callable[..., NDArray[np.float64]]:
    """A metric with the residual added: metric + weight * RESUME.

    The result is called as `metric` is, with (sources, references, candidates) or with a sequence of (source,
    reference, candidate) triples, and keyword arguments for `metric` alone; `metric` returns one number per segment.
    """
    check_weight(weight)

    def combined(*texts: Any, **options: Any) -> NDArray[np.float64]:
        triples = _triples(texts)
        scores = np.asarray(metric(*texts, **options), np.float64)
        if scores.shape != (len(triples),):
            raise ModelError(f"the metric returned scores {scores.shape} for {len(triples)} segments")
        return scores + weight * resume_metric.score(triples)

    return combined


def check_weight(weight: float) -> None:
    """Raises UsageError unless the weight is finite and not negative."""
    if not (math.isfinite(weight) and weight >= 0):
        raise UsageError(f"the weight of RESUME is {weight}; expected a number from 0 on, such as 0.2")


def _triples(texts: tuple[Any, ...]) -> list[tuple[str, str, str]]:
    if len(texts) == 1:
        return list(texts[0])
    if len(texts) != 3:
        raise UsageError(
            f"{len(texts)} arguments; expected sources, references and candidates, or one sequence of such triples"
        )
    lengths = [len(column) for column in texts]
    if len(set(lengths)) > 1:
        raise InputError(f"sources, references and candidates must have equal lengths; found {lengths}")
    return list(zip(*texts, strict=True))
