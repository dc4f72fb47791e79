"""The command `pear` as scripts for pear-mt 1.1.1 call it."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pear
import pear.commands.main
from candidates.common.errors import InputError, MbrError, UsageError
from pear.commands import command
from tests.conftest import ROOT, write_jsonl

GOLDEN = json.loads((ROOT / "tests" / "data" / "pear_mt_golden.json").read_text(encoding="utf-8"))["xlm-roberta"]
ROWS = [("A dog.", "Ein Hund.", "Eine Katze."), ('He said "yes"', 'Er sagte "ja"', "two\nlines\tand a tab")]


def table(path: Path, header: str, rows: list[tuple[str, ...]]) -> Path:
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, delimiter="\t").writerows([header.split(), *rows])
    return path


def read(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file, delimiter="\t"))


def call(*words: Any) -> None:
    assert command([*map(str, words), "--gpus", "0"]) == 0


def test_score_adds_a_column(tmp_path: Path, released: Path, engine: Any) -> None:
    file = table(tmp_path / "pairs.tsv", "src mt_0 mt_1", ROWS)
    call("score", "--input", file, "--checkpoint", released / "checkpoints" / "model.ckpt", "--batch-size", 4)
    rows = read(tmp_path / "pairs.pear.tsv")
    assert [tuple(row.values())[:3] for row in rows] == ROWS
    np.testing.assert_allclose([float(row["pear_score"]) for row in rows], engine.score(ROWS), atol=1e-5)


def test_score_takes_references_and_both_orders(tmp_path: Path, ours: Path, engine: Any) -> None:
    file = table(tmp_path / "refs.tsv", "id src mt ref", [("1", *ROWS[0])])
    (tmp_path / "out.tsv").write_text("of an earlier run")
    call("score", "--mode", "reference", "--both", "--model", ours, "--input", file, "--output", tmp_path / "out.tsv")
    (row,) = read(tmp_path / "out.tsv")
    assert list(row) == ["id", "src", "mt", "ref", "pear_forward", "pear_reverse"]
    source, a, b = ROWS[0]
    expected = engine.score([(source, a, b), (source, b, a)])
    np.testing.assert_allclose([float(row["pear_forward"]), float(row["pear_reverse"])], expected, atol=1e-5)


@pytest.mark.parametrize("utility", ["half", "full"])
def test_mbr_chooses_what_pear_mt_chooses_duplicates_included(tmp_path: Path, released: Path, utility: str) -> None:
    records = [{"src": source, "hypotheses": texts, "note": [1]} for source, texts in GOLDEN["lists"]]
    file = write_jsonl(tmp_path / "nbest.jsonl", records)
    call("mbr", "--model", released, "--input", file, "--utility", utility)
    lines = (tmp_path / "nbest.pear-mbr.jsonl").read_text(encoding="utf-8").splitlines()
    for line, record, matrix in zip(map(json.loads, lines), records, GOLDEN[utility], strict=True):
        expected = np.sum(matrix, axis=1) / (len(matrix) - 1)
        assert line.pop("utility") == pytest.approx(expected.max(), abs=1e-4)
        index = int(expected.argmax())
        assert line == {**record, "selected_index": index, "selected": record["hypotheses"][index]}


@pytest.mark.parametrize(
    ("words", "content", "error", "message"),
    [
        (("score",), b"", InputError, "empty; expected a header"),
        (("score",), b"src\tmt_0\n", InputError, "has the column 'mt_1' 0 times"),
        (("score",), b"src\tmt_0\tmt_1\tsrc\n", InputError, "has the column 'src' 2 times"),
        (("score", "--mode", "reference"), b"src\tmt_0\tmt_1\n", InputError, "has the column 'mt' 0 times"),
        (("score",), b"src\tmt_0\tmt_1\na\tb\n", InputError, "line 2: 2 cells"),
        (("score",), b'src\tmt_0\tmt_1\na\t"b\tc\nd\te\tf\n', InputError, "unexpected end of data; a cell with a quo"),
        (("score",), b"src\tmt_0\tmt_1\na\tb\t\xff\n", InputError, "line 2, byte 5: 0xff"),
        (("score", "--gpus", "3"), b"", UsageError, "expected auto, 0 or 1"),
        (("score", "--checkpoint", "x.ckpt", "--hf-model", "a/b"), b"", UsageError, "Use only one"),
        (("score", "--output", "input"), b"src\tmt_0\tmt_1\n", UsageError, "is the input"),
        (("mbr",), b"{\n", InputError, "line 1: not valid JSON"),
        (("mbr",), b'\n{"src": "a", "hypotheses": []}\n', InputError, "line 2: expected"),
        (("mbr",), b'{"src": 1, "hypotheses": ["a"]}\n', InputError, "line 1: expected"),
        (("mbr",), b"[]\n", InputError, "line 1: expected"),
        (("mbr", "--utility", "third"), b"", UsageError, "invalid choice: 'third'"),
        (("third",), b"", UsageError, "invalid choice: 'third'"),
    ],
)
def test_trouble_is_an_error_and_leaves_no_output(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    ours: Path,
    words: tuple[str, ...],
    content: bytes,
    error: type[MbrError],
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "input").write_bytes(content)
    with pytest.raises(error, match=message.replace("[", r"\[")):
        command([*words[:1], "--input", "input", "--model", str(ours), *words[1:]])
    assert [path.name for path in tmp_path.iterdir()] == ["input"]
    assert (tmp_path / "input").read_bytes() == content


def test_main_returns_as_that_of_pear_mt(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path, ours: Path
) -> None:
    def main(*words: Any) -> None:
        monkeypatch.setattr(sys, "argv", [*map(str, words)])
        pear.commands.main.main()

    file = table(tmp_path / "pairs.tsv", "src mt_0 mt_1", ROWS)
    main("pear", "score", "--input", file, "--model", ours, "--gpus", 0)
    assert (tmp_path / "pairs.pear.tsv").exists()
    with pytest.raises(SystemExit, match="Use only one"):
        main("pear", "score", "--input", file, "--checkpoint", "x.ckpt", "--hf-model", "a/b")
    with pytest.raises(SystemExit) as ended:
        main("/usr/bin/pear-mt", "--version")
    assert (ended.value.code, capsys.readouterr().out) == (0, f"pear-mt {pear.__version__}\n")


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("score",), 2, "the following arguments are required: --input"),
        (("score", "--input", "nowhere.tsv"), 3, "nowhere.tsv: cannot be read"),
        (("mbr", "--input", "lists.jsonl", "--model", "./nowhere"), 4, "nowhere is not a PEAR checkpoint"),
    ],
)
def test_exit_codes_are_those_of_our_commands(tmp_path: Path, words: tuple[str, ...], code: int, message: str) -> None:
    write_jsonl(tmp_path / "lists.jsonl", [{"src": "A dog.", "hypotheses": ["Ein Hund."]}])
    result = subprocess.run(
        [sys.executable, "-m", "pear.commands.main", *words], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (result.returncode, result.stdout) == (code, "")
    assert result.stderr.startswith("pear: error: ")
    assert message in result.stderr
    assert len(result.stderr.splitlines()) == 1
