"""What every command of the family shares: exit codes, signals, pipes, messages, option spelling.

stdout is data. Messages for people go to stderr through `Console`, as plain sentences or, for clusters, as one JSON
object per line. Texts being translated are never logged.
"""

from __future__ import annotations

import argparse
import errno
import gc
import json
import logging
import os
import re
import shlex
import signal
import sys
import textwrap
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import pairwise
from pathlib import Path
from typing import Any, NoReturn

from candidates.command.colour import BOLD, RED, YELLOW, painted, wants_colour
from candidates.command.help import add_help_options, whole_help
from candidates.command.streams import is_typed, open_standard_streams
from candidates.common.errors import OUT_OF_MEMORY, InputError, MbrError, ResourceError, UsageError
from candidates.common.notes import LOGGER
from candidates.common.text import FULL, shown

EXIT_CODES = """\
exit codes:
  0 done{failed}2 usage          3 input data     4 model
  5 memory, disk, budget            6 environment    70 a bug here
  130/143 interrupted/terminated    141 output pipe closed"""


LEVELS = {"warning": YELLOW, "error": RED}

# What Python, torch, CTranslate2 and the dynamic linker write where the system gives them no memory.
NO_MEMORY = (
    *("can't start new thread", "can't allocate memory", "cannot allocate memory", "failed to map segment"),
    *("bad_alloc", "out of memory", "thread constructor failed"),
)


class Console:
    """Messages to stderr: `quiet` drops all but warnings and errors, `verbose` adds details.

    The last one made shows the notes of readers.
    """

    def __init__(self, command: str, *, quiet: bool = False, verbose: bool = False, log_format: str = "text") -> None:
        self.command = command
        self.quiet = quiet
        self.verbose = verbose
        self.json = log_format == "json"
        logger = logging.getLogger(LOGGER)
        logger.setLevel(logging.INFO)
        logger.handlers = [*(h for h in logger.handlers if not isinstance(h, _Notes)), _Notes(self)]

    def info(self, message: str, **fields: Any) -> None:
        if not self.quiet:
            self._write("info", message, fields)

    def detail(self, message: str, **fields: Any) -> None:
        """What only some want to know: with --verbose, and in logs that programs read."""
        if self.verbose or self.json:
            self.info(message, **fields)

    def warn(self, message: str, **fields: Any) -> None:
        self._write("warning", message, fields)

    def error(self, message: str, **fields: Any) -> None:
        self._write("error", message, fields)

    def announce_typing(self, path: str | None) -> None:
        """Say what is expected of a person at a terminal, if text is read from there."""
        if is_typed(path):
            self.info("reading text from the terminal, one sentence per line; Ctrl-D ends it")

    def warn_of_nothing(self, path: str | Path, expected: str) -> None:
        """An input that holds nothing is no error, but seldom what was meant."""
        self.warn(f"{shown(path)} holds no {expected}, so there are no results; is it the right file?")

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
            mark = painted(f"{level}:", BOLD, LEVELS.get(level, ""), colour=wants_colour(sys.stderr))
            line = f"{self.command}: {message}" if level == "info" else f"{self.command}: {mark} {message}"
        with suppress(OSError):  # a closed or full stderr leaves no place to report it
            print(line, file=sys.stderr, flush=True)


class _Notes(logging.Handler):
    """Passes notes of readers (`candidates.common.notes`) to a console, each once."""

    def __init__(self, console: Console) -> None:
        super().__init__(logging.INFO)
        self._console = console
        self._shown: set[str] = set()

    def emit(self, record: logging.LogRecord) -> None:
        message = record.getMessage()
        if message not in self._shown:
            self._shown.add(message)
            self._console.info(message)


