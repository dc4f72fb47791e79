"""Colour on terminals, and nowhere else: bold headings, one colour for what a reader types, red and green for signs.

`NO_COLOR` (https://no-color.org) turns it off, `FORCE_COLOR` on, also in a pipe; both count where they are not empty.
"""

from __future__ import annotations

import os
import re
import sys
from typing import Any

BOLD, DIM, RED, GREEN, YELLOW, CYAN = "1", "2", "31", "32", "33", "36"

_RULE = re.compile(r"-{3,}")
_HEADING = re.compile(r"(?m)^([^\s:][^:\n]*:)$")
_OPTION = re.compile(r"(?m)^(  )(-[\w-]+(?: [A-Z][^\s,]*)?(?:, --[\w-]+)*)")
_REMARK = re.compile(r"(?m)(?<=  )# .*$")
_FLAG = re.compile(r"(?<![\w-])--?[a-zA-Z][\w-]*")
ESCAPE = re.compile(r"\x1b\[[\d;]*m")


def wants_colour(stream: Any) -> bool:
    """Whether what goes to this stream is seen in a terminal that shows colours."""
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR", "") not in ("", "0"):
        return True
    return os.environ.get("TERM") != "dumb" and bool(getattr(stream, "isatty", lambda: False)())


def painted(text: str, *codes: str, colour: bool = True) -> str:
    """The text in a colour or style; as it is without `colour`."""
    return f"\x1b[{';'.join(codes)}m{text}\x1b[0m" if colour and text else text


def painted_help(text: str) -> str:
    """The text of --help: headings in bold, options in cyan, remarks dim."""
    text = _REMARK.sub(lambda remark: painted(remark[0], DIM), text)
    text = _HEADING.sub(lambda heading: painted(heading[1], BOLD), text)
    text = re.sub(r"^usage:", painted("usage:", BOLD), text)
    return _OPTION.sub(lambda line: line[1] + _FLAG.sub(lambda flag: painted(flag[0], CYAN), line[2]), text)


def painted_table(text: str) -> str:
    """Tables of text: lines above a rule of hyphens in bold, the rule dim. Other text stays as it is."""
    lines = text.split("\n")
    for place, line in enumerate(lines):
        if _RULE.fullmatch(line):
            lines[place] = painted(line, DIM)
            if place and lines[place - 1]:
                lines[place - 1] = painted(lines[place - 1], BOLD)
    return "\n".join(lines)


def print_table(text: str) -> None:
    """Write a table to standard output, in colour on a terminal."""
    sys.stdout.write(painted_table(text) if wants_colour(sys.stdout) else text)
    sys.stdout.flush()
