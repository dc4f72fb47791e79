"""What every command of the family shares: exit codes, signals, pipes, messages, option spelling.

stdout is data. Messages for people go to stderr through `Console`, as plain sentences or, for clusters, as one JSON
object per line. Texts being translated are never logged.
"""

from __future__ import annotations

import argparse
import errno
import gc
import json
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import pairwise
from typing import Any, NoReturn

from candidates.command.streams import open_standard_streams
from candidates.common.errors import InputError, MbrError, ResourceError, UsageError
from candidates.common.text import FULL

EXIT_CODES = """\
exit codes:
  0 done            1 some segments failed (--on-error skip or fallback)
  2 usage           3 input data      4 model        5 memory or disk
  6 environment     70 a bug here     130/143 interrupted/terminated     141 output pipe closed"""


# What Python, torch, CTranslate2 and the dynamic linker write where the system gives them no memory.
NO_MEMORY = (
    *("can't start new thread", "can't allocate memory", "cannot allocate memory", "failed to map segment"),
    *("bad_alloc", "out of memory", "thread constructor failed"),
)


class Console:
    """Messages to stderr. `quiet` drops everything but warnings and errors."""

    def __init__(self, command: str, *, quiet: bool = False, log_format: str = "text") -> None:
        self.command = command
        self.quiet = quiet
        self.json = log_format == "json"

    def info(self, message: str, **fields: Any) -> None:
        if not self.quiet:
            self._write("info", message, fields)

    def warn(self, message: str, **fields: Any) -> None:
        self._write("warning", message, fields)

    def error(self, message: str, **fields: Any) -> None:
        self._write("error", message, fields)

    @property
    def shows_progress(self) -> bool:
        return not self.quiet and not self.json and sys.stderr.isatty()

    def _write(self, level: str, message: str, fields: dict[str, Any]) -> None:
        if self.json:
            stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
            record = {"time": stamp, "level": level, "command": self.command, "message": message, **fields}
            # In an ASCII locale letters are escaped as JSON escapes them, not as Python does.
            line = json.dumps(record, ensure_ascii=(sys.stderr.encoding or "utf-8").lower() not in ("utf-8", "utf8"))
        else:
            line = f"{self.command}: {message}" if level == "info" else f"{self.command}: {level}: {message}"
        with suppress(OSError):  # a closed or full stderr leaves no place to report it
            print(line, file=sys.stderr, flush=True)


class Parser(argparse.ArgumentParser):
    """argparse with hyphens or underscores in option names, defaults in the help, and short errors."""

    def __init__(self, prog: str, description: str, epilog: str) -> None:
        super().__init__(
            prog=prog,
            description=description,
            epilog=f"{epilog.rstrip()}\n\n{EXIT_CODES}",
            formatter_class=_Formatter,
            allow_abbrev=False,
        )

    def parse_args(self, args: Sequence[str] | None = None, namespace: Any = None) -> Any:  # type: ignore[override]
        return super().parse_args([hyphenated(word) for word in (sys.argv[1:] if args is None else args)], namespace)

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message} (see {self.prog} --help)")


class _Formatter(argparse.ArgumentDefaultsHelpFormatter, argparse.RawDescriptionHelpFormatter):
    def _get_help_string(self, action: argparse.Action) -> str | None:
        if action.default in (None, False, [], ""):
            return action.help
        return super()._get_help_string(action)


def hyphenated(word: str) -> str:
    """An option's name with hyphens, however it is spelled; other words as they are."""
    if not word.startswith("--"):
        return word
    name, equals, value = word.partition("=")
    return name.replace("_", "-") + equals + value


def add_message_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("messages (stderr)")
    group.add_argument("--quiet", action="store_true", help="only warnings and errors, no progress bar")
    group.add_argument("--log-format", choices=("text", "json"), default="text", help="json for clusters")


class Terminated(BaseException):
    """SIGTERM as an exception, so that open files are left in order."""


def run(command: str, main: Callable[[], int]) -> NoReturn:
    """Call `main` and end the process with the exit code of its outcome (see `EXIT_CODES`)."""
    signal.signal(signal.SIGTERM, _terminate)
    open_standard_streams()
    console = Console(command, log_format="json" if _wants_json(sys.argv[1:]) else "text")
    try:
        try:
            code = main()
        except SystemExit as exc:  # of --help, whose text is output as well
            code = exc.code if isinstance(exc.code, int) else 0
        sys.stdout.flush()
    except MbrError as exc:
        console.error(str(exc))
        code = exc.exit_code
    except BrokenPipeError:
        # The reader of our output has gone (`| head`): nothing to report, and no flush at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 128 + signal.SIGPIPE
    except KeyboardInterrupt:
        console.error("interrupted")
        code = 128 + signal.SIGINT
    except Terminated:
        console.error("terminated")
        code = 128 + signal.SIGTERM
    except OSError as exc:
        console.error(f"{exc.filename or 'input/output'}: {exc.strerror or exc}")
        code = ResourceError.exit_code if exc.errno in (*FULL, errno.ENOMEM) else InputError.exit_code
    except Exception as exc:
        if _is_out_of_memory(exc):
            console.error("out of memory; use smaller batches (--batch-tokens), a smaller model or a larger machine")
            sys.exit(ResourceError.exit_code)
        traceback.print_exc()
        console.error("this is a bug in mbr-decode; please report it with the lines above")
        code = 70
    gc.freeze()  # else Python, as it ends, looks for cycles among all objects of torch, which takes seconds
    sys.exit(code)


def _is_out_of_memory(error: BaseException | None) -> bool:
    """Whether this error, or one that it came from, is that of too little memory for data, threads or libraries."""
    while error is not None:
        if isinstance(error, MemoryError):
            return True
        if isinstance(error, (RuntimeError, ImportError)) and any(words in str(error).lower() for words in NO_MEMORY):
            return True
        error = error.__cause__ or error.__context__
    return False


def _terminate(signum: int, frame: object) -> NoReturn:
    raise Terminated


def _wants_json(words: Sequence[str]) -> bool:
    spelled = [hyphenated(word) for word in words]
    return "--log-format=json" in spelled or ("--log-format", "json") in pairwise(spelled)
