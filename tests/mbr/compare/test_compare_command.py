"""mbr-compare as people run it: bundled models, real checkpoints in the genuine formats, bad input."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Run, write_jsonl
from tests.support.shipped_recipe import LOGPROB
from tests.support.tiny import tiny_model

pytestmark = pytest.mark.one_world

SOURCES = ["Tom is sick.", "It's too cold to go swimming today.", "I have no money.", "Where do you live?"]
REFERENCES = ["Tom ist krank.", "Es ist heute zu kalt zum Schwimmen.", "Ich habe kein Geld.", "Wo wohnst du?"]
LISTS = [
    {"id": "a", "source": "A dog.", "candidates": ["Ein Hund.", "Der Hund.", "Ein Hund"], "references": ["Ein Hund."]},
    {
        "id": "b",
        "source": "A cat.",
        "candidates": ["Eine Katze.", "Die Katze.", "Katze"],
        "references": ["Eine Katze."],
    },
    {"id": "c", "source": "A cow.", "candidates": ["Eine Kuh.", "Die Kuh.", "Kuh"], "references": ["Eine Kuh."]},
]
FAST = ("--bootstrap", "50", "--trials", "50")


@pytest.fixture
def texts(tmp_path: Path) -> list[str]:
    """Options that name sources and references."""
    (tmp_path / "en.txt").write_text("".join(line + "\n" for line in SOURCES), encoding="utf-8")
    (tmp_path / "de.txt").write_text("".join(line + "\n" for line in REFERENCES), encoding="utf-8")
    return ["--sources", "en.txt", "--references", "de.txt"]


def report(folder: Path) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    return document


def choices(folder: Path, label: str) -> list[str]:
    return [segment["chosen"][label] for segment in report(folder)["choices"]]


def rows(folder: Path) -> dict[str, dict[str, Any]]:
    return {row["label"]: row for row in report(folder)["rows"]}


def test_from_sources_to_a_page_and_again_with_two_more(warm: Run, tmp_path: Path, texts: list[str]) -> None:
    command = ["mbr-compare", *texts, "--nbest", "12", "--study", "2", *FAST, "--utility", "pear"]
    done = warm(*command, "-o", "one")
    assert done.returncode == 0, done.stderr
    assert "pear race" in done.stdout
    assert "beam best (baseline)" in done.stdout
    assert "one/report.html is ready: 4 rows, 4 segments, 3 judges" in done.stderr
    first = rows(tmp_path / "one")
    assert list(first) == ["beam best", "random candidate", "pear race", "oracle (chrf)"]
    assert f"add.logprob:{LOGPROB}" in first["pear race"]["signature"]
    assert "weights:uniform" in first["pear race"]["signature"]
    files = {"report.html", "report.json", "report.tsv", "report.html.run.yaml"}
    assert {file.name for file in (tmp_path / "one").iterdir()} == files
    assert (tmp_path / "one" / "report.tsv").read_text().splitlines()[1].startswith("beam best\tfirst\tchrf\t")

    again = warm(*command, "chrf", "bleu", "-o", "two")
    assert again.returncode == 0, again.stderr
    assert "4 candidate lists of an earlier run are used again" in again.stderr
    second = rows(tmp_path / "two")
    assert list(second)[3:5] == ["chrf", "bleu"]
    for label, row in first.items():
        assert without_rank(second[label]) == without_rank(row)
        assert second[label]["passes"] == row["passes"]


def without_rank(row: dict[str, Any]) -> dict[str, Any]:
    """The scores of a row; its rank depends on the others."""
    return {judge: {**score, "rank": None} for judge, score in row["scores"].items()}


def test_an_existing_report_is_not_overwritten(warm: Run, tmp_path: Path) -> None:
    lists = write_jsonl(tmp_path / "lists.jsonl", LISTS)
    command = ["mbr-compare", "--candidates", lists, "--utility", "chrf", "--study", "0", *FAST]
    assert warm(*command).returncode == 0
    refused = warm(*command)
    assert refused.returncode == 2
    assert "report/report.html exists" in refused.stderr
    assert warm(*command, "--force").returncode == 0
    assert "first candidate" in rows(tmp_path / "report")


def test_the_papers_experiment_runs_with_local_folders(
    warm: Run, tmp_path: Path, ours: Path, tiny_metrics: dict[str, Path]
) -> None:
    """Genuine formats, tiny random weights, and no hub."""
    lists = write_jsonl(tmp_path / "lists.jsonl", LISTS)
    models = [f"{name}={folder}" for name, folder in {"pear": ours, **tiny_metrics}.items()]
    done = warm(
        "mbr-compare", "--preset", "pear-table2", "--candidates", lists, "--model", *models, "--study", "1", *FAST
    )
    assert done.returncode == 0, done.stderr
    table = rows(tmp_path / "report")
    assert list(table)[2:] == ["PEAR (full)", "PEAR (sym.)", "COMET", "BLEURT-20", "oracle (chrf)"]
    assert set(table["COMET"]["scores"]) == {"xcomet", "cometkiwi", "metricx"}
    assert table["PEAR (full)"]["passes"] == 2 * table["PEAR (sym.)"]["passes"] == 18
    assert table["COMET"]["scores"]["xcomet"]["same_family"]
    assert not table["COMET"]["scores"]["metricx"]["same_family"]
    assert "not for commercial use" in done.stderr


def test_without_the_checkpoints_each_row_says_so(warm: Run, tmp_path: Path, ours: Path) -> None:
    lists = write_jsonl(tmp_path / "lists.jsonl", LISTS)
    done = warm(
        "mbr-compare", "--preset", "pear-table2", "--candidates", lists, "--model", f"pear={ours}", "comet=./nowhere",
        "--judge", "chrf", "--offline", *FAST,
    )  # fmt: skip
    assert done.returncode == 4
    table = rows(tmp_path / "report")
    assert table["COMET"]["error"]
    assert "nowhere" in table["COMET"]["error"]
    assert table["BLEURT-20"]["error"]
    assert table["PEAR (full)"]["error"] is None
    assert set(table["PEAR (full)"]["scores"]) == {"chrf"}
    text = (tmp_path / "report" / "report.html").read_text(encoding="utf-8")
    assert "Something failed" in text
    assert "judge xcomet" in text


def test_one_empty_list_among_many(warm: Run, tmp_path: Path) -> None:
    lists = write_jsonl(tmp_path / "lists.jsonl", [*LISTS, {"id": "d", "source": "x", "candidates": []}])
    done = warm("mbr-compare", "--candidates", lists, "--utility", "chrf", *FAST)
    assert done.returncode == 1
    assert "1 segment left out" in done.stderr
    assert report(tmp_path / "report")["left_out"][0]["id"] == "d"
    assert "segment d is left out" in (tmp_path / "report" / "report.html").read_text(encoding="utf-8")


def test_qe_reranking_is_a_row_of_its_own(warm: Run, tmp_path: Path, tiny_metrics: dict[str, Path]) -> None:
    lists = write_jsonl(tmp_path / "lists.jsonl", LISTS)
    words = [f"cometkiwi={tiny_metrics['cometkiwi']}", "chrf"]
    done = warm("mbr-compare", "--candidates", lists, "--utility", *words, "--study", "0", *FAST)
    assert done.returncode == 0, done.stderr
    table = rows(tmp_path / "report")
    assert (table["cometkiwi"]["kind"], table["cometkiwi"]["passes"]) == ("quality", 9)
    assert "QE reranking" in (tmp_path / "report" / "report.html").read_text(encoding="utf-8")


def test_pear_judges_choices_against_the_first_row_and_the_references(warm: Run, tmp_path: Path, ours: Path) -> None:
    lists = write_jsonl(tmp_path / "lists.jsonl", LISTS)
    resume = tiny_model(tmp_path, "resume")
    done = warm(
        "mbr-compare", "--preset", "pear-judge", "--candidates", lists, "--model", f"pear={ours}",
        f"resume-metric={resume}", "--judge", "chrf+resume-metric=0.2", "--study", "0", "--device", "cpu", *FAST,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "pear: better than first candidate by" in done.stdout
    assert "pear-ref: better than the reference by" in done.stdout
    judges = {judge["name"]: judge for judge in report(tmp_path / "report")["judges"]}
    assert list(judges) == ["pear", "pear-ref", "chrf", "chrf+0.2*RESUME"]
    assert [judge["better_than"] for judge in judges.values()] == ["first candidate", "the reference", None, None]
    assert all("pear@" in judges[name]["identity"] for name in ("pear", "pear-ref"))
    scores = rows(tmp_path / "report")["first candidate"]["scores"]
    assert scores["pear"]["score"] == 0


def test_a_model_named_once_reaches_all_that_need_it(warm: Run, tmp_path: Path) -> None:
    lists = write_jsonl(tmp_path / "lists.jsonl", LISTS)
    words = ["chrf,prefilter=cometkiwi:2,label=stage", "chrf,add=comet:1,label=term", "metricx-qe", "chrf"]
    models = [f"{name}=./nowhere-{name}" for name in ("comet", "cometkiwi", "metricx")]
    done = warm(
        "mbr-compare", "--candidates", lists, "--utility", *words, "--oracle", "comet", "--model", *models, *FAST
    )
    assert done.returncode == 4
    table = rows(tmp_path / "report")
    for label, name in {
        "stage": "cometkiwi",
        "term": "comet",
        "metricx-qe": "metricx",
        "oracle (comet)": "comet",
    }.items():
        assert f"nowhere-{name}" in table[label]["error"], label
    assert table["chrf"]["error"] is None


def test_a_term_takes_the_model_that_is_named_for_it(warm: Run, tmp_path: Path, tiny_metrics: dict[str, Path]) -> None:
    """The choices are those of mbr-decode with the same term."""
    lists = write_jsonl(tmp_path / "lists.jsonl", LISTS)
    model = tiny_metrics["cometkiwi"]
    words = ["chrf,add=cometkiwi:100,label=term", "chrf,add=cometkiwi:100,label=same", "chrf"]
    done = warm(
        "mbr-compare",
        "--candidates",
        lists,
        "--utility",
        *words,
        "--model",
        f"cometkiwi={model}",
        "--study",
        "0",
        *FAST,
    )
    assert done.returncode == 0, done.stderr
    table = rows(tmp_path / "report")
    assert "add.cometkiwi:100" in table["term"]["signature"]
    decoded = warm(
        "mbr-decode", "--candidates", lists, "--utility", "chrf", "--add", "cometkiwi=100", "--add-model",
        f"cometkiwi={model}",
    )  # fmt: skip
    assert decoded.returncode == 0, decoded.stderr
    assert decoded.stdout.splitlines() == choices(tmp_path / "report", "term")
    assert choices(tmp_path / "report", "term") == choices(tmp_path / "report", "same")
    notes = [line for line in done.stderr.splitlines() if "not for commercial use" in line]
    assert len(notes) == 1, done.stderr


@pytest.mark.parametrize("method", ["beam", "sample", "epsilon"])
def test_choices_are_those_of_mbr_decode_in_one_step_and_in_two(
    method: str, warm: Run, tmp_path: Path, texts: list[str]
) -> None:
    """The recipe follows from the origin of the lists, here as there."""
    search = ["--method", method, "--nbest", "12", "--seed", "5"]
    decoded = warm("mbr-decode", "--sources", "en.txt", *search)
    assert decoded.returncode == 0, decoded.stderr
    words = ["--utility", "pear", "--study", "0", *FAST]
    assert warm("mbr-compare", *texts, *search, *words, "-o", "one").returncode == 0
    assert choices(tmp_path / "one", "pear race") == decoded.stdout.splitlines()
    made = warm("mbr-generate", *search, "-o", "lists.jsonl", "--sources", "en.txt")
    assert made.returncode == 0, made.stderr
    lists = ["--candidates", "lists.jsonl", "--references", "de.txt", "--seed", "5"]
    two = warm("mbr-compare", *lists, *words, "-o", "two")
    assert two.returncode == 0, two.stderr
    assert choices(tmp_path / "two", "pear race") == decoded.stdout.splitlines()
    assert (f"add.logprob:{LOGPROB}" in rows(tmp_path / "two")["pear race"]["signature"]) == (method == "beam")


def test_an_output_folder_that_cannot_be_made_is_refused_before_the_work(warm: Run, tmp_path: Path) -> None:
    lists = write_jsonl(tmp_path / "lists.jsonl", LISTS)
    done = warm("mbr-compare", "--candidates", lists, "--utility", "chrf", "-o", "/proc/nowhere/report")
    assert done.returncode == 2
    assert "cannot write" in done.stderr
    assert done.stdout == ""


def test_a_cache_that_cannot_be_written_costs_nothing_but_time(run: Run, tmp_path: Path, texts: list[str]) -> None:
    (tmp_path / "file").write_text("in the way")
    words = ["--nbest", "4", "--utility", "chrf", "--study", "0", *FAST]
    done = run("mbr-compare", *texts, *words, env={**os.environ, "MBR_CACHE": str(tmp_path / "file" / "x")})
    assert done.returncode == 0, done.stderr
    assert "the candidate lists are not kept" in done.stderr
    assert "scores are not kept" in done.stderr


def test_samples_are_compared_with_the_most_likely(warm: Run, tmp_path: Path, texts: list[str]) -> None:
    words = ["--method", "epsilon", "--nbest", "6", "--utility", "chrf", "--study", "0", "--no-cache"]
    done = warm("mbr-compare", *texts, *words, *FAST)
    assert done.returncode == 0, done.stderr
    assert "most likely" in rows(tmp_path / "report")


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        ([], 2, "nothing to compare"),
        (["--candidates", "gone.jsonl"], 3, "gone.jsonl"),
        (["--candidates", "lists.jsonl", "--utility", "nothing"], 2, "'nothing' is unknown"),
        (["--candidates", "lists.jsonl", "--judge", "nothing"], 2, "judge 'nothing' is unknown"),
        (["--candidates", "lists.jsonl", "--preset", "table9"], 2, "pear-table2"),
        (["--candidates", "lists.jsonl", "--model", "pear"], 2, "expected NAME=MODEL"),
        (["--candidates", "lists.jsonl", "--model", "chrf=x"], 2, "takes a model"),
        (["--candidates", "lists.jsonl", "--model", "reverse=x", "reverse=y"], 2, "names 'reverse' twice"),
        (["--candidates", "lists.jsonl", "--utility", "chrf,add=reverse"], 2, "NAME:WEIGHT"),
        (["--candidates", "lists.jsonl", "--references", "short.txt"], 3, "short.txt has 1 line,"),
        (["--candidates", "lists.jsonl", "--baseline", "missing"], 2, "no row of the table"),
        (["--candidates", "lists.jsonl", "--method", "beam"], 2, "goes with text"),
        (["--candidates", "lists.jsonl", "--study", "-1"], 2, "negative"),
        (["--candidates", "lists.jsonl", "-o", "short.txt"], 2, "is a file"),
        (["--candidates", "-", "--references", "-"], 2, "standard input"),
        (["--sources", "nothing.txt"], 3, "no sentence"),
        (["--sources", "bad.txt"], 3, "not valid UTF-8"),
        (["--candidates", "without.jsonl", "--judge", "chrf"], 2, "chrf needs references (--references FILE)"),
        (["--candidates", "junk.jsonl"], 3, "none of 4 candidate lists can be used; the first: junk.jsonl, line 1"),
        (["--sources", "short.txt", "--judge", "ter"], 2, "ter needs references (--references FILE)"),
        (["--sources", "short.txt", "--references", "nothing.txt"], 3, "0 lines, but the number of segments is 1"),
        (["--sources", "short.txt", "--references", "short.txt", "--baseline", "missing"], 2, "no row of the table"),
    ],
)
def test_bad_input_has_a_message_and_writes_nothing(
    words: list[str], code: int, message: str, warm: Run, tmp_path: Path
) -> None:
    write_jsonl(tmp_path / "lists.jsonl", LISTS)
    write_jsonl(
        tmp_path / "without.jsonl", [{key: one[key] for key in ("id", "source", "candidates")} for one in LISTS]
    )
    (tmp_path / "short.txt").write_text("x\n")
    (tmp_path / "nothing.txt").write_text("")
    (tmp_path / "junk.jsonl").write_bytes(bytes(range(256)) * 3)
    (tmp_path / "bad.txt").write_bytes(b"gut\nschlecht \xff\n")
    done = warm("mbr-compare", *words)
    assert done.returncode == code, done.stderr
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "report").exists()


def test_options_come_from_a_file_too(warm: Run, tmp_path: Path) -> None:
    write_jsonl(tmp_path / "lists.jsonl", LISTS)
    (tmp_path / "run.yaml").write_text(
        "candidates: lists.jsonl\nutility: [chrf, 'bleu,label=B']\nbootstrap: 50\ntrials: 50\n", encoding="utf-8"
    )
    assert warm("mbr-compare", "--config", "run.yaml").returncode == 0
    assert {"chrf", "B"} < set(rows(tmp_path / "report"))
    again = warm("mbr-compare", "--config", "report/report.html.run.yaml", "--force", "--utility", "ter")
    assert again.returncode == 0, again.stderr
    assert "ter" in rows(tmp_path / "report")
    assert "B" not in rows(tmp_path / "report")
