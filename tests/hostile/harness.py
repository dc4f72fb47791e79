"""Runs a command on bad input in this process, and holds it to what every run promises.

Whatever the input: an exit code that is documented, no exception that is none of ours, an end within the time limit,
no changed input, and an output that is whole or not there. `Case` is one run; `damaged` the ways in which a file is
bad; `numeric_options` what the parser of a command takes as numbers.
"""

from __future__ import annotations

import argparse
import gzip
import io
import json
import os
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

from candidates.command.console import Parser
from candidates.command.launch import COMMANDS
from candidates.common.errors import MbrError
from candidates.common.text import FULL

SECONDS = 30  # per run: a run takes a fraction of a second, on a busy machine some seconds
DOCUMENTED = (0, 1, 2, 3, 4, 5)
NUMBERS = ("", "-1", "0", "nan", "inf", "1e30", "1000000000", "0x10", "1,5", "٣")


@dataclass(frozen=True)
class Outcome:
    """What a run left: its exit code, the error or all of stderr, and stdout."""

    code: int
    message: str
    stdout: bytes


@dataclass(frozen=True)
class Case:
    """A command with good input; `{name}` in its words is the path of the file of that name, `{out}` the output."""

    words: tuple[str, ...]
    files: Mapping[str, bytes] = field(default_factory=dict)
    output: str | None = "out"
    leaves: tuple[str, ...] = (
        "out.partial",
        "out.progress",
        "out.scores",
        "out.training",
    )  # what --resume goes on with

    def run(
        self,
        folder: Path,
        changed: Mapping[str, bytes | None] | None = None,
        more: Sequence[str] = (),
        stdin: bytes = b"",
    ) -> Outcome:
        """Run in an empty folder, with some files changed (None: a folder in their place), and check the promises."""
        contents = {**self.files, **(changed or {})}
        for name, content in contents.items():
            folder.joinpath(name).mkdir() if content is None else folder.joinpath(name).write_bytes(content)
        paths = {name.partition(".")[0]: str(folder / name) for name in contents} | {"out": str(folder / "out")}
        words = [word.format(**paths) for word in self.words]
        result = outcome([*words, *more], stdin)
        described = f"{' '.join([*words, *more])}: code {result.code}: {result.message}"
        assert result.code in DOCUMENTED, described
        assert "Traceback" not in result.message, described
        assert result.code in (0, 1) or result.message.strip(), described
        for name, content in contents.items():
            assert content is None or (folder / name).read_bytes() == content, f"{name} was changed by {described}"
        new = set(os.listdir(folder)) - contents.keys()
        if result.code > 1:
            assert new <= set(self.leaves), f"{sorted(new)} was left by {described}"
        elif self.output is not None:
            assert self.output in new, f"no output of {described}"
            assert not [name for name in new if name.endswith((".tmp", ".partial", ".progress"))], described
        return result


