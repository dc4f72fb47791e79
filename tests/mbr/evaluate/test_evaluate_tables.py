"""The tables of mbr-evaluate: widths, columns, legends."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mbr.cli.common.layout import LONGEST_NAME, WIDTH, display_width
from mbr.cli.evaluate.command import command
from mbr.cli.evaluate.tables import render
from mbr.evaluate import evaluate
from mbr.evaluate.judges import JudgeSpec
from tests.conftest import ROOT
from tests.mbr.evaluate.made import ALL, FAST, REFERENCES, SOURCES, SYSTEMS, Count, read

pytestmark = pytest.mark.one_world


def test_the_table_of_the_documentation_is_a_real_one(wmt23: Path) -> None:
    """One column of two systems is enough: another system, or judge, changes no number."""
    outputs = {name: read(wmt23 / f"system-outputs/en-de/{name}.txt") for name in ("ONLINE-B", "AIRC")}
    given = {"sources": read(wmt23 / "sources/en-de.txt"), "references": [read(wmt23 / "references/en-de.refA.txt")]}
    page = (ROOT / "docs/mbr-evaluate.md").read_text(encoding="utf-8")
    shown = {line.split()[0]: line for line in page.split("\n-----")[1].split("\n\n")[0].splitlines()}
    table = render(evaluate(outputs, ["bleu"], baseline="ONLINE-B", **given), "table")
    for row in table.split("\n\n")[0].splitlines()[2:]:
        assert shown[row.split()[0]].endswith(row.split("  ")[-1])


def test_many_judges_and_long_names_stay_within_the_width(counting: type[Count]) -> None:
    systems = {f"{name} of a laboratory with a long name {n}": SYSTEMS[name] for name in SYSTEMS for n in range(5)}
    judges = [JudgeSpec("count", f"m{n}", f"count=a-model-with-a-very-long-name-{n}") for n in range(9)]
    given: dict[str, Any] = {"sources": SOURCES, "references": [REFERENCES], "draws": 20, "trials": 20}
    done = evaluate(systems, judges, baseline=next(iter(systems)), **given)
    for width, blocks in ((WIDTH, 5), (80, 9)):
        legend = render(done, "table", width).split("\n\n")[blocks]
        assert max(map(len, legend.splitlines())) <= width
        tables = [part for part in render(done, "table", width).split("\n\n") if "-----" in part]
        assert len(tables) == blocks + (1 if width > 80 else 2)  # nine wide columns, and what is to be looked at
        for table in tables:
            assert len(table.splitlines()) == 2 + len(systems)
            assert max(map(len, table.splitlines())) <= width


def test_the_width_is_that_of_the_terminal(
    files: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def table(columns: str, *words: str) -> str:
        monkeypatch.setenv("COLUMNS", columns)
        assert command([*ALL, *FAST, "--no-cache", *words]) == 0
        return capsys.readouterr().out

    monkeypatch.chdir(files)
    narrow, wide = table("40"), table("200")
    first, second, _ = narrow.split("\n\n", 2)
    assert max(map(len, [*first.splitlines(), *second.splitlines()])) <= 40
    assert first.split()[:2] + second.split()[:2] == ["system", "chrf", "system", "ter"]
    assert wide.split("\n")[0].split() == ["system", "chrf", "bleu", "ter", "↓"]
    table("40", "-o", "out.txt")
    assert (files / "out.txt").read_text() == wide  # nobody knows where a file will be read


def test_wide_characters_take_two_columns() -> None:
    systems = {"翻译系统": SYSTEMS["good"], "e\u0301t": SYSTEMS["poor"], "翻译" * 20: SYSTEMS["middle"]}
    done = evaluate(systems, ["chrf"], references=[REFERENCES], draws=0, trials=0)
    head, line, *rows = render(done, "table").split("\n\n")[0].splitlines()
    assert {display_width(row) for row in (line, *rows)} == {display_width(head)}
    assert display_width(rows[1].rsplit("  ", 1)[0]) <= LONGEST_NAME


def test_a_column_of_zeros_looks_like_its_neighbours() -> None:
    done = evaluate({"a": ["x"] * 5}, ["chrf", "bleu"], references=[REFERENCES], draws=0, trials=0)
    assert render(done, "table").splitlines()[2].split() == ["a", "0.00", "0.00"]


def test_the_legend_speaks_of_marks_that_are_there() -> None:
    given: dict[str, Any] = {"references": [REFERENCES], "baseline": "good"}
    same = render(evaluate({"good": SYSTEMS["good"]}, ["chrf"], draws=100, trials=100, **given), "table")
    assert "†" not in same
    bare = render(evaluate(SYSTEMS, ["chrf"], draws=100, trials=0, **given), "table")
    assert "\nno †: differences are tested by randomisation, which was left out (--trials 0)\n" in bare
    assert bare.count("†") == 1
