"""Guards by name: rules that a candidate must keep, checked before anything is scored.

Ours, and those of installed plug-ins (entry points of the group `mbr_decode.guards`). The name `production` stands for
guards that wrongly accuse under 2 % of the best human-judged translations (benchmarks/guards.py).

>>> guard_names()
['placeholders', 'tags', 'numbers', 'urls', 'language', 'length', 'repetition', 'not-copied', 'glossary']
>>> list(get_guard("placeholders").faults(ListTexts("Hello {name}", ["Hallo {name}", "Hallo"])))
[0.0, 1.0]
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

from candidates.common.plugins import LazyTable, check_options, option_names
from mbr.guards.base import Guard, ListTexts
from mbr.guards.keeping import Guards, Verdict

__all__ = [
    "GUARDS",
    "PRODUCTION",
    "Guard",
    "Guards",
    "ListTexts",
    "Verdict",
    "check_guard_options",
    "get_guard",
    "guard_names",
    "guard_options",
]

GUARDS = LazyTable(
    "guard",
    {
        "placeholders": "mbr.guards.placeholders:Placeholders",
        "tags": "mbr.guards.tags:Tags",
        "numbers": "mbr.guards.numbers:Numbers",
        "urls": "mbr.guards.urls:Urls",
        "language": "mbr.guards.language:Language",
        "length": "mbr.guards.length:Length",
        "repetition": "mbr.guards.repetition:Repetition",
        "not-copied": "mbr.guards.copied:NotCopied",
        "glossary": "mbr.guards.glossary:Glossary",
    },
    group="mbr_decode.guards",
)
PRODUCTION = ("placeholders", "tags", "numbers", "urls", "language", "length", "repetition", "not-copied")


def guard_names() -> list[str]:
    """All names that `get_guard` knows."""
    return GUARDS.names()


def get_guard(name: str, **options: Any) -> Guard:
    """A ready guard. An option that it does not take, or lacks, raises UsageError."""
    check_guard_options(name, options)
    return _class(name)(**options)


def guard_options(name: str) -> list[str]:
    """The options that a guard takes."""
    return option_names(_class(name))


def check_guard_options(name: str, options: Iterable[str]) -> None:
    """Raise UsageError for a name that is unknown, options that a guard does not take, and missing ones."""
    check_options(f"guard {name!r}", _class(name), options)


def _class(name: str) -> type[Guard]:
    return cast(type[Guard], GUARDS.load(name, Guard))
