"""Utilities by name: ours, and those of installed plug-ins (entry points of the group `mbr_decode.utilities`).

Several names with weights are an ensemble: `get_utility("chrf:1+pear:2")`.

>>> utility = get_utility("chrf")
>>> utility.matrix("A dog.", ["Ein Hund."], ["Ein Hund."])
array([[100.]], dtype=float32)
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from contextlib import ExitStack
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Any, get_args, get_type_hints

from candidates.common.errors import EnvironmentProblem, UsageError
from mbr.utilities.base import MatrixUtility, PairUtility, QualityUtility, Utility
from mbr.utilities.ensemble import Ensemble, parse_ensemble

GROUP = "mbr_decode.utilities"
BUILT_IN = {
    "pear": "mbr.utilities.pear:Pear",
    "comet": "mbr.utilities.comet:Comet",
    "xcomet": "mbr.utilities.learned:XComet",
    "bleurt": "mbr.utilities.learned:Bleurt",
    "metricx": "mbr.utilities.learned:MetricX",
    "embedding": "mbr.utilities.embedding:Embedding",
    "chrf": "mbr.utilities.chrf:ChrF",
    "chrf++": "mbr.utilities.chrf:ChrFpp",
    "bleu": "mbr.utilities.bleu:Bleu",
    "ter": "mbr.utilities.ter:Ter",
    "cometkiwi": "mbr.utilities.learned:CometKiwi",
    "metricx-qe": "mbr.utilities.learned:MetricXQE",
    "xcomet-qe": "mbr.utilities.learned:XCometQE",
    "single": "mbr.utilities.single:Single",
}

__all__ = [
    "MatrixUtility",
    "PairUtility",
    "QualityUtility",
    "Utility",
    "get_utility",
    "utility_class",
    "utility_families",
    "utility_names",
]


def utility_names() -> list[str]:
    """All names that `get_utility` knows, ours first."""
    return list(dict.fromkeys([*BUILT_IN, *sorted(_plug_ins())]))


def is_ensemble(name: str) -> bool:
    """Whether a name stands for several utilities with weights; that of a plug-in may look like one."""
    return "+" in name.replace("++", "") and not _is_known(name) and len(parse_ensemble(name)) > 1


def _is_known(name: str) -> bool:
    return name in BUILT_IN or name in _plug_ins()  # looking for plug-ins takes a while


def utility_class(name: str) -> type[Utility]:
    """The class behind a name. Importing it loads no model and none of the heavy libraries."""
    if is_ensemble(name):
        for member in parse_ensemble(name):
            utility_class(member)
        return Ensemble
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
    if not (inspect.isclass(found) and issubclass(found, (PairUtility, MatrixUtility, QualityUtility))):
        raise EnvironmentProblem(
            f"the utility {name!r} is no PairUtility, MatrixUtility or QualityUtility; see docs/utilities.md"
        )
    return found


def get_utility(name: str, **options: Any) -> Utility:
    """A ready utility. An option it does not take is an error, not a shrug.

    Members of an ensemble each get the options they take, and their own model of `models`, a table by name.
    """
    found = utility_class(name)
    known = utility_options(name)
    unknown = [option for option in options if option not in known]
    if unknown:
        taken = ", ".join(known) or "none"
        raise UsageError(f"utility {name!r} has no option {unknown[0]!r} (it takes {taken})")
    return _ensemble(name, **options) if found is Ensemble else found(**options)


def _ensemble(name: str, models: Mapping[str, Any] | None = None, **options: Any) -> Ensemble:
    weights = parse_ensemble(name)
    for member in models or {}:
        if member not in weights or "model" not in utility_options(member):
            raise UsageError(f"a model was given for {member!r}, which is no member of {name} that takes one")
    with ExitStack() as opened:
        members = {}
        for member, weight in weights.items():
            own = {key: value for key, value in options.items() if key in utility_options(member)}
            if models and member in models:
                own["model"] = models[member]
            members[opened.enter_context(get_utility(member, **own))] = weight
        ensemble = Ensemble(members)
        opened.pop_all()  # they are the ensemble's to close
        return ensemble


def utility_options(name: str) -> list[str]:
    """The options that a utility takes. A table of them (`**options: Unpack[ModelOptions]`) is spelled out."""
    if is_ensemble(name):
        # What speaks of one checkpoint cannot be shared by several.
        together = dict.fromkeys(option for member in parse_ensemble(name) for option in utility_options(member))
        return ["models", *(option for option in together if option not in ("model", "revision", "encoder"))]
    found = utility_class(name)
    names: list[str] = []
    for option in inspect.signature(found).parameters.values():
        if option.kind is not inspect.Parameter.VAR_KEYWORD:
            names.append(option.name)
            continue
        try:
            table = get_type_hints(found.__init__).get(option.name)
        except NameError:  # a plug-in's annotation that only type checkers can read
            continue
        names += [key for part in get_args(table) for key in getattr(part, "__annotations__", {})]
    return names


def utility_families(name: str) -> set[str]:
    """The families behind a utility's name as signatures have it, such as `chrf+comet` or `chrf+resume`."""
    members = [member for member in parse_ensemble(name) if _is_known(member)]
    return {utility_class(member).family for member in members} | ({"pear"} if name.endswith("+resume") else set())


def _plug_ins() -> dict[str, EntryPoint]:
    return {point.name: point for point in entry_points(group=GROUP)}