class Parser(argparse.ArgumentParser):
    """argparse with hyphens or underscores in option names, help in two levels, --version, and errors that help.

    Args:
        prog, description, epilog: as argparse has them; the exit codes follow the epilog.
        file_option: the option that takes the file of a stray word, to be proposed; None where there is no such option.
        failed: what exit code 1 means, of a command that can end with it.
    """

    def __init__(
        self,
        prog: str,
        description: str,
        epilog: str,
        *,
        file_option: Callable[[str], str] | None = None,
        failed: str = "",
    ) -> None:
        code_1 = f"\n  1 {failed}\n  " if failed else " " * 11
        super().__init__(
            prog=prog,
            description=description,
            epilog=f"{epilog.rstrip()}\n\n{EXIT_CODES.format(failed=code_1)}",
            formatter_class=_Formatter,
            allow_abbrev=False,
            add_help=False,
        )
        self._file_option = file_option
        add_help_options(self)
        self.add_argument("--version", action=_Version, nargs=0, default=argparse.SUPPRESS, help="print it, then stop")

    def parse_args(self, args: Sequence[str] | None = None, namespace: Any = None) -> Any:  # type: ignore[override]
        words = [hyphenated(word) for word in (sys.argv[1:] if args is None else args)]
        self._refuse_empty(words)
        options, strays = self.parse_known_args(words, namespace)
        if not strays:
            return options
        if self._file_option is None or strays[0].startswith("-"):
            self.error(f"unrecognized arguments: {' '.join(strays)}")
        word = shlex.quote(strays[0])
        return self.error(f"{word} has no option in front of it; did you mean {self._file_option(strays[0])} {word}?")

    def format_help(self) -> str:
        return whole_help(self)

    def _refuse_empty(self, words: Sequence[str]) -> None:
        """No name, path or number is empty; an empty word is what a shell makes of a variable that is not set."""
        for before, word in pairwise(["", *words]):
            if not word.strip() or re.fullmatch(r"--[\w-]+=", word):
                name = word.strip().rstrip("=") or (before if before.startswith("-") else "an argument")
                self.error(f"{name} is empty; expected a value, or leave it out")

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message} (see {self.prog} --help)")


class _Version(argparse.Action):
    """Prints the command's first word and the version of the distribution, which is looked up only here."""

    def __call__(self, parser: argparse.ArgumentParser, *details: Any) -> NoReturn:
        from candidates.common.version import __version__

        print(f"{parser.prog.split()[0]} {__version__}")
        parser.exit()


class _Wrapper(textwrap.TextWrapper):
    """Breaks lines at spaces and behind the commas of a list of names, never inside a name."""

    wordsep_simple_re = re.compile(r"(\s+|(?<=,)(?=[a-z]))")


class _Formatter(argparse.ArgumentDefaultsHelpFormatter, argparse.RawDescriptionHelpFormatter):
    def _split_lines(self, text: str, width: int) -> list[str]:
        return _Wrapper(width, break_on_hyphens=False).wrap(" ".join(text.split()))

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
    group.add_argument(
        "--verbose", action="store_true", help="more numbers where a command has them; where an error came from"
    )
    group.add_argument("--log-format", choices=("text", "json"), default="text", help="json for clusters")


class Terminated(BaseException):
    """SIGTERM as an exception, so that open files are left in order."""


def run(command: str, main: Callable[[], int]) -> NoReturn:
    """Call `main` and end the process with the exit code of its outcome (see `EXIT_CODES`)."""
    # Importing torch makes a million objects that stay: looking for cycles among them takes a tenth of its time.
    gc.set_threshold(50_000, 20, 50)
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
        if "--verbose" in map(hyphenated, sys.argv[1:]):
            traceback.print_exc()
        console.error(str(exc))
        code = exc.exit_code
    except BrokenPipeError:
        # The reader of our output has gone (`| head`): nothing to report, and no flush at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 128 + signal.SIGPIPE
    except KeyboardInterrupt as exc:
        console.error("; ".join(["interrupted", *_notes(exc)]))
        code = 128 + signal.SIGINT
    except Terminated as exc:
        console.error("; ".join(["terminated", *_notes(exc)]))
        code = 128 + signal.SIGTERM
    except OSError as exc:
        console.error(f"{exc.filename or 'input/output'}: {exc.strerror or exc}")
        code = ResourceError.exit_code if exc.errno in (*FULL, errno.ENOMEM) else InputError.exit_code
    except Exception as exc:
        if _is_out_of_memory(exc):
            console.error(OUT_OF_MEMORY)
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


@contextmanager
def going_on(advice: str | Callable[[], str | None]) -> Iterator[None]:
    """Add to an interruption (Ctrl-C, SIGTERM) how to continue after it, for `run` to print; None adds nothing."""
    try:
        yield
    except (KeyboardInterrupt, Terminated) as exc:
        words = advice if isinstance(advice, str) else advice()
        if words is not None and not _notes(exc):
            exc.add_note(words)
        raise


def _notes(exc: BaseException) -> list[str]:
    return list(getattr(exc, "__notes__", ()))


def _terminate(signum: int, frame: object) -> NoReturn:
    raise Terminated


def _wants_json(words: Sequence[str]) -> bool:
    spelled = [hyphenated(word) for word in words]
    return "--log-format=json" in spelled or ("--log-format", "json") in pairwise(spelled)
