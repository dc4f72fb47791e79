"""Every benchmark says what it proves, and all are in one table, in the order in which they are run."""

from __future__ import annotations

import re

import pytest

import benchmarks
from benchmarks.results import QUICK, proves
from tests.conftest import ROOT
from tests.support.imports import imports_of, python_files

RUNNABLE = sorted(
    file.stem for file in (ROOT / "benchmarks").glob("*.py") if 'if __name__ == "__main__"' in file.read_text("utf-8")
)
# Of each row of the table: name, question, against, time, quick.
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in (benchmarks.__doc__ or "").splitlines()
    if re.match(r"\| [a-z]\w+ \|", line) and not line.startswith("| benchmark |")
]


@pytest.mark.parametrize("name", RUNNABLE)
def test_a_benchmark_says_what_it_measures_how_and_what_that_proves(name: str) -> None:
    text = (ROOT / "benchmarks" / f"{name}.py").read_text("utf-8")
    assert re.match(rf'"""[A-Z].*[.?]\n\n    python -m benchmarks\.{name}\b', text)
    assert re.match(r"(Proves|Makes) \w.*\w\.$", proves(name))


def test_the_table_has_every_benchmark_once() -> None:
    names = [name for name, *_ in ROWS]
    assert sorted(names) == RUNNABLE
    assert all(len(row) == 5 and row[1] and row[3] for row in ROWS)


def test_the_quick_set_is_what_the_table_marks_so_in_its_order() -> None:
    assert [quick.name for quick in QUICK] == [name for name, *_, quick in ROWS if quick]


def test_everything_is_run_in_the_order_of_the_table() -> None:
    _, everything = (ROOT / "Makefile").read_text("utf-8").split("\nbench-all:")
    run = re.findall(r"-m benchmarks\.(\w+)", everything.split("\n\n")[0])
    trained = {"train_bundled_mt", "train_bundled_pear", "train_coverage", "train_recipe"}
    by_hand = trained | {
        "released_opus",
        "parity_libraries",
        "gpu",
        "demo",
        "picture",
        "walk",
        "transcripts",
        "results",
    }
    assert run == [name for name, *_ in ROWS if name not in by_hand]


def test_what_benchmarks_share_imports_no_benchmark() -> None:
    for file in python_files(ROOT, "benchmarks/support"):
        ours = {name for name in imports_of(ROOT, file) if name.startswith("benchmarks.")}
        assert all(name.startswith("benchmarks.support.") for name in ours), file.name
