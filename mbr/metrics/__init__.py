"""Metrics by name: they judge translations, and most utilities are made of them.

>>> from mbr.metrics import metric_names
>>> metric_names()[:5]
['comet', 'comet-qe', 'cometkiwi', 'unite', 'xcomet']
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from candidates.common.errors import UsageError
from mbr.metrics.base import Metric, Row

CLASSES = {
    "comet": "mbr.metrics.comet:Comet",
    "comet-qe": "mbr.metrics.comet_qe:CometQE",
    "cometkiwi": "mbr.metrics.cometkiwi:CometKiwi",
    "unite": "mbr.metrics.unite:Unite",
    "xcomet": "mbr.metrics.xcomet:XComet",
    "bleurt": "mbr.metrics.bleurt:Bleurt",
    "metricx": "mbr.metrics.metricx:MetricX",
    "metricx-23": "mbr.metrics.metricx:MetricX23",
    "metricx-23-qe": "mbr.metrics.metricx:MetricX23QE",
    "bertscore": "mbr.metrics.bertscore:BertScore",
    "embedding": "mbr.metrics.embedding:Embedding",
    "pear": "mbr.metrics.pear:Pear",
    "resume-metric": "mbr.metrics.resume_metric:Resume",
}

# What runs with `backend="library"`.
LIBRARIES = {
    "comet": "mbr.metrics.library:CometByLibrary",
    "cometkiwi": "mbr.metrics.library:CometKiwiByLibrary",
    "xcomet": "mbr.metrics.library:XCometByLibrary",
    "bleurt": "mbr.metrics.library:BleurtByLibrary",
}
QE = "-qe"  # behind the name of a metric that takes rows with and without reference: without

__all__ = ["QE", "Metric", "Row", "get_metric", "metric_behind", "metric_class", "metric_names"]


def metric_names() -> list[str]:
    return list(CLASSES)


def metric_behind(name: str) -> str:
    """The metric of a judge or utility: `xcomet` of `xcomet-qe`, while `comet-qe` is a metric of its own."""
    return name if name in CLASSES else name.removesuffix(QE)


def metric_class(name: str) -> type[Metric]:
    """The class behind a name. Importing it loads no model and none of the heavy libraries."""
    if name not in CLASSES:
        raise UsageError(f"metric {name!r} is unknown; expected one of {', '.join(CLASSES)}")
    return _imported(CLASSES[name])


def get_metric(name: str, *, backend: str = "torch", **options: Any) -> Metric:
    """A loaded metric. The back-end `library` runs it by its own library, where there is one (`LIBRARIES`)."""
    kind = metric_class(name)
    if backend not in ("torch", "library"):
        raise UsageError(f"back-end {backend!r} is unknown to {name}; expected torch or library")
    if backend == "library" and name not in LIBRARIES:
        raise UsageError(f"{name} has no back-end library; those with one: {', '.join(LIBRARIES)}")
    kind.check_found(options)
    return (kind if backend == "torch" else _imported(LIBRARIES[name]))(**options)


def _imported(place: str) -> type[Metric]:
    module, attribute = place.split(":")
    metric: type[Metric] = getattr(import_module(module), attribute)
    return metric
