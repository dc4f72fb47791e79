"""Utilities by name: ours, and those of installed plug-ins (entry points of the group `mbr_decode.utilities`).

>>> utility = get_utility("chrf")
>>> utility.matrix("A dog.", ["Ein Hund."], ["Ein Hund."])
array([[100.]], dtype=float32)
"""

from __future__ import annotations

import inspect
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from candidates.errors import EnvironmentProblem, UsageError
from mbr.utilities.base import MatrixUtility, PairUtility, Utility

GROUP = "mbr_decode.utilities"
BUILT_IN = {
    "pear": "mbr.utilities.pear:Pear",
    "chrf": "mbr.utilities.chrf:ChrF",
    "bleu": "mbr.utilities.bleu:Bleu",
    "single": "mbr.utilities.single:Single",
}

__all__ = ["MatrixUtility", "PairUtility", "Utility", "get_utility", "utility_class", "utility_names"]


def utility_names() -> list[str]:
    """All names that `get_utility` knows, ours first."""
    return list(dict.fromkeys([*BUILT_IN, *sorted(_plug_ins())]))


def utility_class(name: str) -> type[Utility]:
    """The class behind a name. Importing it loads no model and none of the heavy libraries."""
    if name in BUILT_IN:
        module, attribute = BUILT_IN[name].split(":")
        found = getattr(import_module(module), attribute)
    elif plug_in := _plug_ins().get(name):
        try:
            found = plug_in.load()
        except Exception as exc:
            raise EnvironmentProblem(f"the utility plug-in {name!r} ({plug_in.value}) cannot be loaded: {exc}") from exc
    else:
        raise UsageError(f"utility {name!r} is unknown; expected one of {', '.join(utility_names())}")
    if not (inspect.isclass(found) and issubclass(found, (PairUtility, MatrixUtility))):
        raise EnvironmentProblem(f"the utility {name!r} is no PairUtility or MatrixUtility; see docs/utilities.md")
    return found


def get_utility(name: str, **options: Any) -> Utility:
    """A ready utility. An option it does not take is an error, not a shrug."""
    found = utility_class(name)
    known = utility_options(name)
    unknown = [option for option in options if option not in known]
    if unknown:
        taken = ", ".join(known) or "none"
        raise UsageError(f"utility {name!r} has no option {unknown[0]!r} (it takes {taken})")
    return found(**options)


def utility_options(name: str) -> list[str]:
    """The options that a utility takes."""
    return list(inspect.signature(utility_class(name)).parameters)


def _plug_ins() -> dict[str, EntryPoint]:
    return {point.name: point for point in entry_points(group=GROUP)}
