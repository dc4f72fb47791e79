"""PEAR: by how much is one translation better than another? Call-compatible with the package pear-mt 1.1.1.

    >>> import pear
    >>> metric = pear.load_metric("pear")                                          # doctest: +SKIP
    >>> pear.score_pairwise(metric, ["A dog."], ["Ein Hund."], ["Eine Katze."])    # doctest: +SKIP
    [2.31]

torch and transformers are imported when a model is first touched, not before.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from candidates.command.owner import check_owners
from candidates.common.version import __version__

if TYPE_CHECKING:
    from pear.inference import (
        build_pairwise_samples,
        build_reference_anchored_samples,
        load_metric,
        score_pairwise,
        score_reference_anchored,
    )
    from pear.mbr import pear_utility_matrix, select_mbr_hypothesis
    from pear.models import MetricModel, download_model, load_from_checkpoint
    from pear.resume_metric import ResumeMetric, with_resume_metric
    from pear.single import Single

check_owners()

# Parts that are there after `import pear`, as in pear-mt; here they are imported when they are first used.
_MODULES = ("encoders", "inference", "mbr", "models")
_HOMES = {
    "MetricModel": "pear.models",
    "ResumeMetric": "pear.resume_metric",
    "Single": "pear.single",
    "download_model": "pear.models",
    "load_from_checkpoint": "pear.models",
    "pear_utility_matrix": "pear.mbr",
    "select_mbr_hypothesis": "pear.mbr",
    "with_resume_metric": "pear.resume_metric",
}

__all__ = [
    "MetricModel",
    "ResumeMetric",
    "Single",
    "__version__",
    "build_pairwise_samples",
    "build_reference_anchored_samples",
    "download_model",
    "load_from_checkpoint",
    "load_metric",
    "pear_utility_matrix",
    "score_pairwise",
    "score_reference_anchored",
    "select_mbr_hypothesis",
    "with_resume_metric",
]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"pear.{name}")
    if name in __all__:
        return getattr(import_module(_HOMES.get(name, "pear.inference")), name)
    raise AttributeError(f"module 'pear' has no attribute {name!r}")
