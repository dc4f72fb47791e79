"""`--help` in two levels, colour on terminals only, and completion from the parsers."""

from __future__ import annotations

import argparse
import io
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from candidates.command.colour import ESCAPE, painted_table, print_table, wants_colour
from candidates.command.completion import completion, parser_of
from candidates.command.console import Console
from candidates.command.help import MANY, MOST_USED
from candidates.command.launch import COMMANDS
from tests.conftest import ROOT

pytestmark = pytest.mark.one_world

PARSERS = {name: parser_of(name) for name in COMMANDS}


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def plain(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")


def all_parsers() -> dict[str, argparse.ArgumentParser]:
    parsers = dict(PARSERS)
    for action in PARSERS["mbr-metaeval"]._actions:
        if isinstance(action, argparse._SubParsersAction):
            parsers |= {f"mbr-metaeval {task}": parser for task, parser in action.choices.items()}
    return parsers


def text_of(parser: argparse.ArgumentParser, word: str, capsys: pytest.CaptureFixture[str]) -> str:
    with pytest.raises(SystemExit):
        parser.parse_args([word])
    return capsys.readouterr().out


def test_every_command_with_many_options_has_a_short_help() -> None:
    """Those that fit on a page have one level; an entry of the table names options that exist."""
    for name, parser in all_parsers().items():
        options = {word for action in parser._actions for word in action.option_strings}
        if len([action for action in parser._actions if action.option_strings]) > MANY + 2:
            assert name in MOST_USED, f"{name} has many options: name the ten used most in candidates/command/help.py"
        assert set(MOST_USED.get(name, ())) <= options, name
        assert len(MOST_USED.get(name, ())) <= 10


@pytest.mark.parametrize("name", [name for name in COMMANDS if name in MOST_USED])
def test_help_shows_the_options_used_most_and_help_all_every_one(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    parser = PARSERS[name]
    short, whole = text_of(parser, "--help", capsys), text_of(parser, "--help-all", capsys)
    assert len(short.splitlines()) <= min(60, len(whole.splitlines()) - 5)
    assert all(option in short for option in MOST_USED[name])
    assert "quick start:" in short
    assert f"{name} --help-all lists all " in short
    for action in parser._actions:
        if action.help is not argparse.SUPPRESS and action.option_strings:
            assert action.option_strings[0] in whole
    assert "--log-format" not in short
    assert not ESCAPE.search(short + whole)


def test_a_command_with_few_options_shows_them_all(capsys: pytest.CaptureFixture[str]) -> None:
    shown = {word: text_of(PARSERS["mbr-merge"], word, capsys) for word in ("-h", "--help", "--help-all")}
    assert len(set(shown.values())) == 1
    assert "--help-all" not in shown["--help"]


@pytest.mark.parametrize("name", PARSERS)
def test_help_begins_with_one_line_of_usage_and_fits_the_terminal(
    name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    for word in ("--help", "--help-all"):
        usage, empty, *lines = text_of(PARSERS[name], word, capsys).splitlines()
        assert usage.startswith(f"usage: {name} [options]")
        assert not empty
        about, _, tasks = "\n".join(lines).partition("\ntasks (")
        assert max(map(len, about.splitlines())) <= 80
        assert max(map(len, tasks.partition("exit codes:")[2].splitlines()), default=0) <= 80


def test_a_command_too_long_for_the_terminal_continues_below_its_remark(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    assert (
        "\n  mbr-decode --utility chrf --candidates nbest.txt \\\n"
        "    --sources src.txt --nbest 100 --format jsonl\n"
        "  # the released PEAR: downloads 2.3 GB\n"
        "  mbr-decode --utility pear --model pear \\\n"
        "    --candidates lists.jsonl\n"
    ) in text_of(PARSERS["mbr-decode"], "--help", capsys)


def test_usage_names_what_is_required(capsys: pytest.CaptureFixture[str]) -> None:
    (tasks,) = (action for action in PARSERS["pear"]._actions if isinstance(action, argparse._SubParsersAction))
    assert text_of(tasks.choices["mbr"], "--help", capsys).startswith("usage: pear mbr --input FILE [options]\n")
    assert text_of(PARSERS["pear-convert"], "-h", capsys).startswith("usage: pear-convert [options] model folder\n")


def test_help_is_coloured_on_a_terminal_and_reads_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = []
    for stream in (io.StringIO(), Terminal()):
        monkeypatch.setattr(sys, "stdout", stream)
        with pytest.raises(SystemExit):
            PARSERS["mbr-decode"].parse_args(["--help"])
        texts.append(stream.getvalue())
    plain_text, coloured = texts
    assert "\x1b[36m--candidates\x1b[0m FILE" in coloured
    assert "\x1b[1mquick start:\x1b[0m" in coloured
    assert ESCAPE.sub("", coloured) == plain_text


@pytest.mark.parametrize(
    ("variables", "terminal", "expected"),
    [
        ({}, True, True),
        ({}, False, False),
        ({"TERM": "dumb"}, True, False),
        ({"NO_COLOR": "1"}, True, False),
        ({"NO_COLOR": ""}, True, True),
        ({"FORCE_COLOR": "1"}, False, True),
        ({"FORCE_COLOR": "0"}, False, False),
        ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, True, False),
    ],
)
def test_colour_follows_the_terminal_and_the_environment(
    variables: dict[str, str], terminal: bool, expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert wants_colour(Terminal() if terminal else io.StringIO()) is expected


def test_tables_have_bold_heads_and_programs_get_plain_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    table = "a    b\n------\nx    1\n"
    assert painted_table(table) == "\x1b[1ma    b\x1b[0m\n\x1b[2m------\x1b[0m\nx    1\n"
    assert painted_table('{"a": "--"}\n') == '{"a": "--"}\n'
    for stream in (io.StringIO(), Terminal()):
        monkeypatch.setattr(sys, "stdout", stream)
        print_table(table)
        assert (stream.getvalue() == table) is not stream.isatty()


def test_warnings_and_errors_stand_out_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", stream := Terminal())
    console = Console("mbr-test")
    console.info("fine")
    console.warn("careful")
    console.error("broken")
    assert stream.getvalue() == (
        "mbr-test: fine\nmbr-test: \x1b[1;33mwarning:\x1b[0m careful\nmbr-test: \x1b[1;31merror:\x1b[0m broken\n"
    )


COMPLETE = """
source {script}
COMP_WORDS=({words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); COMPREPLY=()
function=$(complete -p "${{COMP_WORDS[0]}}" | sed 's/.*-F \\([^ ]*\\).*/\\1/')
"$function" "${{COMP_WORDS[0]}}" "${{COMP_WORDS[COMP_CWORD]}}" "${{COMP_WORDS[COMP_CWORD-1]}}"
echo "${{COMPREPLY[@]}}"
"""


def test_bash_completes_options_choices_and_tasks(tmp_path: Path) -> None:
    script = tmp_path / "completion.bash"
    script.write_text(completion("bash"))
    cases = {
        "mbr-decode --util": "--utility",
        "mbr-decode --format ''": "text tsv jsonl",
        "mbr-metaeval corr": "correlation",
        "mbr-metaeval noise --rep": "--repeats",
        "pear-label --judg": "--judgments",
    }
    for words, expected in cases.items():
        text = COMPLETE.format(script=script, words=words)
        done = subprocess.run(["bash", "-c", text], capture_output=True, text=True, check=True)
        assert done.stdout.strip() == expected, words


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_get_every_command_and_option(shell: str) -> None:
    text = completion(shell)
    for name, parser in PARSERS.items():
        assert name in text
        assert all(action.option_strings[-1].lstrip("-") in text for action in parser._actions if action.option_strings)


ZSH = r"""
zmodload zsh/zpty
zpty shell zsh -f -i
zpty -w shell "PS1=; autoload -Uz compinit; compinit -u -D; eval \"\$(cat {script})\"; print LOADE''D"
zpty -r -m shell line '*LOADED*'
zpty -w -n shell "{words}"$'\t'
sleep 0.7
zpty -w -n shell $'\x01: '
zpty -w shell ""
sleep 0.3
while zpty -r -t shell out; do print -r -- "$out"; done
zpty -d shell
"""


@pytest.mark.skipif(shutil.which("zsh") is None, reason="zsh is not installed")
@pytest.mark.parametrize(
    ("words", "completed"), [("mbr-decode --util", "--utility"), ("mbr-metaeval corr", "correlation")]
)
def test_zsh_loads_the_script_and_completes(words: str, completed: str, tmp_path: Path) -> None:
    script = tmp_path / "completion.zsh"
    script.write_text(completion("zsh"))
    text = ZSH.format(script=script, words=words)
    done = subprocess.run(["zsh", "-f", "-c", text], capture_output=True, text=True, check=True, timeout=60)
    assert f"{words.split()[0]} {completed}" in done.stdout


@pytest.mark.skipif(shutil.which("fish") is None, reason="fish is not installed")
def test_fish_loads_the_script_at_its_start_and_completes_every_command(tmp_path: Path) -> None:
    """From the folder that docs/mbr-doctor.md names."""
    page = (ROOT / "docs" / "mbr-doctor.md").read_text(encoding="utf-8")
    (place,) = re.findall(r"--completion fish > ~/\.config/(\S+)", page)
    script = tmp_path / place
    script.parent.mkdir(parents=True)
    script.write_text(completion("fish"))
    cases = {
        "mbr-decode --util": "--utility",
        "mbr-decode --format ": "text tsv jsonl",
        "mbr-metaeval corr": "correlation",
        "pear-label --judg": "--judgments",
        "mbr-compare --tri": "--trials",
    }
    for words, expected in cases.items():
        environment = {**os.environ, "XDG_CONFIG_HOME": str(tmp_path)}
        command = ["fish", "-c", f"complete -C '{words}'"]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        assert " ".join(line.split("\t")[0] for line in done.stdout.splitlines()) == expected, words
    assert set(re.findall(r"^complete -c (\S+)", script.read_text(), re.MULTILINE)) >= set(COMMANDS)