class TooLong(BaseException):
    """A run that has not ended in time; no `except Exception` catches it."""


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    def stop(signum: int, frame: object) -> None:
        raise TooLong(f"not done after {seconds} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def outcome(words: Sequence[str], stdin: bytes = b"") -> Outcome:
    """Run a command as `candidates.command.console.run` does; an exception that is a bug passes through."""
    streams = (sys.stdin, sys.stdout, sys.stderr)
    sys.stdin, sys.stdout, sys.stderr = (io.TextIOWrapper(io.BytesIO(text), "utf-8") for text in (stdin, b"", b""))
    out, err = sys.stdout, sys.stderr
    message = ""
    try:
        with time_limit(SECONDS):
            code = import_module(COMMANDS[words[0]]).command(list(words[1:]))
    except MbrError as exc:
        code, message = exc.exit_code, str(exc)
    except SystemExit as exc:
        code = exc.code if isinstance(exc.code, int) else 0
    except OSError as exc:
        code, message = 5 if exc.errno in FULL else 3, f"{exc.filename or 'input/output'}: {exc.strerror or exc}"
    finally:
        sys.stdin, sys.stdout, sys.stderr = streams
    for stream in (out, err):
        stream.flush()
    text = err.buffer.getvalue().decode(errors="replace")  # type: ignore[attr-defined]
    return Outcome(code, message or text, out.buffer.getvalue())  # type: ignore[attr-defined]


# Bad files


def _first_line(change: Callable[[bytes], bytes]) -> Callable[[bytes], bytes]:
    def changed(content: bytes) -> bytes:
        first, newline, rest = content.partition(b"\n")
        return change(first) + newline + rest

    return changed


def _record(**fields: Any) -> Callable[[bytes], bytes]:
    """A change of fields of the first record of a JSONL file; `...` removes one."""

    def change(line: bytes) -> bytes:
        record = {**json.loads(line), **fields}
        return json.dumps({key: value for key, value in record.items() if value is not ...}).encode()

    return _first_line(change)


def _logprob(value: str) -> Callable[[bytes], bytes]:
    return _record_text(b'[{"text": "x", "logprob": %s}, "y"]' % value.encode())


def _count(value: str) -> Callable[[bytes], bytes]:
    return _record_text(b'[{"text": "x", "count": %s}, "y"]' % value.encode())


def _record_text(candidates: bytes) -> Callable[[bytes], bytes]:
    return _first_line(lambda line: b'{"id": 0, "source": "A dog.", "candidates": %s}' % candidates)


ANY_FILE: dict[str, Callable[[bytes], bytes | None]] = {
    "empty": lambda content: b"",
    "one byte": lambda content: content[:1],
    "cut in half": lambda content: content[: len(content) // 2],
    "cut by one": lambda content: content[:-1],
    "cut in a letter": lambda content: content.rstrip() + "ü".encode()[:1],
    "bad UTF-8": lambda content: content.replace(b"a", b"\xff", 1),
    "UTF-16": lambda content: content.decode().encode("utf-16"),
    "BOM": lambda content: b"\xef\xbb\xbf" + content,
    "two BOMs": lambda content: b"\xef\xbb\xbf" * 2 + content,
    "NUL": lambda content: content.replace(b"a", b"\0", 1),
    "only NULs": lambda content: b"\0" * 1000,
    "empty lines": lambda content: b"\n\n\n" + content + b"\n\n",
    "only empty lines": lambda content: b"\n" * 50,
    "CRLF": lambda content: content.replace(b"\n", b"\r\n"),
    "CR": lambda content: content.replace(b"\n", b"\r"),
    "line separators": lambda content: content.replace(b" ", "\u2028\x0b\x85".encode(), 1),
    "lines doubled": lambda content: content * 2,
    "a tab more": _first_line(lambda line: line + b"\t"),
    "tabs": _first_line(lambda line: line + b"\t" * 2000),
    "a huge line": lambda content: content + b"a " * 30_000 + b"\n",
    "many dots": lambda content: content + b". " * 10_000 + b"\n",
    "a gzip file": gzip.compress,
    "a picture": lambda content: bytes(range(256)) * 20,
    "quotes": lambda content: content.replace(b"a", b'"', 1),
    "brackets": lambda content: b"[" * 5_000,
    "YAML": lambda content: b"a: &a [*a]\n!!python/object:os.system {}\n",
    "folder": lambda content: None,
}
LOGPROBS = ("NaN", "Infinity", "-Infinity", "1e400", "-1e400", "1e300", "true", "null", "{}")
COUNTS = ("0", "-1", "1e30", "1.5", "NaN", "true", "null", "[]", "9007199254740993")
LINES = ("3", "null", "[]", "{}", '"x"', "NaN")
RECORDS: dict[str, Callable[[bytes], bytes | None]] = {
    **{f"no {key}": _record(**{key: ...}) for key in ("id", "source", "candidates")},
    **{
        f"{key} {value!r:.20}": _record(**{key: value})
        for key in ("id", "source", "candidates", "references", "origin")
        for value in (None, True, 3, -1.5, 10**400, "", "x", [], [[]], [None], [1], {}, {"a": {}}, [{}], "\ud800")
    },
    **{f"logprob {value}": _logprob(value) for value in LOGPROBS},
    **{f"count {value}": _count(value) for value in COUNTS},
    **{f"line {value}": _first_line(lambda line, v=value: v.encode()) for value in LINES},  # type: ignore[misc]
    "the same id twice": lambda content: content + content.split(b"\n")[0] + b"\n",
    "the same key twice": _first_line(lambda line: b'{"id": 1, ' + line[1:]),
    "deep": _first_line(lambda line: b'{"id": 0, "candidates": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"),
    "deep origin": _first_line(lambda line: line[:-1] + b', "origin": ' + b'{"a":' * 5000 + b"1" + b"}" * 5000 + b"}"),
    "a long number": _first_line(lambda line: b'{"id": ' + b"9" * 10_000 + b', "candidates": ["x"]}'),
    "10,000 candidates of one letter": _record(candidates=["a", "b"] * 5000),
}  # fmt: skip
TABLES: dict[str, Callable[[bytes], bytes | None]] = {
    "no header": lambda content: content.partition(b"\n")[2],
    "only a header": lambda content: content.partition(b"\n")[0] + b"\n",
    "the header twice": lambda content: content.partition(b"\n")[0] + b"\n" + content,
    "a column twice": lambda content: b"".join(line + b"\t" + line + b"\n" for line in content.splitlines()),
    "a column less": lambda content: b"".join(line.rpartition(b"\t")[0] + b"\n" for line in content.splitlines()),
    "a cell less": lambda content: content.rstrip(b"\n").rpartition(b"\t")[0] + b"\n",
    "empty cells": lambda content: content.partition(b"\n")[0] + b"\n" + b"\t\t\n" * 3,
    "numbers that are none": lambda content: content.replace(b"0.1", b"nan").replace(b"0.2", b"1e400"),
    "no numbers": lambda content: content.replace(b"0.", b"x"),
}


# Numbers of the command line


class _Found(Exception):
    pass


def parsers_of(command: str) -> dict[tuple[str, ...], argparse.ArgumentParser]:
    """The parser of a command, and those of its subcommands by their names."""

    def found(parser: argparse.ArgumentParser, *args: Any) -> None:
        raise _Found(parser)

    kept = argparse.ArgumentParser.parse_args, Parser.parse_args
    argparse.ArgumentParser.parse_args = Parser.parse_args = found  # type: ignore[method-assign,assignment]
    try:
        import_module(COMMANDS[command]).command([])
    except _Found as exc:
        parser: argparse.ArgumentParser = exc.args[0]
    finally:
        argparse.ArgumentParser.parse_args, Parser.parse_args = kept  # type: ignore[method-assign]
    below = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    return {(name,): sub for action in below for name, sub in action.choices.items()} or {(): parser}


def numeric_options(parser: argparse.ArgumentParser) -> dict[str, int]:
    """The options that take numbers, and how many."""
    return {
        action.option_strings[-1]: action.nargs if isinstance(action.nargs, int) else 1
        for action in parser._actions
        if action.option_strings and action.type in (int, float)
    }
