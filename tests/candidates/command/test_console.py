"""Console and `run`: messages on stderr, one exit code for every way in which a command may end."""

from __future__ import annotations

import errno
import gc
import io
import json
import os
import signal
import sys
from collections.abc import Callable, Iterator
from typing import IO, Any

import pytest

from candidates.command.console import Console, Parser, Terminated, add_message_options, going_on, run
from candidates.common.errors import (
    EnvironmentProblem,
    InputError,
    MbrError,
    ModelError,
    ResourceError,
    UsageError,
)
from candidates.common.notes import note

Captured = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def signals_as_before() -> Iterator[None]:
    """`run` is for the life of a process; these tests go on after it."""
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


def exit_code(main: Callable[[], int], *, words: tuple[str, ...] = (), monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(sys, "argv", ["mbr-test", *words])
    with pytest.raises(SystemExit) as end:
        run("mbr-test", main)
    return end.value.code


def raising(error: BaseException) -> Callable[[], int]:
    def main() -> int:
        raise error

    return main


def to_nowhere(stream: IO[str]) -> None:
    """What the stream still holds can be written when it is closed."""
    with open(os.devnull, "wb") as nowhere:
        os.dup2(nowhere.fileno(), stream.fileno())


# Messages


def test_notes_of_readers_are_shown_once_by_the_last_console(capsys: Captured) -> None:
    Console("mbr-first")
    Console("mbr-test")
    for message in ("one", "two", "one", "50 %s"):
        note(message)
    assert capsys.readouterr().err == "mbr-test: one\nmbr-test: two\nmbr-test: 50 %s\n"
    Console("mbr-test", quiet=True)
    note("one")
    assert capsys.readouterr().err == ""


def test_messages_are_sentences_on_stderr(capsys: Captured) -> None:
    console = Console("mbr-test")
    console.info("3 lists", lists=3)
    console.warn("few lists")
    console.error("no lists")
    assert capsys.readouterr() == (
        "",
        "mbr-test: 3 lists\nmbr-test: warning: few lists\nmbr-test: error: no lists\n",
    )


def test_quiet_drops_only_what_is_no_warning(capsys: Captured) -> None:
    console = Console("mbr-test", quiet=True)
    console.info("3 lists")
    console.warn("few lists")
    console.error("no lists")
    assert capsys.readouterr().err == "mbr-test: warning: few lists\nmbr-test: error: no lists\n"


def test_json_messages_are_one_object_per_line(capsys: Captured) -> None:
    console = Console("mbr-test", log_format="json")
    console.info("two\nlines, ä", lists=3)
    console.warn("few lists")
    console.error("no lists")
    first, *others = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    stamp = first.pop("time")
    assert first == {"level": "info", "command": "mbr-test", "message": "two\nlines, ä", "lists": 3}
    assert (len(stamp), stamp[10], stamp[-1]) == (20, "T", "Z")
    assert [(record["level"], record["message"]) for record in others] == [
        ("warning", "few lists"),
        ("error", "no lists"),
    ]


def test_details_are_for_those_who_want_them(capsys: Captured) -> None:
    Console("mbr-test").detail("rho 0.1")
    Console("mbr-test", verbose=True, quiet=True).detail("rho 0.1")
    assert capsys.readouterr().err == ""
    Console("mbr-test", verbose=True).detail("rho 0.1")
    assert capsys.readouterr().err == "mbr-test: rho 0.1\n"
    Console("mbr-test", log_format="json").detail("numbers", rho=0.1)
    assert json.loads(capsys.readouterr().err)["rho"] == 0.1


def test_a_full_stderr_stops_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    with open("/dev/full", "w") as full:
        monkeypatch.setattr(sys, "stderr", full)
        Console("mbr-test").error("lost")
        to_nowhere(full)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_is_for_people_at_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not Console("mbr-test").shows_progress
    monkeypatch.setattr(sys, "stderr", Terminal())
    assert Console("mbr-test").shows_progress
    assert not Console("mbr-test", quiet=True).shows_progress
    assert not Console("mbr-test", log_format="json").shows_progress


# Options


def parser() -> Parser:
    made = Parser("mbr-test", "A command.", "quick start:\n  mbr-test\n")
    made.add_argument("--batch-tokens", type=int, default=8, help="tokens per batch")
    made.add_argument("--prompt", help="a text")
    add_message_options(made)
    return made


@pytest.mark.parametrize("words", [["--batch-tokens", "9"], ["--batch_tokens", "9"], ["--batch_tokens=9"]])
def test_options_are_spelled_with_hyphens_or_underscores(words: list[str]) -> None:
    assert parser().parse_args(words).batch_tokens == 9


def test_values_keep_their_underscores() -> None:
    assert parser().parse_args(["--prompt=a_b"]).prompt == "a_b"
    assert parser().parse_args(["--prompt", "a_b"]).prompt == "a_b"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--speed"], r"unrecognized arguments: --speed \(see mbr-test --help\)"),
        (["--batch"], "unrecognized arguments: --batch"),  # no abbreviations
        (["--batch-tokens", "x"], "invalid int value: 'x'"),
        (["--log-format", "xml"], "invalid choice: 'xml'"),
    ],
)
def test_a_wrong_option_is_a_usage_error_in_one_line(words: list[str], message: str) -> None:
    with pytest.raises(UsageError, match=message) as error:
        parser().parse_args(words)
    assert "\n" not in str(error.value)


