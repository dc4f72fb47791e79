"""mbr-tune as people run it: from lists to a recipe that mbr-decode takes; killed and resumed; bad input."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from candidates.common.errors import InputError, MbrError, ModelError, UsageError
from mbr.alignment.table import load_table
from mbr.cli.tune.command import command
from mbr.recipe import read_recipe
from tests.conftest import ROOT, Run, write_jsonl
from tests.mbr.tune.made import made_records
from tests.support.pages import blocks, page

pytestmark = pytest.mark.one_world


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MBR_CACHE", str(tmp_path / "cache"))
    write_jsonl(tmp_path / "dev.jsonl", made_records())
    return tmp_path


TERMS = ("--utility", "none", "--add", "logprob", "length", "--bootstrap", "100")


def test_from_lists_to_a_recipe_that_mbr_decode_takes(
    here: Path, capsys: pytest.CaptureFixture[str], warm: Run
) -> None:
    words = ["--candidates", "dev.jsonl", "--utility", "chrf", "--add", "logprob", "length", "--bootstrap", "100"]
    assert command([*words, "--judge", "ter", "--seed", "3", "-o", "recipe.yaml", "--report", "report.json"]) == 0
    shown = capsys.readouterr()
    for label in ("first candidate", "recipe before", "tuned recipe", "without logprob", "oracle (objective)"):
        assert f"\n{label}" in shown.out
    assert "a standard deviation of logprob within a list counts" in shown.out
    assert "warning: 30 lists are few" in shown.err
    assert "warning: the judge chrf is of the same family as chrf (lexical)" in shown.err
    text = (here / "recipe.yaml").read_text()
    assert text.startswith("# MBR|utility:chrf|")
    assert "# Tuned by mbr-tune to chrf on 30 lists" in text
    assert "# Gain in chrf over the first candidate, by cross-validation: +" in text
    recipe = read_recipe("recipe.yaml")
    assert [term.name for term in recipe.terms] == ["logprob", "length"]
    report = json.loads((here / "report.json").read_text())
    assert [weight["weight"] for weight in report["weights"]] == [recipe.weight, *(t.weight for t in recipe.terms)]
    assert list(report["rows"][0]["scores"]) == ["objective", "chrf", "ter"]
    decoded = warm("mbr-decode", "--candidates", "dev.jsonl", "--recipe", "recipe.yaml")
    assert decoded.returncode == 0, decoded.stderr
    assert report["signature"] == decoded.stderr.splitlines()[-1].removeprefix("mbr-decode: ")
    assert (here / "recipe.yaml.run.yaml").is_file()
    with pytest.raises(UsageError, match="recipe.yaml exists; give --force"):
        command([*words, "-o", "recipe.yaml"])


def test_without_a_file_the_recipe_is_the_output(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    references = "".join(record["references"][0] + "\n" for record in made_records())
    (here / "ref.txt").write_text(references)
    assert command(["--candidates", "dev.jsonl", "--references", "ref.txt", "ref.txt", *TERMS]) == 0
    shown = capsys.readouterr()
    assert yaml.safe_load(shown.out)["utility"] == "none"
    assert "tuned recipe" in shown.err
    assert command(["--candidates", "dev.jsonl", *TERMS, "--quiet"]) == 0
    quiet = capsys.readouterr()
    assert quiet.out == shown.out  # the same references in the lists
    assert all(line.startswith("mbr-tune: warning: ") for line in quiet.err.splitlines())


PROGRAM = """
import sys
from tests.mbr.tune import made
from mbr.utilities import UTILITIES
from mbr.cache import scores
UTILITIES.built_in.update(made.UTILITIES)
scores.SECONDS_BETWEEN_COMMITS = 0
made.Fragile.window_passes = 100
from mbr.cli.tune.command import command
sys.exit(command(sys.argv[1:]))
"""


def fragile(here: Path, output: str, cache: str, dies_at: int) -> subprocess.CompletedProcess[str]:
    words = ["--candidates", "dev.jsonl", "--utility", "fragile", "--add", "logprob", "--bootstrap", "50", "-o", output]
    env = {**os.environ, "MBR_CACHE": str(here / cache), "FRAGILE_DIES_AT": str(dies_at)}
    env |= {"FRAGILE_COUNTS": str(here / f"{output}.count"), "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        [sys.executable, "-c", PROGRAM, *words], cwd=here, env=env, capture_output=True, text=True, check=False
    )


def test_killed_and_resumed_it_gives_the_same_file(here: Path) -> None:
    whole = fragile(here, "whole.yaml", "one", 0)
    assert whole.returncode == 0, whole.stderr
    killed = fragile(here, "resumed.yaml", "two", 12)
    assert killed.returncode == -9
    assert not (here / "resumed.yaml").exists()
    before = int((here / "resumed.yaml.count").read_text())
    assert fragile(here, "resumed.yaml", "two", 0).returncode == 0
    assert (here / "resumed.yaml").read_text() == (here / "whole.yaml").read_text()
    resumed, total = (int((here / f"{name}.yaml.count").read_text()) for name in ("resumed", "whole"))
    assert before > 0
    assert resumed < total


def test_a_second_run_scores_nothing_again(here: Path) -> None:
    assert fragile(here, "one.yaml", "cache", 0).returncode == 0
    assert fragile(here, "two.yaml", "cache", 0).returncode == 0
    first, second = (int((here / f"{name}.yaml.count").read_text()) for name in ("one", "two"))
    assert second < first / 5  # what estimates the cost


@pytest.mark.parametrize(
    ("words", "error", "message"),
    [
        ([], UsageError, "give --candidates FILE with lists to tune on, or --parallel"),
        (["--candidates", "dev.jsonl", "--parallel", "p.tsv"], UsageError, "give --candidates FILE with lists"),
        (["--candidates", "dev.jsonl", "--add", "logprob=1"], UsageError, "weights are learnt; expected NAME"),
        (["--candidates", "dev.jsonl", "--add", "length", "length"], UsageError, "names 'length' twice"),
        (["--candidates", "dev.jsonl", "--add", "nothing"], UsageError, "term 'nothing' is unknown"),
        (["--candidates", "dev.jsonl", "--add-model", "reverse=x"], UsageError, "of a term that --add names"),
        (["--candidates", "dev.jsonl", *TERMS, "--objective", "best"], UsageError, "judge 'best' is unknown"),
        (["--candidates", "dev.jsonl", *TERMS, "--bootstrap", "0"], UsageError, "bootstrap"),
        (["--candidates", "dev.jsonl", *TERMS, "-o", "dev.jsonl", "--force"], UsageError, "is .* the input dev.jsonl"),
        (["--candidates", "none.jsonl", *TERMS], InputError, "none.jsonl: cannot be read"),
        (["--candidates", "empty.jsonl", *TERMS], InputError, "empty.jsonl: no candidate list"),
        (["--candidates", "nan.jsonl", *TERMS], InputError, "nan.jsonl, line 2.*NaN"),
        (["--candidates", "bare.jsonl", *TERMS], InputError, "segment 0 has no reference"),
        (["--candidates", "dev.jsonl", "--references", "short.txt", *TERMS], InputError, "short.txt has 1 lines, but"),
        (["--candidates", "dev.jsonl", *TERMS, "--add", "coverage,model=no.npz"], ModelError, "no.npz: no word-transl"),
        (["--candidates", "dev.jsonl", "--utility", "chrf"], UsageError, "there is only chrf to weigh"),
    ],
)
def test_bad_requests_and_inputs(here: Path, words: list[str], error: type[MbrError], message: str) -> None:
    records = made_records()
    (here / "empty.jsonl").write_text("")
    broken = json.dumps(records[1]).replace('"logprob": -', '"logprob": NaN, "x": -', 1)
    (here / "nan.jsonl").write_text(json.dumps(records[0]) + "\n" + broken + "\n")
    write_jsonl(here / "bare.jsonl", [{key: r[key] for key in ("id", "source", "candidates")} for r in records])
    (here / "short.txt").write_text("ein hund\n")
    with pytest.raises(error, match=message):
        command(words)


def test_parallel_text_becomes_a_table(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pairs = [("the dog sleeps", "der hund schläft"), ("the cat", "die katze"), ("a dog", "ein hund"), ("x", "")]
    (here / "pairs.tsv").write_text("".join(f"{source}\t{target}\n" for source, target in pairs))
    assert command(["--parallel", "pairs.tsv", "-o", "table.npz"]) == 0
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "warning: 3 of 4 sentence pairs were used" in shown.err
    assert "table.npz: 3 sentence pairs, 6 and 7 words" in shown.err
    table = load_table("table.npz")
    assert table.header == {"version": 1, "data": "pairs.tsv", "pairs": 3, "of_pairs": 4}
    assert table.coverage("a dog", ["ein hund", "die katze"]).argmax() == 0
    with pytest.raises(UsageError, match="table.npz exists; give --force"):
        command(["--parallel", "pairs.tsv", "-o", "table.npz"])
    with pytest.raises(UsageError, match="--parallel needs a name for the table: -o FILE.npz"):
        command(["--parallel", "pairs.tsv"])
    with pytest.raises(UsageError, match="--add goes with --candidates, not with --parallel"):
        command(["--parallel", "pairs.tsv", "-o", "t.npz", "--add", "length"])
    (here / "pairs.tsv").write_bytes(b"a dog\tein H\xfcnd\n")
    with pytest.raises(InputError, match="pairs.tsv, line 1, byte 12: 0xfc is not valid UTF-8"):
        command(["--parallel", "pairs.tsv", "-o", "t.npz"])
    assert not (here / "t.npz").exists()


def test_the_python_of_the_page_runs(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (code,) = blocks(page("docs/mbr-tune.md"), "python")
    exec(code, {})
    assert "TermSpec(name='logprob', weight=" in capsys.readouterr().out
