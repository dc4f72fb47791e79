"""Utilities by name: ours, and those of installed plug-ins (entry points of the group `mbr_decode.utilities`).

>>> utility = get_utility("chrf")
>>> utility.matrix("A dog.", ["Ein Hund."], ["Ein Hund."])
array([[100.]], dtype=float32)
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

from candidates.common.plugins import LazyTable, check_options, option_names
from mbr.utilities.base import MatrixUtility, PairUtility, QualityUtility, Utility

__all__ = [
    "UTILITIES",
    "MatrixUtility",
    "PairUtility",
    "QualityUtility",
    "Utility",
    "check_utility_options",
    "get_utility",
    "utility_class",
    "utility_names",
    "utility_options",
]

UTILITIES = LazyTable(
    "utility",
    {
        "pear": "mbr.utilities.pear:Pear",
        "comet": "mbr.utilities.comet:Comet",
        "unite": "mbr.utilities.learned:Unite",
        "xcomet": "mbr.utilities.learned:XComet",
        "bleurt": "mbr.utilities.learned:Bleurt",
        "metricx": "mbr.utilities.learned:MetricX",
        "metricx-23": "mbr.utilities.learned:MetricX23",
        "bertscore": "mbr.utilities.bertscore:BertScore",
        "llm": "mbr.utilities.llm:LanguageModel",
        "embedding": "mbr.utilities.embedding:Embedding",
        "chrf": "mbr.utilities.chrf:ChrF",
        "chrf++": "mbr.utilities.chrf:ChrFpp",
        "bleu": "mbr.utilities.bleu:Bleu",
        "ter": "mbr.utilities.ter:Ter",
        "comet-qe": "mbr.utilities.learned:CometQE",
        "cometkiwi": "mbr.utilities.learned:CometKiwi",
        "metricx-qe": "mbr.utilities.learned:MetricXQE",
        "metricx-23-qe": "mbr.utilities.learned:MetricX23QE",
        "unite-qe": "mbr.utilities.learned:UniteQE",
        "xcomet-qe": "mbr.utilities.learned:XCometQE",
        "single": "mbr.utilities.single:Single",
        "resume-metric": "mbr.utilities.resume_metric:ResumeUtility",
        "none": "mbr.utilities.none:NoUtility",
    },
    group="mbr_decode.utilities",
)


def utility_names() -> list[str]:
    """All names that `get_utility` knows, ours first."""
    return UTILITIES.names()


def utility_class(name: str) -> type[Utility]:
    """The class behind a name. Importing it loads no model and none of the heavy libraries."""
    return cast(type[Utility], UTILITIES.load(name, PairUtility, MatrixUtility, QualityUtility))


def utility_options(name: str) -> list[str]:
    """The options that a utility takes."""
    return option_names(utility_class(name))


def get_utility(name: str, **options: Any) -> Utility:
    """A ready utility. An option that it does not take, or lacks, raises UsageError."""
    check_utility_options(name, options)
    return utility_class(name)(**options)


def check_utility_options(name: str, options: Iterable[str], elsewhere: Iterable[str] = ()) -> None:
    """Raise UsageError for options that a utility does not take, and for missing ones that have no default.

    `elsewhere` names options that may still be given in another way.
    """
    check_options(f"utility {name!r}", utility_class(name), options, elsewhere)
