"""`--help` in two levels: the options used most with the quick start, and `--help-all` with every option.

Which options a command's `--help` shows is in `MOST_USED`; a command without an entry has few options, and both
levels show all of them.
"""

from __future__ import annotations

import argparse
import re
import shutil
import sys
import textwrap
from collections.abc import Iterator
from typing import Any, NoReturn

from candidates.command.colour import painted_help, wants_colour

_DATA = ("--data", "--test-set", "--lp", "--table", "--human")
MOST_USED: dict[str, tuple[str, ...]] = {
    "mbr-decode": (
        *("--candidates", "--sources", "--nbest", "--utility", "--model"),
        *("--strategy", "--add", "--output", "--format", "--explain"),
    ),
    "mbr-generate": (
        *("--sources", "--output", "--format", "--nbest", "--model"),
        *("--method", "--temperature", "--src-lang", "--tgt-lang", "--resume"),
    ),
    "mbr-compare": (
        *("--candidates", "--sources", "--references", "--nbest", "--utility"),
        *("--strategy", "--judge", "--baseline", "--output", "--preset"),
    ),
    "mbr-evaluate": (
        *("--systems", "--sources", "--references", "--judge", "--list-judges"),
        *("--baseline", "--output", "--format", "--segments", "--device"),
    ),
    "mbr-tune": (
        *("--candidates", "--sources", "--references", "--nbest", "--utility"),
        *("--add", "--judge", "--objective", "--output", "--report"),
    ),
    "mbr-serve": (
        *("--host", "--port", "--api-key-file", "--recipe", "--translator"),
        *("--nbest", "--device", "--threads", "--timeout", "--config"),
    ),
    "mbr-metaeval": (*_DATA, "--metrics", "--statistics", "--significance", "--output", "--format"),
    "mbr-metaeval choice": (*_DATA, "--metrics", "--utility", "--score", "--plot", "--output"),
    "mbr-metaeval parity": (*_DATA, "--humans", "--ratings", "--groups", "--output", "--format"),
    "mbr-metaeval correlation": (*_DATA, "--metrics", "--own", "--plot", "--output", "--format"),
    "mbr-metaeval noise": (*_DATA, "--statistics", "--repeats", "--plot", "--output", "--format"),
    "mbr-metaeval resume-metric": (*_DATA, "--score", "--model", "--weights", "--post-edits", "--plot"),
    "mbr-metaeval anchors": (*_DATA, "--score", "--anchors", "--systems", "--output", "--format"),
    "mbr-metaeval post-edits": (
        *("--data", "--sources", "--before", "--after", "--score"),
        *("--add", "--device", "--output", "--format", "--force"),
    ),
    "pear-score": ("--output", "--model", "--both", "--systems", "--anchor", "--means", "--device", "--dtype"),
    "pear-train": (
        *("--data", "--output", "--from", "--from-encoder", "--kind"),
        *("--dev-data", "--pretrain-data", "--lp", "--epochs", "--resume"),
    ),
    "pear-label": (
        *("--server", "--server-model", "--data", "--candidates", "--lp"),
        *("--output", "--calls", "--judgments", "--prompt", "--resume"),
    ),
}
QUICK_START = "quick start:"
_OPTION = re.compile(r" (?=--?[a-zA-Z]|\| )")
MANY = 14  # options; a command with more has two levels


class HelpAction(argparse.Action):
    """`-h` and `--help`: the short form where there is one; `--help-all`: everything."""

    def __init__(self, option_strings: list[str], dest: str, **details: Any) -> None:
        super().__init__(option_strings, dest=argparse.SUPPRESS, default=argparse.SUPPRESS, nargs=0, **details)

    def __call__(self, parser: argparse.ArgumentParser, *details: Any) -> NoReturn:
        spelled = details[-1]
        text = parser.format_help() if spelled == "--help-all" else short_help(parser)
        sys.stdout.write(painted_help(text) if wants_colour(sys.stdout) else text)
        parser.exit()


def add_help_options(parser: argparse.ArgumentParser) -> None:
    two = parser.prog in MOST_USED
    shown = "the options used most, then stop" if two else "all options, then stop"
    parser.add_argument("-h", "--help", action=HelpAction, help=shown)
    parser.add_argument("--help-all", action=HelpAction, help="all options, then stop" if two else argparse.SUPPRESS)


def whole_help(parser: argparse.ArgumentParser) -> str:
    """All options by their groups."""
    formatter = _begun(parser)
    for group in parser._action_groups:
        formatter.start_section(group.title)
        formatter.add_text(group.description)
        formatter.add_arguments(group._group_actions)
        formatter.end_section()
    formatter.add_text(_fitted(parser.epilog))
    return formatter.format_help()


def short_help(parser: argparse.ArgumentParser) -> str:
    """The positional arguments and the options used most; all of them for a command that has few."""
    names = MOST_USED.get(parser.prog)
    if names is None:
        return parser.format_help()
    by_name = {name: action for action in parser._actions for name in action.option_strings}
    positional = [action for action in parser._actions if not action.option_strings]
    count = sum(bool(action.option_strings) for action in parser._actions)
    formatter = _begun(parser)
    formatter.start_section("the options used most")
    formatter.add_arguments([*positional, *(by_name[name] for name in names), by_name["--help-all"]])
    formatter.end_section()
    formatter.add_text(_fitted(parser.epilog))
    return f"{formatter.format_help()}\n{parser.prog} --help-all lists all {count} options.\n"


def _begun(parser: argparse.ArgumentParser) -> argparse.HelpFormatter:
    """Usage in one line, with the options that are required and [options] for all others, and the description."""
    formatter = parser._get_formatter()
    required = [action for action in parser._actions if action.option_strings and action.required]
    others = argparse.Action([], "options", nargs="?", metavar="options")
    positional = [action for action in parser._actions if not action.option_strings]
    formatter.add_usage(None, [*required, others, *positional], [])
    formatter.add_text(_fitted(parser.description))
    return formatter


def _fitted(text: str | None) -> str:
    """A text in the width of the terminal. Lists, whose lines are indented, stay as they are."""
    width = shutil.get_terminal_size().columns - 2
    parts = []
    for part in (text or "").split("\n\n"):
        if part.startswith(QUICK_START):
            parts.append("\n".join(line for command in part.split("\n") for line in _command_lines(command, width)))
        else:
            parts.append(part if "\n  " in part else textwrap.fill(part, width, break_on_hyphens=False))
    return "\n\n".join(parts)


def _command_lines(line: str, width: int) -> Iterator[str]:
    """A command that can be copied: where it is too long, its remark is above it and options continue below."""
    if len(line) <= width:
        yield line
        return
    command, _, remark = line.partition(" # ")
    if remark:
        yield f"  # {remark}"
    shown, *options = _OPTION.split(command.rstrip())
    for option in options:
        if len(f"{shown} {option} \\") > width:
            yield f"{shown} \\"
            shown = f"    {option}"
        else:
            shown = f"{shown} {option}"
    yield shown
