"""What every command makes of its words: --version, files without an option, empty values."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import pytest

from candidates.command.launch import COMMANDS
from candidates.common.errors import UsageError
from candidates.common.version import __version__


def command(name: str, *words: str) -> int:
    code: int = import_module(COMMANDS[name]).command(words)
    return code


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_a_version(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        command(name, "--version")
    assert (end.value.code, capsys.readouterr().out) == (0, f"{name} {__version__}\n")


def test_tasks_have_the_version_of_their_command(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (("mbr-metaeval", "correlation"), ("pear", "score")):
        with pytest.raises(SystemExit):
            command(*words, "--version")
        assert capsys.readouterr().out == f"{words[0]} {__version__}\n"


@pytest.mark.parametrize(
    ("words", "option"),
    [
        (("mbr-decode", "lists.jsonl"), "--candidates lists.jsonl"),
        (("mbr-decode", "--utility", "chrf", "lists.tsv.gz", "-o", "x"), "--candidates lists.tsv.gz"),
        (("mbr-decode", "my text.txt"), "--sources 'my text.txt'"),
        (("mbr-decode", "text"), "--sources text"),
        (("mbr-generate", "text.txt"), "--sources text.txt"),
        (("mbr-compare", "lists.jsonl", "--utility", "chrf"), "--candidates lists.jsonl"),
        (("mbr-evaluate", "out.txt"), "--systems out.txt"),
        (("mbr-metaeval", "{}/folder"), "--data {}/folder"),
        (("mbr-metaeval", "{}/table.tsv"), "--table {}/table.tsv"),
        (("pear-train", "mqm.csv", "-o", "x"), "--data mqm.csv"),
    ],
)
def test_a_file_without_an_option_is_told_which_option_takes_it(
    words: tuple[str, ...], option: str, tmp_path: Path
) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "table.tsv").touch()
    with pytest.raises(UsageError) as error:
        command(*(word.format(tmp_path) for word in words))
    assert f"did you mean {option.format(tmp_path)}?" in str(error.value)


def test_an_option_that_is_unknown_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="unrecognized arguments: --unknown x"):
        command("mbr-decode", "--unknown", "x")
    with pytest.raises(UsageError, match="unrecognized arguments: x"):
        command("mbr-doctor", "x")
    (tmp_path / "run.yaml").write_text("version: true\n")
    with pytest.raises(UsageError, match="unknown option 'version'"):
        command("mbr-decode", "--config", str(tmp_path / "run.yaml"))


@pytest.mark.parametrize(
    ("words", "name"),
    [
        (("mbr-decode", "--model", ""), "--model"),
        (("mbr-decode", "--model="), "--model"),
        (("mbr-decode", "--model", " "), "--model"),
        (("mbr-decode", "--add_model", ""), "--add-model"),
        (("mbr-generate", "--translator", ""), "--translator"),
        (("mbr-generate", "--sources", "", "--nbest", "2"), "--sources"),
        (("mbr-compare", "--candidates="), "--candidates"),
        (("mbr-evaluate", "--systems", "", "--judge", "chrf"), "--systems"),
        (("mbr-metaeval", "--data", ""), "--data"),
        (("mbr-metaeval", "correlation", "--table="), "--table"),
        (("pear", "score", "--input", ""), "--input"),
        (("pear-score", ""), "an argument"),
        (("pear-score", "--model", ""), "--model"),
        (("pear-train", "--from", ""), "--from"),
        (("pear-convert", "", "x"), "an argument"),
    ],
)
def test_empty_values_are_refused_by_every_command(words: tuple[str, ...], name: str) -> None:
    with pytest.raises(UsageError, match=f"^{name} is empty; expected a value, or leave it out"):
        command(*words)


def test_an_empty_value_in_a_file_of_options_is_refused(tmp_path: Path) -> None:
    (tmp_path / "run.yaml").write_text("model: ''\n")
    with pytest.raises(UsageError, match="--model is empty"):
        command("mbr-decode", "--config", str(tmp_path / "run.yaml"))
