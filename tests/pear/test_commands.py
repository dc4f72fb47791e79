"""pear-score and pear-convert as a user meets them."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pear.checkpoint import load_checkpoint
from tests.conftest import Run

ROWS = [
    ("A dog.", "Ein Hund.", "Eine Katze."),
    ('He said "yes', 'Er sagte "ja', ""),
    ("A\rb", "C", "D\u2028"),
]


def table(path: Path, header: str, rows: list[tuple[str, ...]]) -> Path:
    path.write_bytes("".join("\t".join(row) + "\n" for row in [tuple(header.split()), *rows]).encode())
    return path


def cells(text: str) -> list[list[str]]:
    return [line.split("\t") for line in text.split("\n")[:-1]]


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    return table(tmp_path / "pairs.tsv", "src mt_0 mt_1", ROWS)


def test_pairs_get_a_score_column(run: Run, pairs: Path, ours: Path, engine: Any, tmp_path: Path) -> None:
    result = run("pear-score", pairs, "--model", ours, "--device", "cpu", "-o", "out.tsv")
    assert (result.returncode, result.stdout) == (0, ""), result.stderr
    header, *rows = cells((tmp_path / "out.tsv").read_bytes().decode())
    assert header == ["src", "mt_0", "mt_1", "pear_score"]
    assert [tuple(row[:3]) for row in rows] == ROWS
    expected = engine.score(ROWS)
    np.testing.assert_allclose([float(row[3]) for row in rows], expected, atol=1e-5)
    assert f"mean {expected.mean():+.4f}  mt_0 against mt_1  (3 segments)" in result.stderr


def test_both_orders_are_combined(warm: Run, pairs: Path, ours: Path, engine: Any) -> None:
    result = warm("pear-score", "--model", ours, "--both", stdin=pairs.read_bytes().decode())
    header, *rows = cells(result.stdout)
    assert header[3:] == ["pear_forward", "pear_reverse", "pear_score"]
    forward, reverse = engine.score(ROWS), engine.score([(s, b, a) for s, a, b in ROWS])
    np.testing.assert_allclose(
        np.array([row[3:] for row in rows], float).T, [forward, reverse, (forward - reverse) / 2], atol=5e-6
    )


def test_reference_anchored(warm: Run, tmp_path: Path, ours: Path, engine: Any) -> None:
    table(tmp_path / "refs.tsv", "src mt ref", ROWS)
    result = warm("pear-score", "refs.tsv", "--model", ours)
    np.testing.assert_allclose([float(row[3]) for row in cells(result.stdout)[1:]], engine.score(ROWS), atol=1e-5)
    assert "mt against ref" in result.stderr


def test_several_systems_against_one_anchor(warm: Run, tmp_path: Path, ours: Path, engine: Any) -> None:
    rows = [("A dog.", "Ein Hund.", "Hund.", "Der Hund."), ("A cat.", "Eine Katze.", "Kater.", "Die Katze.")]
    table(tmp_path / "t.tsv", "src A B ref", rows)
    result = warm("pear-score", "t.tsv", "--model", ours, "--systems", "A", "B", "--means")
    means = {name: float(mean) for name, mean, _ in cells(result.stdout)[1:]}
    for column, name in ((1, "A"), (2, "B")):
        assert means[name] == pytest.approx(engine.score([(r[0], r[column], r[3]) for r in rows]).mean(), abs=1e-5)
    assert list(means.values()) == sorted(means.values(), reverse=True)
    scored = warm("pear-score", "t.tsv", "--model", ours, "--systems", "A", "B", "--anchor", "ref", "--both")
    assert cells(scored.stdout)[0] == ["src", "A", "B", "ref", "pear_A", "pear_B"]


@pytest.mark.parametrize(
    ("content", "words", "code", "message"),
    [
        (b"", (), 3, "empty; expected a header"),
        (b"src\tx\n", (), 3, "neither mt_0 and mt_1 nor mt and ref"),
        (b"src\tmt_0\n", (), 2, "no column 'mt_1'"),
        (b"src\tmt_0\tmt_1\na\tb\n", (), 3, "line 2: 2 cells"),
        (b"src\tmt_0\tmt_1\na\tb\t\xff\n", (), 3, "line 2, byte 5: 0xff"),
        (b"src\tmt_0\tmt_1\tsrc\na\tb\tc\td\n", (), 3, "the column 'src' twice"),
        (b"src\tA\n", ("--systems", "A", "B"), 2, "no column 'ref'"),
        (b"src\tmt\tref\n", ("--anchor", "ref"), 2, "--anchor goes with --systems"),
        (b"src\tA\tref\n", ("--systems", "A", "A"), 2, "would stand twice"),
        (b"src\tmt_0\tmt_1\tpear_score\n", (), 2, "would stand twice"),
        (b"src\tmt_0\tmt_1\n", ("--threads", "-1"), 2, "--threads -1"),
    ],
)
def test_trouble_has_a_message_and_an_exit_code(
    warm: Run, tmp_path: Path, ours: Path, content: bytes, words: tuple[str, ...], code: int, message: str
) -> None:
    (tmp_path / "t.tsv").write_bytes(content)
    result = warm("pear-score", "t.tsv", "--model", ours, "-o", "out.tsv", *words)
    assert result.returncode == code, result.stderr
    assert message in result.stderr
    assert not (tmp_path / "out.tsv").exists()


def test_a_table_without_rows_keeps_its_header(warm: Run, ours: Path) -> None:
    result = warm("pear-score", "--model", ours, stdin="src\tmt_0\tmt_1\n")
    assert (result.returncode, result.stdout) == (0, "src\tmt_0\tmt_1\tpear_score\n")


def test_conversion_there_and_back(run: Run, warm: Run, released: Path, tmp_path: Path) -> None:
    for start, words in ((run, (released, "ours")), (warm, ("ours", "back", "--to", "released"))):
        result = start("pear-convert", *words)
        assert result.returncode == 0, result.stderr
        assert "probe scores differ by at most 0" in result.stderr
    names = {load_checkpoint(path).name.split("@")[1] for path in (released, tmp_path / "ours", tmp_path / "back")}
    assert len(names) == 1
    assert warm("pear-convert", released, "ours").returncode == 2


def test_allow_pickle_is_the_only_way_to_load_a_program(warm: Run, released: Path, tmp_path: Path) -> None:
    import torch

    shutil.copytree(released, tmp_path / "odd")
    file = tmp_path / "odd" / "checkpoints" / "model.ckpt"
    content = torch.load(file, weights_only=True)
    content["when"] = __import__("fractions").Fraction(1, 3)
    torch.save(content, file)
    refused = warm("pear-convert", "odd", "folder")
    assert refused.returncode == 4
    assert "fractions.Fraction" in refused.stderr
    assert not (tmp_path / "folder").exists()
    assert warm("pear-convert", "odd", "folder", "--allow-pickle").returncode == 0
    assert load_checkpoint(tmp_path / "folder").name.split("@")[1] == load_checkpoint(released).name.split("@")[1]


def test_nan_weights_are_not_converted(warm: Run, released: Path, tmp_path: Path) -> None:
    import torch

    shutil.copytree(released, tmp_path / "nan")
    file = tmp_path / "nan" / "checkpoints" / "model.ckpt"
    content = torch.load(file, weights_only=True)
    content["state_dict"]["span_proj.0.bias"][:] = float("nan")
    torch.save(content, file)
    assert warm("pear-convert", "nan", "folder").returncode == 4
    assert not (tmp_path / "folder").exists()
