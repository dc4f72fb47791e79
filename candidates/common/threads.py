"""How many CPU threads may be asked for: more than any machine runs well would end a process without a word."""

from __future__ import annotations

import argparse
import os

from candidates.common.errors import UsageError

AT_LEAST = 64  # are allowed on any machine, so that a recipe or a script works on small ones too
PER_CORE = 4


def most_threads() -> int:
    """The largest number that is accepted on this machine."""
    return max(AT_LEAST, PER_CORE * (os.cpu_count() or 1))


def check_threads(threads: int) -> int:
    """The same number.

    Raises:
        UsageError: it is beyond `most_threads`.
    """
    if threads > most_threads():
        cores = os.cpu_count() or 1
        raise UsageError(
            f"threads {threads}: this machine has {cores} cores; expected {most_threads()} at most, or nothing for all"
        )
    return threads


def thread_option(word: str) -> int:
    """The type of --threads for argparse."""
    try:
        return check_threads(int(word))
    except UsageError as exc:
        raise argparse.ArgumentTypeError(str(exc)) from exc
    except ValueError as exc:
        raise argparse.ArgumentTypeError(f"{word!r} is no whole number") from exc
