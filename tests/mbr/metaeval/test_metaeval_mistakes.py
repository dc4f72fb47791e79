"""What mbr-metaeval answers where its words or its data are wrong, or say too little."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.conftest import Run
from tests.mbr.metaeval.made import HUMAN, METRICS, write_scores, write_set

pytestmark = pytest.mark.one_world

SET = ("--data", "data", "--test-set", "wmt99", "--lp", "en-de")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_set(tmp_path / "data")
    return tmp_path


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("nonsense",), 2, "task 'nonsense' is unknown; expected one of agreement, choice"),
        ((), 2, "which scores? give --data FOLDER or --table FILE"),
        (("--data", "nowhere"), 3, "nowhere: no such folder"),
        (("--data", "data", "--test-set", "wmt98"), 3, "no test set 'wmt98'; found wmt99"),
        ((*SET, "--human", "da"), 3, "no human scores en-de.da.seg.score; found esa, mqm"),
        ((*SET, "--statistics", "rho"), 2, "statistic 'rho' is unknown"),
        ((*SET, "--score", "nonsense"), 2, "'nonsense' is no judge or utility"),
        ((*SET, "--own", "mine"), 2, "--own mine: expected NAME=FILE"),
        ((*SET, "--own", "close=mine.score"), 3, "mine.score: cannot be read"),
        ((*SET, "--own", "close=-"), 2, "it cannot be standard input"),
        ((*SET, "-o", "-"), 2, "expected the name of a file"),
        (("correlation", *SET, "-o", "a", "--plot", "a.run.yaml"), 2, "--plot names the file beside --output"),
        (("parity", "--ratings", "x.tsv", "--outliers"), 2, "--outliers does not go with --ratings"),
        ((*SET, "--systems", "nobody"), 2, "no system 'nobody'; there are good, mid, poor"),
        ((*SET, "--draws", "0"), 2, "--draws 0 is not a positive number"),
        ((*SET, "--table", "x.tsv"), 2, "not both"),
        ((*SET, "--clip", "5"), 2, "--clip '5': expected LOW:HIGH"),
        ((*SET, "--domain", "news"), 3, "the domains of segments are not known"),
        ((*SET, "--domain"), 3, "the domains of segments are not known"),
        ((*SET, "--level", "document"), 3, "the documents of segments are not known"),
        (("--data", "data", "--lp", "official"), 2, "the official mean over language pairs is not known for wmt99"),
        (("choice", *SET, "--utility", "nonsense"), 2, "'nonsense' is no utility"),
        (("choice", *SET, "--plot", "x.png"), 2, "--plot x.png: plots are drawn as SVG; expected a name that ends in"),
        ((*SET, "--own", "mine=x,reference="), 2, "expected NAME=FILE, NAME=FILE,reference=refA"),
        ((*SET, "--own", "mine=mine.score,reference=refC"), 2, "--own mine: no reference 'refC' in wmt99 en-de"),
        (("parity", "--ratings", "x.tsv", "--human", "mqm"), 2, "--human does not go with --ratings"),
        (("--table", "none.tsv"), 2, "which column of the table is the gold?"),
        (("--table", "none.tsv", "--human", "x", "--test-set", "y"), 2, "--test-set goes with --data"),
        (("parity", *SET), 2, "no human scores but the gold"),
        (("parity", "--groups", "3", *SET), 2, "--groups goes with --ratings"),
        (("oracle",), 2, "which errors?"),
        (("anchors", *SET), 2, "no pairwise metric"),
        (("post-edits",), 2, "which post-edits?"),
        ((*SET, "--score", "chrf+resume-metric=much"), 2, "'much' is not a number"),
        (("resume-metric", *SET), 2, "which RESUME? give --model MODEL"),
        (("correlation", *SET, "--plot", "a.svg", "-o", "a.svg"), 2, "--output and --plot name the same file"),
    ],
)
def test_mistakes_get_a_sentence_and_a_code(
    folder: Path, warm: Run, words: tuple[str, ...], code: int, message: str
) -> None:
    result = warm("mbr-metaeval", *words)
    assert (result.returncode, result.stdout) == (code, "")
    assert message in result.stderr
    assert "Traceback" not in result.stderr


def test_an_own_metric_with_a_hole_or_a_nan_is_refused(folder: Path, warm: Run) -> None:
    for hole, message in (("None", "1 translation that people scored has no score"), ("nan", "'nan' is not finite")):
        own = {name: [*METRICS["close-refA"][name]] for name in ("good", "mid", "poor")}
        own["mid"][0] = hole  # type: ignore[call-overload]
        write_scores(folder / "mine.score", own)
        result = warm("mbr-metaeval", *SET, "--own", "mine=mine.score")
        assert (result.returncode, message in result.stderr) == (3, True)


def test_one_system_still_gives_a_table(folder: Path, warm: Run) -> None:
    result = warm("mbr-metaeval", *SET, "--systems", "mid", "--significance", "--draws", "10", "--format", "json")
    assert "few draws (--draws 10): ranks mean little; give 1000" in result.stderr
    assert result.returncode == 0
    rows = {row["metric"]: row for row in json.loads(result.stdout)["rows"]}
    assert rows["close"]["spa"] is None
    assert rows["close"]["acc_eq"] is None


def test_a_gold_without_any_difference_is_no_error(folder: Path, warm: Run) -> None:
    path = folder / "data" / "wmt99" / "human-scores" / "en-de.mqm.seg.score"
    write_scores(path, {system: ["-1.0"] * 4 for system in HUMAN})
    result = warm("mbr-metaeval", *SET, "--significance", "--draws", "10", "--format", "json")
    assert result.returncode == 0
    rows = {row["metric"]: row for row in json.loads(result.stdout)["rows"]}
    assert (rows["close"]["pdp"], rows["close"]["kendall"], rows["constant"]["acc_eq"]) == (0, None, 1)
