"""mbr-decode as a user meets it: what goes in, what comes out, on which stream, with which exit code."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path

import numpy as np
import pytest

from mbr import read_matrices
from mbr.utilities import utility_names
from tests.conftest import Run, write_jsonl

pytestmark = pytest.mark.one_world

RECORDS = [
    {
        "id": "a",
        "source": "A dog runs.",
        "candidates": ["Ein Hund rennt.", "Ein Hund läuft.", "Der Hund läuft.", "Ein Hund läuft."],
    },
    {"id": "b", "source": "Hello", "candidates": ["Hallo"]},
    {"id": 3, "source": "Good morning", "candidates": ["Guten Morgen", "Guten Morgen!", "Gute Nacht"]},
]
CHRF = ("--utility", "chrf", "--candidates", "l.jsonl")


@pytest.fixture
def lists(tmp_path: Path) -> Path:
    return write_jsonl(tmp_path / "l.jsonl", RECORDS)


def test_text_goes_to_stdout_and_everything_else_to_stderr(run: Run, lists: Path) -> None:
    result = run("mbr-decode", *CHRF)
    assert result.returncode == 0
    assert result.stdout == "Ein Hund läuft.\nHallo\nGuten Morgen!\n"
    assert "3 translations chosen from 7 distinct candidates in " in result.stderr
    assert "MBR|utility:chrf|strategy:full|self:exclude|nbest:all|weights:count|version:" in result.stderr


def test_quiet_says_nothing(run: Run, lists: Path) -> None:
    assert run("mbr-decode", *CHRF, "--quiet").stderr == ""


def test_json_messages_are_one_object_a_line(run: Run, lists: Path) -> None:
    lines = run("mbr-decode", *CHRF, "--log-format", "json").stderr.splitlines()
    assert [json.loads(line)["level"] for line in lines] == ["info", "info", "info"]
    assert json.loads(lines[0])["segments"] == 3
    assert json.loads(lines[1])["estimated_regret"] == 0


def test_jsonl_tells_the_whole_decision(run: Run, lists: Path) -> None:
    first, single, third = map(
        json.loads, run("mbr-decode", *CHRF, "--format", "jsonl", "--top", "2").stdout.splitlines()
    )
    assert first["text"] == "Ein Hund läuft."
    assert (first["candidates"], first["unique"], first["position"], first["passes"]) == (4, 3, 1, 9)
    assert (first["estimated_regret"], first["contenders"], first["tau"]) == (0, 1, None)
    assert first["rho"] == 0  # of three by symmetry
    assert first["top"][1]["text"] == "Der Hund läuft."
    assert first["margin"] == pytest.approx(first["expected_utility"] - first["top"][1]["expected_utility"], abs=1e-5)
    assert (single["flags"], single["margin"], single["expected_utility"]) == (["single"], None, None)
    assert third["id"] == 3


def test_top_k_in_text_keeps_k_lines_a_source(run: Run, lists: Path) -> None:
    lines = run("mbr-decode", *CHRF, "--top", "2").stdout.split("\n")
    assert lines == ["Ein Hund läuft.", "Der Hund läuft.", "Hallo", "", "Guten Morgen!", "Guten Morgen", ""]


def test_tsv_has_a_header_and_ranks(run: Run, lists: Path) -> None:
    rows = [line.split("\t") for line in run("mbr-decode", *CHRF, "--format", "tsv").stdout.splitlines()]
    assert rows[0] == ["id", "rank", "text", "score", "expected_utility", "position", "flags"]
    assert [row[0] for row in rows[1:]] == ["a", "b", "3"]


@pytest.mark.parametrize("words", [("--candidates", "-"), ("--candidates=-",)])
def test_standard_input(run: Run, lists: Path, words: tuple[str, ...]) -> None:
    result = run("mbr-decode", "--utility", "chrf", *words, stdin=lists.read_text())
    assert result.stdout.startswith("Ein Hund läuft.\n")


def test_all_input_formats_lead_to_the_same_decisions(run: Run, lists: Path, tmp_path: Path) -> None:
    """The same two lists of three candidates as JSONL, TSV, lines, Moses, and gzipped."""
    texts = [
        ["Ein Hund rennt.", "Ein Hund läuft.", "Der Hund läuft."],
        ["Guten Morgen", "Guten Morgen!", "Gute Nacht"],
    ]
    sources = ["A dog runs.", "Good morning"]
    records = [{"source": s, "candidates": t} for s, t in zip(sources, texts, strict=True)]
    write_jsonl(tmp_path / "x.jsonl", records)
    (tmp_path / "x.jsonl.gz").write_bytes(gzip.compress((tmp_path / "x.jsonl").read_bytes()))
    rows = [f"{s}\t{text}" for s, group in zip(sources, texts, strict=True) for text in group]
    (tmp_path / "x.tsv").write_text("\n".join(["source\tcandidate", *rows]) + "\n")
    (tmp_path / "s").write_text("\n".join(sources) + "\n")
    (tmp_path / "x.txt").write_text("".join(text + "\n" for group in texts for text in group))
    (tmp_path / "x.nbest").write_text("".join(f"{i} ||| {t} ||| ||| -1\n" for i in range(2) for t in texts[i]))
    outputs = {
        run("mbr-decode", "--utility", "chrf", "--candidates", name, *more).stdout
        for name, more in [
            ("x.jsonl", ()),
            ("x.jsonl.gz", ()),
            ("x.tsv", ()),
            ("x.txt", ("--sources", "s", "--nbest", "3")),
            ("x.nbest", ("--sources", "s")),
        ]
    }
    assert len(outputs) == 1
    assert len(outputs.pop().splitlines()) == 2


def test_pear_from_a_local_folder(run: Run, lists: Path, ours: Path) -> None:
    result = run("mbr-decode", "--model", ours, "--candidates", "l.jsonl", "--device", "cpu", "--format", "jsonl")
    assert result.returncode == 0, result.stderr
    assert [json.loads(line)["passes"] for line in result.stdout.splitlines()] == [3, 0, 3]
    assert "strategy:race|tol:0.01|budget:20N" in result.stderr


def test_output_file_configuration_and_matrices(run: Run, lists: Path, tmp_path: Path) -> None:
    result = run("mbr-decode", *CHRF, "-o", "out.txt", "--matrix", "m.npz")
    assert (result.returncode, result.stdout) == (0, "")
    assert (tmp_path / "out.txt").read_text() == "Ein Hund läuft.\nHallo\nGuten Morgen!\n"
    matrices = list(read_matrices(tmp_path / "m.npz"))
    assert [(m.id, m.values.shape) for m in matrices] == [("a", (3, 3)), ("b", (1, 1)), (3, (3, 3))]
    assert np.allclose(matrices[0].values.diagonal(), 100)
    assert sorted(os.listdir(tmp_path)) == ["l.jsonl", "m.npz", "out.txt", "out.txt.run.yaml"]


def test_the_saved_configuration_repeats_the_run_and_flags_are_stronger(run: Run, lists: Path, tmp_path: Path) -> None:
    run("mbr-decode", *CHRF, "-o", "out.tsv", "--format", "tsv", "--self", "include")
    again = run("mbr-decode", "--config", "out.tsv.run.yaml", "--output", "again.tsv", "--weights", "uniform")
    assert again.returncode == 0, again.stderr
    assert "self:include" in again.stderr
    assert "weights:uniform" in again.stderr
    assert (tmp_path / "again.tsv").read_text().startswith("id\trank")


def test_gz_output(run: Run, lists: Path, tmp_path: Path) -> None:
    assert run("mbr-decode", *CHRF, "-o", "out.txt.gz").returncode == 0
    assert gzip.decompress((tmp_path / "out.txt.gz").read_bytes()).decode().startswith("Ein Hund läuft.\n")


def test_dry_run_counts_and_scores_next_to_nothing(run: Run, lists: Path, ours: Path) -> None:
    result = run("mbr-decode", "--model", ours, "--device", "cpu", "--candidates", "l.jsonl", "--dry-run")
    assert result.returncode == 0, result.stderr
    facts = dict(line.split(None, 1) for line in result.stdout.splitlines())
    assert facts["segments"] == "3"
    assert facts["candidates"] == "8 (7 distinct)"
    assert facts["pairs"].startswith("6 (about ")
    assert "iB" in facts["memory"]
    assert facts["signature"].startswith("MBR|utility:pear|model:pear@")


def test_list_utilities(run: Run) -> None:
    result = run("mbr-decode", "--list-utilities")
    assert result.returncode == 0
    assert [line.split()[0] for line in result.stdout.splitlines()] == [
        "name",
        *utility_names(),
        *("logprob", "reverse", "length", "coverage", "coverage-back", "glossary"),
    ]


def test_underscores_are_accepted(run: Run, lists: Path) -> None:
    assert run("mbr-decode", *CHRF, "--on_error", "skip", "--log_format=json").returncode == 0
