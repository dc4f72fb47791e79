"""The commands name their PEAR by one rule, warn once, and refuse what would choose nothing."""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path

import pytest

from candidates.command.launch import COMMANDS
from candidates.common.errors import InputError, UsageError
from candidates.common.text import yaml_problem
from mbr.recipe import read_recipe
from tests.conftest import write_jsonl
from tests.support.close_languages import ENGLISH, GERMAN, SENTENCES

WARNING = "decides without log-probabilities"


def run(*words: str) -> int:
    code: int = import_module(COMMANDS[words[0]]).command(list(words[1:]))
    return code


@pytest.fixture
def lists(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    records = [{"source": "OK.", "candidates": ["OK.", "Okay."]}]
    records += [{"source": s, "candidates": [t, "Nein."]} for s, t in zip(ENGLISH, GERMAN, strict=True)]
    (tmp_path / "references.txt").write_text("\n".join(["OK.", *GERMAN]) + "\n", encoding="utf-8")
    (tmp_path / "ok.jsonl").write_text(json.dumps(records[0]) + "\n")
    return write_jsonl(tmp_path / "lists.jsonl", records)


def test_mbr_decode_names_the_model_and_warns_once(lists: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("mbr-decode", "--candidates", "lists.jsonl", "--device", "cpu") == 0
    answer = capsys.readouterr()
    assert len(answer.out.splitlines()) == 1 + len(GERMAN)
    assert "|model:en-de@" in answer.err
    assert answer.err.count(WARNING) == 1


def test_mbr_compare_warns_once_for_all_settings(lists: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("--candidates", "lists.jsonl", "--references", "references.txt", "--judge", "chrf", "-o", "report")
    settings = ("--utility", "pear,strategy=half", "pear,strategy=race", "--oracle", "none", "--bootstrap", "0")
    assert run("mbr-compare", *words, *settings, "--trials", "0", "--device", "cpu", "--no-cache") == 0
    assert capsys.readouterr().err.count(WARNING) == 1


@pytest.mark.parametrize(
    "words",
    [
        ("mbr-decode", "--candidates", "ok.jsonl"),
        ("mbr-compare", "--candidates", "ok.jsonl", "--references", "ok.txt", "--utility", "pear", "-o", "report"),
        ("pear-score", "ok.tsv"),
    ],
    ids=lambda words: words[0],
)
def test_every_command_refuses_to_guess(words: tuple[str, ...], lists: Path, tmp_path: Path) -> None:
    (tmp_path / "ok.txt").write_text("OK.\n")
    (tmp_path / "ok.tsv").write_text("src\tmt_0\tmt_1\nOK.\tOK.\tOkay.\n")
    with pytest.raises(UsageError, match="languages cannot be seen"):
        run(*words)


def test_pear_score_takes_the_bundled_model_where_the_languages_fit(
    lists: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [f"{source}\t{target}\tNein." for source, target in zip(ENGLISH, GERMAN, strict=True)]
    (tmp_path / "pairs.tsv").write_text("\n".join(["src\tmt_0\tmt_1", "OK.\tOK.\tOkay.", *rows]) + "\n")
    assert run("pear-score", "pairs.tsv", "--device", "cpu") == 0
    answer = capsys.readouterr()
    assert len(answer.out.splitlines()) == 2 + len(rows)
    assert "bundled en-de PEAR" in answer.err
    danish = [f"{source}\t{target}\tNej." for source, target in zip(ENGLISH, SENTENCES["da"], strict=True)]
    (tmp_path / "danish.tsv").write_text("\n".join(["src\tmt_0\tmt_1", *danish]) + "\n", encoding="utf-8")
    with pytest.raises(Exception, match="Prosho/pear"):
        run("pear-score", "danish.tsv")


def test_nothing_to_choose_by_is_refused(lists: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(UsageError, match=r"'none' compares nothing.*--add logprob=1"):
        run("mbr-decode", "--candidates", "lists.jsonl", "--utility", "none")
    assert run("mbr-decode", "--candidates", "lists.jsonl", "--utility", "none", "--add", "length=1") == 0


@pytest.mark.parametrize("utility", ["chrf", "chrf++", "bleu", "ter"])
def test_options_of_models_go_with_every_utility(utility: str, lists: Path) -> None:
    words = ("--offline", "--device", "cpu", "--threads", "1", "--batch-tokens", "500")
    assert run("mbr-decode", "--candidates", "lists.jsonl", "--utility", utility, *words) == 0


@pytest.mark.parametrize(
    ("text", "where"),
    [("utility: chrf\n  terms: [a\n", "line 2, column 8"), ("utility: [chrf\nx: 1\n", "line 2, column 2")],
)
def test_broken_yaml_is_one_sentence_with_line_and_column(text: str, where: str, tmp_path: Path) -> None:
    file = tmp_path / "recipe.yaml"
    file.write_text(text)
    with pytest.raises(InputError) as caught:
        read_recipe(file)
    assert f"{file}: not plain YAML: {where}: " in str(caught.value)
    assert "\n" not in str(caught.value)
    assert "\n" not in yaml_problem(ValueError("several\nlines"))
