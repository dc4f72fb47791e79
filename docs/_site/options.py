"""Every option of every command, from the parsers, as tables."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from typing import Any

from candidates.command.completion import parser_of
from candidates.command.launch import COMMANDS

PAGES = {
    "mbr-generate": "generate.md",
    "mbr-serve": "serve.md",
    "mbr-merge": "production.md#shards-several-machines-without-a-cluster",
    "pear": "pear.md#scripts-for-pear-mt",
    "pear-score": "pear.md#pear-score",
    "pear-train": "training.md",
    "pear-label": "llm.md#pear-label",
    "pear-convert": "pear.md#checkpoints",
}
_ALWAYS = {"-h", "--help", "--help-all", "--version"}
_MARKED = re.compile(r"([\\|*_<>\[\]])")
_DEFAULT = re.compile(r"[;,]? ?\(default: ([^()]*(?:\([^()]*\)[^()]*)*)\)|(?:^|; )default: ([^;]*)(?:; |$)")


def option_tables() -> str:
    """A heading per command, a table per group of its options, in Markdown."""
    lines: list[str] = []
    for command in COMMANDS:
        parser = parser_of(command)
        lines += [
            "",
            f"## {command}",
            "",
            f"{_sentence(parser.description)} More: [{command}](../{_page(command)}).",
            "",
        ]
        lines += _tables(parser)
        for task, below in _tasks(parser):
            lines += ["", f"## {command} {task}", "", _sentence(below.description), "", *_tables(below)]
    return "\n".join(lines) + "\n"


def _page(command: str) -> str:
    return PAGES.get(command, f"{command}.md")


def _tasks(parser: argparse.ArgumentParser) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            words = {choice.dest: choice.help for choice in action._choices_actions}
            for task, below in action.choices.items():
                below.description = below.description or words.get(task, "")
                yield task, below


def _tables(parser: argparse.ArgumentParser) -> list[str]:
    lines = []
    for group in parser._action_groups:
        actions = [action for action in group._group_actions if _shown(action)]
        if not actions:
            continue
        title = "general" if group.title == "options" else str(group.title)
        lines += ["", f"**{_escaped(title)}**", "", "| option | default | meaning |", "| --- | --- | --- |"]
        lines += [_row(parser, action) for action in actions]
    return lines


def _shown(action: argparse.Action) -> bool:
    hidden = action.help == argparse.SUPPRESS or isinstance(action, argparse._SubParsersAction)
    return not hidden and not _ALWAYS & set(action.option_strings)


def _row(parser: argparse.ArgumentParser, action: argparse.Action) -> str:
    words = argparse.HelpFormatter._expand_help(parser._get_formatter(), action) if action.help else ""
    words, default = split_default(" ".join(words.split()))
    if not default and action.default not in (None, False, [], "", argparse.SUPPRESS):
        default = str(action.default)
    return f"| {_spelled(action)} | {_escaped(default)} | {_escaped(words)} |"


def split_default(words: str) -> tuple[str, str]:
    """A help text without its default, and the default; one with several, for several cases, keeps them.

    >>> split_default("output file (default: standard output); written whole")
    ('output file; written whole', 'standard output')
    >>> split_default("to generate (default: 100), else of each list (default: all)")[1]
    'several'
    """
    matches = list(_DEFAULT.finditer(words))
    if len(matches) > 1:
        return words, "several"
    if not matches:
        return words, ""
    (match,) = matches
    return words[: match.start()] + words[match.end() :], match[1] or match[2]


def _spelled(action: argparse.Action) -> str:
    """The option's names and its value, the way --help writes them."""
    value: Any = action.metavar
    if value is None and action.nargs != 0:
        value = "|".join(map(str, action.choices)) if action.choices is not None else action.dest.upper()
    value = " ".join(value) if isinstance(value, tuple) else value
    value = {"?": f"[{value}]", "*": f"[{value} ...]", "+": f"{value} ..."}.get(str(action.nargs), value)
    names = ", ".join(action.option_strings)
    words = " ".join(part for part in (names, value if action.nargs != 0 else "") if part)
    return f"`{words}`"


def _sentence(text: str | None) -> str:
    words = _escaped(" ".join((text or "").split()))
    return words if not words or words[-1] in ".:?" else f"{words}."


def _escaped(text: str) -> str:
    return _MARKED.sub(r"\\\1", text)
