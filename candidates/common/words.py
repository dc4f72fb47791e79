"""Words that agree with numbers, for messages.

>>> counted(1, "segment"), counted(2, "segment"), counted(1200, "pass", "passes")
('1 segment', '2 segments', '1,200 passes')
>>> agreeing(["--temperature"], "goes", "go")
'--temperature goes'
"""

from __future__ import annotations

from collections.abc import Collection


def counted(number: int, thing: str, things: str = "") -> str:
    """A number and what it counts; `things` is the plural where it is not made with an s."""
    return f"{number:,} {thing if number == 1 else things or thing + 's'}"


def agreeing(names: Collection[str], singular: str, plural: str) -> str:
    """The names and the verb that goes with as many of them."""
    return f"{', '.join(names)} {singular if len(names) == 1 else plural}"
