"""Learned metrics as utilities: other candidates are their references, or they need none.

Metrics that compare (BLEURT, MetricX, UniTE, XCOMET) score pair by pair, in pooled batches. Metrics that rate a
candidate by itself (CometKiwi and COMET-QE, MetricX, UniTE and XCOMET without reference) rerank, or filter before a
more expensive utility. Where lower is better, the sign is changed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Unpack

import numpy as np
from numpy.typing import NDArray

from mbr.metrics import get_metric
from mbr.utilities.base import PairUtility, QualityUtility, Triple, Utility
from pear.runtime.options import LibraryOptions, ModelOptions

if TYPE_CHECKING:
    from pear.runtime.choice import PrecisionChoice


class OfMetric(Utility):
    """What all utilities made of a metric share. Options: `ModelOptions`."""

    metric_name: ClassVar[str]

    def __init__(self, **options: Unpack[ModelOptions]) -> None:
        self.metric = get_metric(self.metric_name, **options)
        self._sign = np.float32(-1 if self.metric.lower_is_better else 1)

    def settings(self) -> dict[str, object]:
        return self.metric.settings()

    def notes(self) -> list[str]:
        return self.metric.notes()

    @property
    def precision_choice(self) -> PrecisionChoice | None:
        return self.metric.precision_choice

    @property
    def on_gpu(self) -> bool:
        return self.metric.on_gpu

    def close(self) -> None:
        self.metric.close()


class ComparingMetric(OfMetric, PairUtility):
    """A metric with references that reads hypothesis and reference together, so that each pair is a pass."""

    # A pass of these is expensive: decide and commit often.
    window_passes = 4096

    def score_pairs(self, triples: Sequence[Triple]) -> NDArray[np.float32]:
        return self._sign * self.metric.score(triples, progress=self.progress)

    def truncates(self, source: str, texts: Sequence[str]) -> bool:
        sizes = [self.metric.tokens([(source, text, "")]) for text in texts]
        second, longest = (texts[place] for place in np.argsort(sizes)[-2:])
        return bool(self.metric.truncated([(source, second, longest), (source, longest, second)]).any())

    def cost(self, triples: Sequence[Triple]) -> dict[str, Any]:
        return {"tokens": self.metric.tokens(triples), "memory_bytes": self.metric.memory_bytes()}


class RatingMetric(OfMetric, QualityUtility):
    """A metric without references."""

    def score_each(self, rows: Sequence[tuple[str, str]]) -> NDArray[np.float32]:
        return self._sign * self.metric.score(rows, progress=self.progress)

    def truncates(self, source: str, texts: Sequence[str]) -> bool:
        return bool(self.metric.truncated([(source, text) for text in texts]).any())

    def cost(self, rows: Sequence[tuple[str, str]]) -> dict[str, Any]:
        return {"tokens": self.metric.tokens(rows), "memory_bytes": self.metric.memory_bytes()}


class WithLibrary(OfMetric):
    """A metric that its own library can run, too. Options: `LibraryOptions`."""

    def __init__(self, **options: Unpack[LibraryOptions]) -> None:
        super().__init__(**options)  # type: ignore[misc]


class Bleurt(WithLibrary, ComparingMetric):
    name = metric_name = "bleurt"
    summary = "BLEURT: learned, hypothesis and reference read together"
    needs = "a checkpoint (--model); else BLEURT-20 from the hub"
    family = "bleurt"


class MetricX(ComparingMetric):
    name = metric_name = "metricx"
    summary = "minus MetricX: learned, source, hypothesis and reference read together"
    needs = "a checkpoint (--model); else MetricX-24-Hybrid-XL from the hub"
    family = "metricx"


class MetricX23(ComparingMetric):
    name = metric_name = "metricx-23"
    summary = "minus MetricX-23: learned, hypothesis and reference read together"
    needs = "a checkpoint (--model); else MetricX-23-XL from the hub"
    family = "metricx"


class Unite(ComparingMetric):
    name = metric_name = "unite"
    summary = "UniTE: learned, source, hypothesis and reference read together"
    needs = "a checkpoint (--model); else UniTE-MUP from the hub"
    family = "comet"


class XComet(WithLibrary, ComparingMetric):
    name = metric_name = "xcomet"
    summary = "XCOMET: learned, from the errors it finds"
    needs = "a checkpoint (--model); else XCOMET-XL from the hub (not for commercial use)"
    family = "comet"


class CometQE(RatingMetric):
    name = metric_name = "comet-qe"
    summary = "COMET-QE: learned quality of each candidate, from vectors of source and candidate"
    needs = "a checkpoint (--model); else Unbabel/wmt20-comet-qe-da from the hub"
    family = "comet"


class CometKiwi(WithLibrary, RatingMetric):
    name = metric_name = "cometkiwi"
    summary = "CometKiwi: learned quality of each candidate"
    needs = "a checkpoint (--model); else Unbabel/wmt22-cometkiwi-da from the hub (not for commercial use)"
    family = "comet"


class MetricXQE(RatingMetric):
    name = "metricx-qe"
    metric_name = "metricx"
    summary = "minus MetricX without reference"
    needs = "as metricx"
    family = "metricx"


class MetricX23QE(RatingMetric):
    name = metric_name = "metricx-23-qe"
    summary = "minus MetricX-23-QE: learned quality of each candidate"
    needs = "a checkpoint (--model); else MetricX-23-QE-XL from the hub"
    family = "metricx"


class UniteQE(RatingMetric):
    name = "unite-qe"
    metric_name = "unite"
    summary = "UniTE without reference"
    needs = "as unite"
    family = "comet"


class XCometQE(WithLibrary, RatingMetric):
    name = "xcomet-qe"
    metric_name = "xcomet"
    summary = "XCOMET without reference"
    needs = "as xcomet"
    family = "comet"
