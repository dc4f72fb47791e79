"""A judge with RESUME added: f(s, r, c) + weight * RESUME(s, r, c) (Noh et al. 2024, section 4.1).

As words, the judge and then the term as `--add` takes it: `chrf+resume-metric=0.2,model=FOLDER`. The weight is that
of the paper, for metrics from 0 to 1. RESUME is multiplied with the range of other metrics (chrF: 100), so that 0.2
means the same everywhere; where a lower score is better it is subtracted. With weight 0 scores are those of the judge
alone.

>>> base, residual = split_residual("chrf+resume-metric=0.2,model=my-resume")
>>> base, residual.weight, residual.model
('chrf', 0.2, 'my-resume')
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from candidates.common.errors import UsageError
from mbr.evaluate.base import Composite, Floats, Judge, Judged, Row
from mbr.recipe.words import parse_term
from mbr.terms import check_term_options
from pear.resume_metric import check_weight

NAME = "resume-metric"
MARK = f"+{NAME}="
# Scales of metrics that do not run from 0 to 1, by family.
SCALES = {"lexical": 100.0, "metricx": 25.0}


@dataclass(frozen=True)
class Residual:
    """RESUME beside a metric: its weight, its model, and further options of the model."""

    weight: float
    model: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def suffix(self) -> str:
        """What the label of a judge with it ends in."""
        return f"+{self.weight:g}*RESUME"

    def factor(self, family: str, *, lower_is_better: bool = False) -> float:
        """What RESUME is multiplied with before it is added to a metric of this family."""
        return (-1.0 if lower_is_better else 1.0) * SCALES.get(family, 1.0) * self.weight


def split_residual(word: str, model: str | None = None) -> tuple[str, Residual | None]:
    """The judge of a word, and what is added to it; `model` is that of RESUME where the word names none.

    Raises:
        UsageError: the term is not `resume-metric=WEIGHT,model=MODEL`, or the weight is negative.
    """
    base, mark, term = word.partition(MARK)
    if not mark:
        return word, None
    return base, parse_residual(f"{NAME}={term}", repr(word), model)


def parse_residual(term: str, where: str, model: str | None = None) -> Residual:
    """RESUME of a word as `--add` takes it: `resume-metric=0.2,model=FOLDER`; `where` is what messages call it.

    Raises:
        UsageError: it is not RESUME, its weight is no number from 0 on, or it has no model.
    """
    name, weight, settings = parse_term(term, where)
    if name != NAME:
        raise UsageError(f"{where}: only RESUME can be added to a metric; expected {NAME}=WEIGHT,model=MODEL")
    check_term_options(name, settings, part="judge")
    check_weight(weight)
    model = settings.pop("model", model)
    if model is None:
        raise UsageError(
            f"{where}: RESUME has no model; none is bundled, so name a checkpoint of kind resume: "
            f"{NAME}={weight:g},model=FOLDER"
        )
    return Residual(weight, str(model), settings)


class WithResume(Composite):
    """`base` + `factor` * RESUME. Rows are those of the base, with (source, output, reference) after them."""

    def __init__(self, base: Judge, resume_metric: Judge, factor: float) -> None:
        self.parts = (base, resume_metric)
        self._factor = factor
        self.columns = base.columns + resume_metric.columns
        self.by_system = base.by_system
        self.identity = f"{base.identity}{factor:+g}*{resume_metric.identity}"

    def rows(
        self, sources: Sequence[str] | None, outputs: Sequence[str], references: Sequence[Sequence[str]]
    ) -> list[Row]:
        both = (part.rows(sources, outputs, references) for part in self.parts)
        return [(*first, *second) for first, second in zip(*both, strict=True)]

    def split(self, rows: Sequence[Row]) -> list[list[Row]]:
        return [[row[:-3] for row in rows], [row[-3:] for row in rows]]

    def combine(self, rows: Sequence[Row], judged: Sequence[Judged]) -> Judged:
        statistics = np.concatenate([part.statistics for part in judged], axis=1)
        return Judged(statistics, np.logical_or(*(part.truncated for part in judged)))

    def scores(self, sums: Floats) -> Floats:
        base, resume_metric = self._divided(sums)
        return self.parts[0].scores(base) + self._factor * self.parts[1].scores(resume_metric)

    def system_score(self, statistics: Floats) -> float:
        base, resume_metric = self._divided(statistics)
        return self.parts[0].system_score(base) + self._factor * self.parts[1].system_score(resume_metric)

    def segment_scores(self, statistics: Floats) -> Floats:
        base, resume_metric = self._divided(statistics)
        return self.parts[0].segment_scores(base) + self._factor * self.parts[1].segment_scores(resume_metric)

    def _divided(self, statistics: Floats) -> tuple[Floats, Floats]:
        count = self.parts[0].columns
        return statistics[:, :count], statistics[:, count:]
