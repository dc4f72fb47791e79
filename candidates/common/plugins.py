"""Named kinds of a thing, imported when they are used: ours from a table of texts, others from entry points.

A table maps names to `module:attribute`, so that listing names or opening one kind imports nothing of the others.
Installed distributions add names through entry points of the table's group; ours come first and cannot be replaced.
Searching the installed distributions takes some milliseconds, so it happens only for a name that is not built in.

    >>> table = LazyTable("shape", {"counter": "collections:Counter"}, group="mbr_decode.shapes")
    >>> table.names(), "counter" in table, table.load("counter").__name__
    (['counter'], True, 'Counter')
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Any, get_args, get_type_hints

from candidates.common.errors import EnvironmentProblem, UsageError


@dataclass(frozen=True)
class LazyTable:
    """Names and what they stand for. It may be given to argparse as `choices`.

    Args:
        kind: the word for an entry in messages, such as `utility`.
        built_in: our entries, name to `module:attribute`.
        group: the entry points' group of plug-ins; None where plug-ins are not allowed.
    """

    kind: str
    built_in: dict[str, str]
    group: str | None = None

    def names(self) -> list[str]:
        """All names, ours first, then those of plug-ins in alphabetical order."""
        return list(dict.fromkeys([*self.built_in, *sorted(self._plug_ins())]))

    def __iter__(self) -> Iterator[str]:
        return iter(self.names())

    def __contains__(self, name: object) -> bool:
        return name in self.built_in or name in self._plug_ins()

    def load(self, name: str, *bases: type) -> Any:
        """What a name stands for; with `bases`, a subclass of at least one of them.

        Raises:
            UsageError: the name is unknown.
            EnvironmentProblem: the plug-in of this name cannot be imported, or is no such subclass.
        """
        if name in self.built_in:
            module, _, attribute = self.built_in[name].partition(":")
            entry = getattr(import_module(module), attribute)
        elif plug_in := self._plug_ins().get(name):
            entry = self._load_plug_in(plug_in)
        else:
            raise UsageError(f"{self.kind} {name!r} is unknown; expected one of {', '.join(self.names())}")
        if bases and not (inspect.isclass(entry) and issubclass(entry, bases)):
            expected = " or ".join(", ".join(base.__name__ for base in bases).rsplit(", ", 1))
            raise EnvironmentProblem(
                f"the {self.kind} {name!r} is {entry!r:.80}, no subclass of {expected}; correct the plug-in as "
                "docs/plug-ins.md describes, or uninstall it"
            )
        return entry

    def _load_plug_in(self, plug_in: EntryPoint) -> Any:
        try:
            return plug_in.load()
        except Exception as exc:  # an import runs any code
            raise EnvironmentProblem(
                f"the {self.kind} plug-in {plug_in.name!r} ({plug_in.value}) cannot be loaded: {exc}; repair or "
                "uninstall the distribution it comes from"
            ) from exc

    def _plug_ins(self) -> dict[str, EntryPoint]:
        if self.group is None:
            return {}
        return {point.name: point for point in entry_points(group=self.group)}


def check_options(part: str, entry: Callable[..., Any], options: Iterable[str], elsewhere: Iterable[str] = ()) -> None:
    """Refuse options that a class or function does not take, and those missing that it needs.

    Args:
        part: what the options are for, as messages name it: `utility 'chrf'`.
        entry: the class or function.
        options: names of the options given.
        elsewhere: names of options that may still be given in another way.
    """
    names = list(options)
    taken = option_names(entry)
    for name in names:
        if name not in taken:
            raise UsageError(f"{part} has no option {name!r} (it takes {', '.join(taken) or 'none'})")
    for name, parameter in inspect.signature(entry).parameters.items():
        variable = parameter.kind in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
        if parameter.default is inspect.Parameter.empty and not variable and name not in {*names, *elsewhere}:
            raise UsageError(f"{part} needs the option {name!r}, which has no default; give it ({name}=VALUE)")


def option_names(entry: Callable[..., Any]) -> list[str]:
    """Names of the arguments that a class or a function takes.

    A table of them (`**options: Unpack[ModelOptions]`) is spelled out.
    """
    names: list[str] = []
    for parameter in inspect.signature(entry).parameters.values():
        if parameter.kind is not inspect.Parameter.VAR_KEYWORD:
            names.append(parameter.name)
            continue
        try:
            table = get_type_hints(entry.__init__ if inspect.isclass(entry) else entry).get(parameter.name)
        except NameError:  # a plug-in's annotation that only type checkers can read
            continue
        names += [key for part in get_args(table) for key in getattr(part, "__annotations__", {})]
    return names
