"""Metrics by name: they judge translations, and most utilities are made of them.

>>> from mbr.metrics import metric_names
>>> metric_names()
['comet', 'cometkiwi', 'xcomet', 'bleurt', 'metricx', 'embedding']
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from candidates.common.errors import UsageError
from mbr.metrics.base import Metric, Row

CLASSES = {
    "comet": "mbr.metrics.comet:Comet",
    "cometkiwi": "mbr.metrics.cometkiwi:CometKiwi",
    "xcomet": "mbr.metrics.xcomet:XComet",
    "bleurt": "mbr.metrics.bleurt:Bleurt",
    "metricx": "mbr.metrics.metricx:MetricX",
    "embedding": "mbr.metrics.embedding:Embedding",
}

__all__ = ["Metric", "Row", "get_metric", "metric_class", "metric_names"]


def metric_names() -> list[str]:
    return list(CLASSES)


def metric_class(name: str) -> type[Metric]:
    """The class behind a name. Importing it loads no model and none of the heavy libraries."""
    if name not in CLASSES:
        raise UsageError(f"metric {name!r} is unknown; expected one of {', '.join(CLASSES)}")
    module, attribute = CLASSES[name].split(":")
    metric: type[Metric] = getattr(import_module(module), attribute)
    return metric


def get_metric(name: str, **options: Any) -> Metric:
    """A loaded metric."""
    kind = metric_class(name)
    kind.check_found(options)
    return kind(**options)
