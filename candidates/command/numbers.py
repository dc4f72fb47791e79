"""Numbers of a command: checks of numeric options, before it reads or loads anything."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from candidates.common.errors import UsageError


def check_numbers(
    options: argparse.Namespace, *, positive: Sequence[str] = (), not_negative: Sequence[str] = ()
) -> None:
    """Refuse numbers out of range. An option that was left out (None), or that the command does not have, passes.

    Raises:
        UsageError: an option of `positive` is below 1, or one of `not_negative` below 0.
    """
    for name in (*not_negative, *positive):
        value, option = getattr(options, name, None), f"--{name.replace('_', '-')}"
        if value is None:
            continue
        if name in positive and value < 1:
            raise UsageError(f"{option} {value} is not a positive number")
        if value < 0:
            raise UsageError(f"{option} {value} is negative")
