"""mbr-decode with a tolerance, a budget or a first stage: what it prints, what it keeps, what it refuses."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml

from tests.conftest import Run, write_jsonl

pytestmark = pytest.mark.one_world

WORDS = ("Hund", "Katze", "Haus", "Baum", "rennt", "schläft", "heute", "nicht", "sehr", "der", "ein", "die")
RECORDS = [
    {
        "id": k,
        "source": f"A dog runs {k}.",
        "candidates": [
            {"text": " ".join(WORDS[(i * i + j * k + 3 * j) % 12] for j in range(4)) + f" {i}", "logprob": -0.5 * i}
            for i in range(size)
        ],
    }
    for k, size in enumerate((30, 2, 1, 3, 30))
]


@pytest.fixture
def lists(tmp_path: Path) -> Path:
    return write_jsonl(tmp_path / "l.jsonl", RECORDS)


@pytest.fixture
def pear(ours: Path) -> tuple[str, ...]:
    return ("mbr-decode", "--model", str(ours), "--device", "cpu", "--candidates", "l.jsonl")


CHRF = ("mbr-decode", "--utility", "chrf", "--candidates", "l.jsonl")


def test_race_is_the_default_and_tells_how_sure_it_is(
    warm: Run, lists: Path, pear: tuple[str, ...], tmp_path: Path
) -> None:
    result = warm(*pear, "--tolerance", "0.05", "--format", "jsonl", "-o", "out.jsonl", "--verbose")
    assert result.returncode == 0, result.stderr
    assert "|strategy:race|tol:0.05|budget:20N|" in result.stderr
    told = r"expected regret \d+\.\d\d %, above 5 % in \d of 2 segments; \d+\.\d contenders left; rho \d+\.\d\d; tau \d"
    assert re.search(told, result.stderr)
    cost = (
        r"5 translations chosen from 66 distinct candidates in [\d.]+ s; [\d,]+ pairs scored \(\d+\.\d per candidate\)"
    )
    assert re.search(cost, result.stderr)
    words = r"expected loss against scoring every pair: [\d.]+ % on average; .* above 5 %; not known for 2 segments\n"
    assert re.search(words, result.stderr)
    records = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert [record["unique"] for record in records] == [30, 2, 1, 3, 30]
    for record in records:
        assert record["passes"] <= 30 * 29 // 2 * 1.02
        # Of two or three candidates no pair is scored in both orders, of one there is nothing to know.
        assert (record["estimated_regret"] is None) == (record["contenders"] is None) == (record["unique"] in (2, 3))
        assert record["estimated_regret"] is None or record["estimated_regret"] >= 0
    assert [record["passes"] for record in records[1:4]] == [1, 0, 3]
    assert records[0]["rho"] > 0
    saved = yaml.safe_load((tmp_path / "out.jsonl.run.yaml").read_text())
    assert saved["tolerance"] == 0.05
    again = warm("mbr-decode", "--config", "out.jsonl.run.yaml", "-o", "again.jsonl")
    assert "|tol:0.05|" in again.stderr
    assert (tmp_path / "again.jsonl").read_bytes() == (tmp_path / "out.jsonl").read_bytes()
    resumed = warm(*pear, "--tolerance", "0.05", "--format", "jsonl", "-o", "out.jsonl", "--resume")
    assert "is complete; nothing to resume" in resumed.stderr


def test_dry_run_says_how_much_it_may_take(warm: Run, lists: Path, pear: tuple[str, ...]) -> None:
    result = warm(*pear, "--dry-run", "--tolerance", "0.3")
    assert result.returncode == 0, result.stderr
    about = re.search(r"pairs +about (\d+), at most 890 \(about [\d,]+ tokens\)", result.stdout)
    assert about
    assert "signature   MBR|utility:pear|" in result.stdout
    total = warm(*pear, "--dry-run", "--tolerance", "0.3", "--budget-total", "880")
    assert f"about {about[1]}, at most 880 " in total.stdout  # a bound that does not bind changes nothing


def test_a_budget_for_all(warm: Run, lists: Path, pear: tuple[str, ...], tmp_path: Path) -> None:
    result = warm(*pear, "--budget-total", "150", "--tolerance", "0", "--format", "jsonl")
    assert result.returncode == 0, result.stderr
    records = [json.loads(line) for line in result.stdout.splitlines()]
    assert [record["id"] for record in records] == [0, 1, 2, 3, 4]
    assert 100 <= sum(record["passes"] for record in records) <= 150
    assert "|budget-total:150|" in result.stderr
    small = warm(*pear, "--budget-total", "20", "-o", "small.txt")
    assert (small.returncode, small.stdout) == (2, "")
    assert "too small: the first requests of these 4 lists take" in small.stderr
    assert not (tmp_path / "small.txt").exists()


def test_a_first_stage(warm: Run, lists: Path, pear: tuple[str, ...], tmp_path: Path) -> None:
    plain = warm(*pear, "--prefilter", "chrf:8", "--strategy", "balanced", "--format", "jsonl", "-o", "o.jsonl")
    assert plain.returncode == 0, plain.stderr
    assert "|prefilter:chrf:8|" in plain.stderr
    records = [json.loads(line) for line in (tmp_path / "o.jsonl").read_text().splitlines()]
    assert [record["passes"] for record in records] == [28, 1, 0, 3, 28]
    assert [record["unique"] for record in records] == [30, 2, 1, 3, 30]
    for record, given in zip(records, RECORDS, strict=True):
        assert given["candidates"][record["position"]]["text"] == record["text"]  # type: ignore[index]
    assert yaml.safe_load((tmp_path / "o.jsonl.run.yaml").read_text())["prefilter"] == "chrf:8"
    by_model = warm(*CHRF, "--prefilter", "logprob:5", "--top", "9", "--format", "jsonl")
    assert by_model.returncode == 0, by_model.stderr
    assert {entry["position"] for entry in json.loads(by_model.stdout.splitlines()[0])["top"]} == {0, 1, 2, 3, 4}


# What is wrong, the words, the exit code, what the message says.
TROUBLE = [
    ("a model for no first stage", ("--prefilter-model", "x"), 2, "--prefilter-model goes with --prefilter"),
    ("a model for logprob", ("--prefilter", "logprob:3", "--prefilter-model", "x"), 2, "has no option 'model'"),
    ("no number to keep", ("--prefilter", "chrf"), 2, "expected NAME:K"),
    ("one to keep", ("--prefilter", "chrf:1"), 2, "K from 2 on"),
    ("no name", ("--prefilter", ":30"), 2, "expected NAME:K"),
    ("an unknown first stage", ("--prefilter", "nosuch:30"), 2, "nosuch"),
    ("a model chrf does not have", ("--prefilter", "chrf:3", "--prefilter-model", "x"), 2, "has no option 'model'"),
    ("a tolerance of 200 %", ("--strategy", "prune", "--tolerance", "2"), 2, "a share from 0 to below 1"),
    ("a tolerance for halving", ("--strategy", "halving", "--tolerance", "0.1"), 2, "'race' or 'prune'"),
    ("a tolerance for full", ("--tolerance", "0.1"), 2, "'race' or 'prune'"),
    ("a budget of nothing", ("--strategy", "prune", "--budget", "0"), 2, "positive"),
    ("a budget for full", ("--budget", "10"), 2, "'race', 'halving' or 'prune'"),
    ("race for chrf", ("--strategy", "race"), 2, "use halving"),
    ("a total for halving", ("--strategy", "halving", "--budget-total", "99"), 2, "'race' or 'prune'"),
    ("a total of nothing", ("--strategy", "prune", "--budget-total", "0"), 2, "decides nothing"),
]


@pytest.mark.parametrize(("what", "words", "code", "message"), TROUBLE, ids=[row[0] for row in TROUBLE])
def test_trouble(warm: Run, lists: Path, what: str, words: tuple[str, ...], code: int, message: str) -> None:
    result = warm(*CHRF, *words)
    assert result.returncode == code, result.stderr
    assert message in result.stderr
    assert "Traceback" not in result.stderr
    assert result.stdout == ""


def test_a_total_for_half_is_refused(warm: Run, lists: Path, pear: tuple[str, ...]) -> None:
    result = warm(*pear, "--strategy", "half", "--budget-total", "99")
    assert (result.returncode, result.stdout) == (2, "")
    assert "a budget for all lists goes with strategy 'race' or 'prune'" in result.stderr


def test_lists_without_log_probabilities(warm: Run, tmp_path: Path) -> None:
    records = [{"id": "a", "source": "s", "candidates": ["x y", "x z", "q"]}, {**RECORDS[3], "id": "b"}]
    write_jsonl(tmp_path / "l.jsonl", records)
    stopped = warm(*CHRF, "--prefilter", "logprob:2")
    assert (stopped.returncode, stopped.stdout) == (3, "")
    assert "segment 'a': logprob needs the log-probability of every candidate" in stopped.stderr
    went_on = warm(*CHRF, "--prefilter", "logprob:2", "--on-error", "fallback")
    assert went_on.returncode == 1
    assert went_on.stdout.splitlines()[0] == "x y"
    assert len(went_on.stdout.splitlines()) == 2
