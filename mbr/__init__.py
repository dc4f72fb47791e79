"""Minimum Bayes risk decoding: choose the best of many translations by comparing them with each other.

    >>> import mbr
    >>> mbr.rerank("A dog.", ["Ein Hund.", "Der Hund.", "Ein Hund"], utility="chrf").text
    'Ein Hund.'

| function | turns | into |
| --- | --- | --- |
| `decode(lists, utility)` | candidate lists, streamed | `Decision` values, in order |
| `rerank(source, candidates, utility)` | one list | one `Decision` |
| `utility_matrix(source, candidates, utility)` | one list | its `UtilityMatrix` |
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from candidates.command.owner import check_owners
from candidates.common.version import __version__

if TYPE_CHECKING:
    from mbr.api import decode, rerank, utility_matrix
    from mbr.decide import Decision
    from mbr.guards import Guard
    from mbr.matrix import UtilityMatrix, read_matrices
    from mbr.opening import Models, open_decoder
    from mbr.pipeline import Decoder
    from mbr.recipe import GuardSpec, Recipe, TermSpec, read_recipe
    from mbr.signature import Signature
    from mbr.terms import Term
    from mbr.utilities import MatrixUtility, PairUtility, QualityUtility, get_utility

_HOMES = {
    "Decision": "mbr.decide",
    "Decoder": "mbr.pipeline",
    "decode": "mbr.api",
    "rerank": "mbr.api",
    "utility_matrix": "mbr.api",
    "UtilityMatrix": "mbr.matrix",
    "read_matrices": "mbr.matrix",
    "Signature": "mbr.signature",
    "MatrixUtility": "mbr.utilities",
    "PairUtility": "mbr.utilities",
    "QualityUtility": "mbr.utilities",
    "Models": "mbr.opening",
    "open_decoder": "mbr.opening",
    "Guard": "mbr.guards",
    "GuardSpec": "mbr.recipe",
    "Recipe": "mbr.recipe",
    "TermSpec": "mbr.recipe",
    "read_recipe": "mbr.recipe",
    "Term": "mbr.terms",
    "get_utility": "mbr.utilities",
}

__all__ = [
    "Decision",
    "Decoder",
    "Guard",
    "GuardSpec",
    "MatrixUtility",
    "Models",
    "PairUtility",
    "QualityUtility",
    "Recipe",
    "Signature",
    "Term",
    "TermSpec",
    "UtilityMatrix",
    "__version__",
    "decode",
    "get_utility",
    "open_decoder",
    "read_matrices",
    "read_recipe",
    "rerank",
    "utility_matrix",
]


check_owners()


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'mbr' has no attribute {name!r}")
