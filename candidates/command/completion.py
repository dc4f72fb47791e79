"""Completion of all commands in a shell, generated from their parsers by shtab.

    eval "$(mbr-doctor --completion bash)"

Options complete to their choices, to files where they take a file, and to folders where they take one.
"""

from __future__ import annotations

import argparse
from importlib import import_module
from typing import Any

from candidates.command.console import Parser
from candidates.command.launch import COMMANDS
from candidates.common.errors import EnvironmentProblem

FIRST_TASK = "agreement"  # that of mbr-metaeval without a task


def completion(shell: str) -> str:
    """The script that makes a shell complete every command.

    Raises:
        EnvironmentProblem: shtab is not installed.
    """
    try:
        import shtab
    except ImportError as exc:
        raise EnvironmentProblem("shtab is not installed; it writes completions: pip install shtab") from exc
    return "\n".join(shtab.complete(_with_files(parser_of(name), shtab), shell) for name in COMMANDS)


def parser_of(command: str) -> argparse.ArgumentParser:
    """The parser of a command; one that has tasks with parsers of their own gets them as subcommands."""
    module = import_module(COMMANDS[command])
    if not hasattr(module, "TASKS"):
        parser: argparse.ArgumentParser = module.parser()
        return parser
    package = module.__name__.rpartition(".")[0]
    parsers = {task: import_module(f"{package}.{task.replace('-', '_')}").parser() for task in module.TASKS}
    whole: Parser = parsers[FIRST_TASK]
    tasks = whole.add_subparsers(metavar="TASK", parser_class=argparse.ArgumentParser)
    for task, words in module.TASKS.items():
        if task != FIRST_TASK:
            tasks.add_parser(task, parents=[parsers[task]], add_help=False, help=words, conflict_handler="resolve")
    return whole


def _with_files(parser: argparse.ArgumentParser, shtab: Any) -> argparse.ArgumentParser:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for below in action.choices.values():
                _with_files(below, shtab)
        words = action.metavar if isinstance(action.metavar, str) else ""
        if action.choices is None and words.startswith(("FILE", "[NAME=]FILE", "RUN.yaml")):
            action.complete = shtab.FILE  # type: ignore[attr-defined]
        elif action.choices is None and words.startswith(("FOLDER", "MODEL")):
            action.complete = shtab.DIRECTORY  # type: ignore[attr-defined]
    return parser
