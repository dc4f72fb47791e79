"""Notes of readers: what they found in a file and how they read it, in a sentence that asks for no action.

They go to the logger `mbr_decode`, at level INFO: commands show them on stderr (`candidates.command.console`), and
Python programs see them where they ask for them, `logging.basicConfig(level="INFO")`.
"""

from __future__ import annotations

import logging

LOGGER = "mbr_decode"


def note(message: str) -> None:
    """Send a note. A console shows equal ones once, so a file may be read twice."""
    logging.getLogger(LOGGER).info("%s", message)
