"""Run configurations: a YAML file of options, weaker than flags; and the resolved one, saved beside the output."""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from candidates.command.console import hyphenated
from candidates.command.journal import was_interrupted
from candidates.common.errors import InputError, UsageError
from candidates.common.text import atomic_output, remove_debris, yaml_problem

# Options that say how to run, not what to compute: left out of the saved configuration.
TRANSIENT = (
    "config",
    "resume",
    "force",
    "dry_run",
    "explain",
    "quiet",
    "verbose",
    "log_format",
    "list_utilities",
    "print_recipe",
    "help",
    "convert",
)
TWO_WAY = ("split_sentences", "line_buffered")  # false is a choice, and differs from none
RESOLVED = "# resolved in this run, stronger than the options above:"


def with_config(parser: argparse.ArgumentParser, argv: Sequence[str]) -> list[str]:
    """The words of the command line, with those of its --config file in front of them, so that flags win."""
    finder = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    finder.add_argument("--config")
    try:
        options, _ = finder.parse_known_args(argv)
    except argparse.ArgumentError as exc:
        raise UsageError(str(exc)) from exc
    return with_run_file(parser, argv, options.config)


def with_run_file(parser: argparse.ArgumentParser, argv: Sequence[str], file: str | None) -> list[str]:
    """The same for a command that takes the file as a word of its own."""
    return [*_words(parser, Path(file), argv), *argv] if file else list(argv)


def save_config(
    output: Path,
    options: argparse.Namespace,
    signature: str,
    failed: int,
    resolved: Mapping[str, Any] | None = None,
) -> None:
    """Write the options beside the output, so that --config takes them back.

    Options that were left open, or given by name, and were resolved in the run stand below the others as `resolved`.
    """
    remove_debris(config_path(output))
    with atomic_output(config_path(output), force=True) as stream:
        text = f"# {signature}\n# {failed} segments failed\n{_given(options)}"
        stream.write((text + (f"{RESOLVED}\n{_yaml(resolved)}" if resolved else "")).encode())


def finished_with(output: Path, options: argparse.Namespace, others: Sequence[Path]) -> int | None:
    """The number of failed segments of the finished run with these options; None where there is no such run."""
    path = config_path(output)
    files = [output, *others]
    if was_interrupted(files) or not all(file.is_file() for file in (*files, path)):
        return None
    saved = path.read_text(encoding="utf-8", errors="replace")
    match = re.fullmatch(r"# [^\n]*\n# (\d+) segments failed\n(.*)", saved, re.DOTALL)
    return int(match[1]) if match and _same_options(match[2], options) else None


def _same_options(saved: str, options: argparse.Namespace) -> bool:
    """Whether these options are the saved ones, or those with what the run resolved, as --config gives them back."""
    import yaml

    typed, _, resolved = saved.partition(f"{RESOLVED}\n")
    if typed.rstrip("\n") == _given(options).rstrip("\n"):
        return True
    try:
        whole = {**(yaml.safe_load(typed) or {}), **(yaml.safe_load(resolved) or {})}
        settings = {
            key: json.loads(value) if isinstance(value, str) and isinstance(whole.get(key), dict) else value
            for key, value in _settings(options).items()
        }
    except (yaml.YAMLError, ValueError, TypeError):
        return False
    return bool(resolved) and settings == whole


def config_path(output: Path) -> Path:
    return output.with_name(output.name + ".run.yaml")


def _given(options: argparse.Namespace) -> str:
    return _yaml(_settings(options))


def _settings(options: argparse.Namespace) -> dict[str, Any]:
    return {
        key.replace("_", "-"): value
        for key, value in sorted(vars(options).items())
        if key not in TRANSIENT and value is not None and (value is not False or key in TWO_WAY)
    }


def _yaml(settings: Mapping[str, Any]) -> str:
    import yaml

    return str(yaml.safe_dump(dict(settings), allow_unicode=True, sort_keys=False)) if settings else ""


def _words(parser: argparse.ArgumentParser, path: Path, argv: Sequence[str]) -> list[str]:
    """The options of the file as words of a command line. A list of `argv` takes the place of the file's list."""
    import yaml

    try:
        settings = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as exc:
        raise InputError(f"{path}: cannot be read: {exc.strerror}") from exc
    except (yaml.YAMLError, ValueError, RecursionError) as exc:
        raise InputError(f"{path}: not plain YAML: {yaml_problem(exc)}") from exc
    if settings is None:
        return []
    if not isinstance(settings, dict):
        raise InputError(f"{path}: expected lines like `utility: pear`")
    actions = {action.dest: action for action in parser._actions}
    actions |= {
        name.removeprefix("--").replace("-", "_"): action
        for action in parser._actions
        for name in action.option_strings
        if name.startswith("--")
    }
    flags = {hyphenated(word).partition("=")[0] for word in argv}
    words: list[str] = []
    for key, value in settings.items():
        action = actions.get(str(key).replace("-", "_"))
        if (
            action is None
            or action.dest in ("config", "help", "help_all", "version", argparse.SUPPRESS)
            or not action.option_strings
        ):
            raise UsageError(f"{path}: unknown option {key!r}; expected names as in {parser.prog} --help, without --")
        if not (isinstance(action, argparse._AppendAction) and flags.intersection(action.option_strings)):
            words += _option_words(path, action, value)
    return words


def _option_words(path: Path, action: argparse.Action, value: Any) -> list[str]:
    name = action.option_strings[-1]
    if isinstance(action, argparse.BooleanOptionalAction):
        if not isinstance(value, bool):
            raise UsageError(f"{path}: {action.option_strings[0][2:]} is true or false, found {value!r}")
        return [action.option_strings[0] if value else name]
    if action.nargs == 0:
        if not isinstance(value, bool):
            raise UsageError(f"{path}: {name[2:]} is true or false, found {value!r}")
        return [name] if value else []
    if value is None:
        return []
    if isinstance(action, argparse._AppendAction) and isinstance(value, list):
        return [f"{name}={item}" for item in value]
    if action.nargs is not None and not isinstance(value, dict):
        return [name, *map(str, value if isinstance(value, list) else [value])]
    if isinstance(value, dict) and getattr(action, "takes_mapping", False):
        return [f"{name}={json.dumps(value)}"]
    if isinstance(value, (dict, list)):
        raise UsageError(f"{path}: {name[2:]} takes one value, found {value!r}")
    return [f"{name}={value}"]
