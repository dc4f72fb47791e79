"""The page of the quick set: what was found, what failed and what was left out, and nothing of the machine's paths."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path

import pytest

from benchmarks import results
from benchmarks.results import Quick, Result, clean, main, page, run
from benchmarks.support.headlines import headline, spread
from tests.conftest import ROOT

pytestmark = pytest.mark.one_world

PROGRAMS = {
    "fine": "print('a table\\n  of two lines\\n=> mbrs over ours: 2 (1.9 to 2.1)')",
    "broken": "open('/no/such/folder/file.txt')",
    "slow": "import sys\nprint('twice as slow')\nprint('a warning', file=sys.stderr)\nsys.exit(1)",
}


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with three benchmarks."""
    folder = tmp_path / "benchmarks"
    folder.mkdir()
    (folder / "__init__.py").touch()
    for name, program in PROGRAMS.items():
        (folder / f"{name}.py").write_text(f'"""A.\n\nProves that it is\n{name}, by 1.5 times. More.\n"""\n{program}\n')
    monkeypatch.setattr(results, "ROOT", tmp_path)
    return tmp_path


def test_a_run_keeps_table_and_headlines(root: Path) -> None:
    found = run(Quick("fine"))
    assert (found.table, found.headlines) == ("a table\n  of two lines", ["mbrs over ours: 2 (1.9 to 2.1)"])
    assert (found.trouble, found.failed) == ("", False)


def test_one_that_breaks_says_why_without_a_path(root: Path) -> None:
    found = run(Quick("broken"))
    assert found.failed
    assert found.trouble == (
        "**failed** with exit code 1: FileNotFoundError: [Errno 2] No such file or directory: 'file.txt'"
    )


def test_one_whose_claim_does_not_hold_keeps_its_table(root: Path) -> None:
    found = run(Quick("slow"))
    assert found.failed
    assert found.trouble == "**failed** with exit code 1: what it should prove did not hold"
    assert found.table == "twice as slow"


def test_missing_data_is_said_and_no_failure(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results, "DATA", root / "data")
    found = run(Quick("fine", data=root / "data" / "tatoeba" / "deu-eng.tsv.gz"))
    assert found.trouble == "**not run**: there is no tatoeba/deu-eng.tsv.gz in ../shared/data or $MBR_DATA"
    assert (found.failed, found.table, found.headlines) == (False, "", [])


@pytest.mark.parametrize(("names", "code"), [(["fine"], 0), (["broken", "fine"], 1), (["slow"], 1)])
def test_the_others_go_on_and_the_exit_code_tells(
    root: Path, monkeypatch: pytest.MonkeyPatch, names: list[str], code: int
) -> None:
    monkeypatch.setattr(results, "QUICK", [Quick(name) for name in names])
    monkeypatch.setattr(results, "about", lambda: [("date", "today"), ("machine", "this one")])
    assert main() == code
    text = (root / "benchmarks" / "RESULTS.md").read_text("utf-8")
    for name in names:
        assert f"\n\n## {name}\n\nProves that it is {name}, by 1.5 times.\n\n`python -m benchmarks.{name}` (" in text
    assert ("- mbrs over ours: 2 (1.9 to 2.1)\n\n```text\na table\n" in text) == ("fine" in names)
    assert str(root) not in text


def test_a_long_table_is_folded(root: Path) -> None:
    rows = [("date", "today"), ("machine", "this one")]
    text = page(rows, [Result(Quick("fine"), datetime.now(UTC), table="row\n" * 50)])
    assert "| date | today |\n| --- | --- |\n| machine | this one |" in text
    assert "<details><summary>table</summary>\n\n```text\nrow" in text


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        ("see /home/me/data/x.tsv.gz, line 3", "see x.tsv.gz, line 3"),
        ("Command '['/venv/bin/python', '-m']' failed", "Command '['python', '-m']' failed"),
        ("no answer from https://user:word@index.example/simple", "no answer from (an address)"),
        ("BLEU / chrF 1/2, 230 lines/s, ../shared/data, float32/int8/x", None),
    ],
)
def test_a_page_for_everybody_has_no_paths_of_a_machine(text: str, cleaned: str | None) -> None:
    assert clean(text) == (text if cleaned is None else cleaned)


def test_a_headline_has_median_and_range(capsys: pytest.CaptureFixture[str]) -> None:
    headline(f"over ours: {spread([3, 1234.5, 20.04])}")
    assert capsys.readouterr().out == "=> over ours: 20 (3 to 1,234)\n"


def test_the_machine_is_told_without_its_paths() -> None:
    about = dict(results.about())
    assert list(about) == ["date", "commit", "machine", "system", "packages", "peers"]
    assert about["peers"] == "pear-mt 1.1.1, mbrs 0.1.8, litellm 1.106.2"
    assert all(clean(value) == value for value in about.values())


def test_the_page_has_the_quick_set_as_it_is() -> None:
    shown = re.findall(
        r"^`(python -m benchmarks\.[^`]+)`", (ROOT / "benchmarks" / "RESULTS.md").read_text(), re.MULTILINE
    )
    assert shown == [quick.command for quick in results.QUICK]