def test_help_ends_with_the_exit_codes_and_shows_defaults() -> None:
    text = parser().format_help()
    assert "tokens per batch (default: 8)" in text
    assert "only warnings and errors, no progress bar\n" in text
    assert text.index("quick start:") < text.index("exit codes:")
    for kind in (UsageError, InputError, ModelError, ResourceError, EnvironmentProblem):
        assert f"{kind.exit_code} " in text[text.index("exit codes:") :]


# Ends

OUT_OF_MEMORY = "out of memory; use fewer or shorter texts, a smaller model or a larger machine"


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (MbrError("x"), 1, "error: x"),
        (UsageError("x"), 2, "error: x"),
        (InputError("x"), 3, "error: x"),
        (ModelError("x"), 4, "error: x"),
        (ResourceError("x"), 5, "error: x"),
        (EnvironmentProblem("x"), 6, "error: x"),
        (KeyboardInterrupt(), 130, "error: interrupted"),
        (Terminated(), 143, "error: terminated"),
        (MemoryError(), 5, f"error: {OUT_OF_MEMORY}"),
        (RuntimeError("can't start new thread"), 5, f"error: {OUT_OF_MEMORY}"),
        (RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory"), 5, f"error: {OUT_OF_MEMORY}"),
        (ImportError("libtorch.so: failed to map segment from shared object"), 5, f"error: {OUT_OF_MEMORY}"),
        (OSError(errno.ENOMEM, "Cannot allocate memory"), 5, "error: input/output: Cannot allocate memory"),
        (OSError(errno.ENOSPC, "No space left on device"), 5, "error: input/output: No space left on device"),
        (OSError(errno.EDQUOT, "Disk quota exceeded"), 5, "error: input/output: Disk quota exceeded"),
        (OSError(errno.EFBIG, "File too large", "out"), 5, "error: out: File too large"),
        (FileNotFoundError(errno.ENOENT, "No such file or directory", "in"), 3, "error: in: No such file or directory"),
        (PermissionError(errno.EACCES, "Permission denied", "in"), 3, "error: in: Permission denied"),
        (OSError("odd"), 3, "error: input/output: odd"),
    ],
)
def test_every_failure_has_its_exit_code_and_one_line(
    error: BaseException, code: int, message: str, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert exit_code(raising(error), monkeypatch=monkeypatch) == code
    assert capsys.readouterr() == ("", f"mbr-test: {message}\n")


@pytest.mark.parametrize("error", [ZeroDivisionError("x"), AssertionError(), RecursionError(), RuntimeError("CUDA")])
def test_a_bug_ends_with_a_traceback_and_70(
    error: Exception, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert exit_code(raising(error), monkeypatch=monkeypatch) == 70
    said = capsys.readouterr().err
    assert said.startswith("Traceback (most recent call last):\n")
    assert said.endswith("mbr-test: error: this is a bug in mbr-decode; please report it with the lines above\n")


@pytest.mark.parametrize("code", [0, 1, 4])
def test_the_code_of_the_command_is_that_of_the_process(
    code: int, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert exit_code(lambda: code, monkeypatch=monkeypatch) == code
    assert capsys.readouterr() == ("", "")


def test_help_passes_through(capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    def main() -> int:
        parser().parse_args(["--help"])
        return 1

    assert exit_code(main, monkeypatch=monkeypatch) == 0
    assert capsys.readouterr().out.startswith("usage: mbr-test")


@pytest.mark.parametrize("words", [("--log-format", "json"), ("--log-format=json",), ("--log_format", "json")])
def test_errors_are_json_where_messages_are(
    words: tuple[str, ...], capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert exit_code(raising(InputError("x")), words=words, monkeypatch=monkeypatch) == 3
    record = json.loads(capsys.readouterr().err)
    assert (record["level"], record["command"], record["message"]) == ("error", "mbr-test", "x")


@pytest.mark.parametrize(
    ("error", "word"), [(KeyboardInterrupt(), "interrupted"), (Terminated(), "terminated"), (InputError("bad"), "bad")]
)
@pytest.mark.parametrize("advice", ["do it again", None])
def test_an_interruption_says_how_to_go_on(
    error: BaseException, word: str, advice: str | None, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    error = type(error)(*error.args)

    def main() -> int:
        with going_on("something more general"), going_on(lambda: advice):
            raise error

    exit_code(main, monkeypatch=monkeypatch)
    way_on = "" if word == "bad" else f"; {advice or 'something more general'}"
    assert capsys.readouterr().err == f"mbr-test: error: {word}{way_on}\n"


def test_verbose_shows_where_an_error_came_from(capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    assert exit_code(raising(InputError("x")), words=("--verbose",), monkeypatch=monkeypatch) == 3
    shown = capsys.readouterr().err
    assert shown.startswith("Traceback")
    assert shown.endswith("mbr-test: error: x\n")


def test_a_termination_signal_unwinds_the_program(capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    closed = []

    def main() -> int:
        try:
            os.kill(os.getpid(), signal.SIGTERM)
            signal.pause()
        except Exception:
            pytest.fail("a signal is no Exception: no handler of errors may swallow it")
        finally:
            closed.append(True)
        return 0

    assert exit_code(main, monkeypatch=monkeypatch) == 143
    assert closed == [True]
    assert capsys.readouterr().err == "mbr-test: error: terminated\n"


def test_output_that_nobody_reads_is_no_error(capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with open(writing, "w") as stream:
        monkeypatch.setattr(sys, "stdout", stream)

        def main() -> int:
            stream.write("lines\n" * 100_000)
            return 0

        assert exit_code(main, monkeypatch=monkeypatch) == 141
        stream.write("goes nowhere")
        stream.flush()
    assert capsys.readouterr().err == ""


def test_output_that_waits_for_the_end_is_written_before_the_code_is_known(
    capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open("/dev/full", "w") as full:
        monkeypatch.setattr(sys, "stdout", full)
        assert exit_code(lambda: full.write("lost") * 0, monkeypatch=monkeypatch) == 5
        to_nowhere(full)
    assert capsys.readouterr().err == "mbr-test: error: input/output: No space left on device\n"


def test_a_closed_stderr_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", None)
    opened = []

    def main() -> int:
        opened.append(sys.stderr)
        raise InputError("to nobody")

    assert exit_code(main, monkeypatch=monkeypatch) == 3
    assert opened[0].name == os.devnull
    opened[0].close()


def test_output_to_a_closed_stdout_is_an_error_and_silence_is_none(
    capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdout", None)
    assert exit_code(lambda: 0, monkeypatch=monkeypatch) == 0
    monkeypatch.setattr(sys, "stdout", None)
    assert exit_code(lambda: print("lost") or 0, monkeypatch=monkeypatch) == 2  # type: ignore[func-returns-value]
    assert capsys.readouterr().err.startswith("mbr-test: error: standard output is closed; expected")
    sys.stdout.write("Python flushes again at its exit")
    sys.stdout.flush()


def test_an_end_does_not_wait_for_the_garbage_of_libraries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python looks for cycles among all objects as it ends; those of torch take seconds, after SIGTERM too."""
    before = gc.get_freeze_count()
    try:
        assert exit_code(raising(Terminated()), monkeypatch=monkeypatch) == 143
        assert gc.get_freeze_count() > before
    finally:
        gc.unfreeze()
