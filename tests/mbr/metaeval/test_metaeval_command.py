"""mbr-metaeval as a user runs it."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from tests.conftest import DATA, Run
from tests.mbr.metaeval.made import METRICS, OUTPUTS, SOURCES, write_scores, write_set

pytestmark = pytest.mark.one_world

TASKS = ("choice", "parity", "correlation", "noise", "oracle", "anchors", "post-edits")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_set(tmp_path / "data")
    return tmp_path


SET = ("--data", "data", "--test-set", "wmt99", "--lp", "en-de")


def test_a_transcript(folder: Path, warm: Run) -> None:
    result = warm("mbr-metaeval", *SET, "--human", "mqm", "--statistics", "acc_eq,pdp,pairwise-accuracy")
    assert result.returncode == 0
    assert result.stdout == (
        "wmt99 en-de: agreement with mqm, 3 systems, 3 annotated segments\n"
        "\n"
        "metric       rank  acc_eq*    PDP  sys. acc.\n"
        "--------------------------------------------\n"
        "close           1    1.000  0.640      1.000\n"
        "blind*          2    0.444  0.183      0.000\n"
        "whole           -        -      -      1.000\n"
        "--------------------------------------------\n"
        "constant        -    0.111  0.000      0.000\n"
        "random          -    0.444  0.057      0.667\n"
        "length          -    1.000  0.677      1.000\n"
        "source-only     -    0.111  0.000      0.000\n"
        "\n"
        "ranked by acc_eq*\n"
        "* compares with no reference\n"
        "below the line: scores without knowledge of translation; every metric should be far above\n"
        "not official: wmt99 is not a known test set; assumed: reference refA (--reference), gold mqm (--human), "
        "no outliers (--exclude-systems)\n"
        "METAEVAL|task:agreement|set:wmt99|lp:en-de|human:mqm|ref:refA|systems:3|segments:3|seed:1|version:0.1.0\n"
    )
    told = result.stderr.splitlines()
    assert told[0] == "mbr-metaeval: not among the systems (references): refA, refB"
    assert any("partial is left out" in line for line in told)
    assert re.fullmatch(r"mbr-metaeval: 3 evaluators, 3 statistics in [\d.]+ s", told[-1])


def test_json_has_the_promised_shape(folder: Path, warm: Run) -> None:
    write_scores(folder / "mine.score", {name: METRICS["close-refA"][name] for name in ("good", "mid", "poor")})
    words = ("--own", "mine=mine.score", "--score", "chrf", "--significance", "--draws", "100", "--format", "json")
    result = warm("mbr-metaeval", *SET, *words, "--quiet")
    assert (result.returncode, result.stderr) == (0, "")
    found = json.loads(result.stdout)
    assert (found["test_set"], found["lp"], found["human"]) == ("wmt99", "en-de", "mqm")
    assert (found["systems"], found["segments"]) == (["good", "mid", "poor"], 3)
    rows = {row["metric"]: row for row in found["rows"]}
    keys = {"metric", "spa", "acc_eq", "epsilon", "pdp", "segment_pearson", "global_pearson", "kendall", "rank"}
    assert all(keys <= set(row) for row in rows.values())
    assert {name: rows["mine"][name] for name in keys - {"metric"}} == {
        name: rows["close"][name] for name in keys - {"metric"}
    }
    assert (rows["mine"]["kind"], rows["close"]["reference"], rows["length"]["kind"]) == ("own", "refA", "sanity")
    assert (rows["chrf"]["kind"], rows["chrf"]["reference"]) == ("own", "refA")
    assert rows["constant"]["spa_meaningless"] is True
    assert rows["constant"]["rank"] is None
    tested = found["significance"]["pdp"]
    assert len(tested["p"]) == len(tested["metrics"]) == 4
    assert rows["close"]["ranks"]["pdp"] == 1


def test_tsv_and_latex(folder: Path, warm: Run) -> None:
    result = warm("mbr-metaeval", *SET, "--format", "tsv", "--statistics", "acc_eq,pdp", "--no-sanity")
    header, *rows = [line.split("\t") for line in result.stdout.splitlines()]
    assert header == ["metric", "lp", "kind", "reference", "rank", "acc_eq", "epsilon", "pdp"]
    assert [row[:5] for row in rows] == [
        ["close", "en-de", "metric", "refA", "1"],
        ["blind", "en-de", "metric", "src", "2"],
        ["whole", "en-de", "metric", "refA", ""],
    ]
    assert float(rows[0][5]) == 1
    assert rows[2][5:] == ["", "", ""]
    write_scores(folder / "o.score", {name: METRICS["close-refA"][name] for name in ("good", "mid", "poor")})
    result = warm("mbr-metaeval", *SET, "--own", "a_b&c%=o.score", "--format", "latex", "--statistics", "pdp")
    assert r"a\_b\&c\% (own) & 1 & 0.640 \\" in result.stdout
    assert result.stdout.count("\\midrule") == 2


def test_several_language_pairs(folder: Path, warm: Run) -> None:
    write_set(folder / "data", lp="en-fr")
    for lp in ("en-de", "en-fr"):
        write_scores(folder / f"{lp}.score", {name: METRICS["close-refA"][name] for name in ("good", "mid", "poor")})
    result = warm(
        "mbr-metaeval", "--data", "data", "--lp", "en-de", "en-fr", "--own", "mine={lp}.score", "--format", "json"
    )
    found = json.loads(result.stdout)
    assert found["lp"] == ["en-de", "en-fr"]
    assert [part["lp"] for part in found["language_pairs"]] == ["en-de", "en-fr"]
    assert {row["metric"]: row["pdp"] for row in found["rows"]}["mine"] == pytest.approx(0.6396, abs=1e-4)
    (folder / "data" / "wmt99" / "metric-scores" / "en-fr" / "blind-src.seg.score").unlink()
    result = warm("mbr-metaeval", "--data", "data", "--lp", "en-de", "en-fr", "--format", "tsv", "--statistics", "pdp")
    assert "not in all language pairs, and not in the mean: blind" in result.stderr
    rows = [line.split("\t") for line in result.stdout.splitlines()]
    assert [row[:2] for row in rows if row[2] == "metric"] == [
        ["close", "mean"],
        ["whole", "mean"],
        ["close", "en-de"],
        ["blind", "en-de"],
        ["whole", "en-de"],
        ["close", "en-fr"],
        ["whole", "en-fr"],
    ]


def test_output_files_are_kept_and_their_options_can_be_used_again(folder: Path, warm: Run) -> None:
    words = (*SET, "--exclude-systems", "refA", "poor", "--statistics", "pdp", "-o", "out.json", "--format", "json")
    assert warm("mbr-metaeval", *words).returncode == 0
    first = (folder / "out.json").read_text()
    assert json.loads(first)["systems"] == ["good", "mid"]
    again = warm("mbr-metaeval", *words)
    assert (again.returncode, "out.json exists; give --force" in again.stderr) == (2, True)
    assert warm("mbr-metaeval", "--config", "out.json.run.yaml", "--force").returncode == 0
    assert (folder / "out.json").read_text() == first
    assert (folder / "out.json.run.yaml").read_text().startswith("# METAEVAL|task:agreement|set:wmt99")


def test_other_tasks(folder: Path, warm: Run) -> None:
    parity = warm("mbr-metaeval", "parity", *SET, "--humans", "esa", "--draws", "20")
    assert parity.returncode == 0
    assert "esa (human)" in parity.stdout
    assert "METAEVAL|task:parity|" in parity.stdout
    correlation = warm("mbr-metaeval", "correlation", *SET, "--plot", "heat.svg", "--format", "json")
    found = json.loads(correlation.stdout)
    assert set(found["metrics"]) == {"mqm", "close", "blind"}
    ET.parse(folder / "heat.svg")
    noise = warm("mbr-metaeval", "noise", *SET, "--plot", "noise.svg", "--repeats", "2")
    assert noise.returncode == 0
    assert noise.stdout.startswith("random: N(0, s) added to every score; levels in standard deviations (")
    ET.parse(folder / "noise.svg")
    rows = warm("mbr-metaeval", "noise", *SET, "--repeats", "2", "--format", "tsv").stdout.splitlines()
    assert rows[0].split("\t") == ["statistic", "noise", "level", "sdp"]
    assert len(rows) == 1 + 4 * 4 * 6
    assert rows[1].split("\t")[:3] == ["segment_pearson", "random", "0.1"]
    assert warm("mbr-metaeval", "noise", *SET, "--plot", "noise.svg").returncode == 2  # it is there


def test_parity_keeps_its_options_too(folder: Path, warm: Run) -> None:
    words = (*SET, "--humans", "esa", "--no-significance", "-o", "p.tsv", "--format", "tsv")
    assert warm("mbr-metaeval", "parity", *words).returncode == 0
    first = (folder / "p.tsv").read_text()
    assert warm("mbr-metaeval", "parity", "--config", "p.tsv.run.yaml", "--force").returncode == 0
    assert (folder / "p.tsv").read_text() == first


def test_a_column_with_holes_is_left_out_or_refused(folder: Path, warm: Run) -> None:
    rows = ["system\tsegment\tmqm\tfine\tholes"]
    rows += [
        f"{system}\t{n}\t{-n * k}\t{n + k}\t{'None' if (system, n) == ('b', 2) else n}"
        for k, system in enumerate("abc")
        for n in (1, 2)
    ]
    (folder / "t.tsv").write_text("\n".join(rows) + "\n")
    result = warm("mbr-metaeval", "--table", "t.tsv", "--human", "mqm", "--no-sanity", "--format", "json")
    assert [row["metric"] for row in json.loads(result.stdout)["rows"]] == ["fine"]
    assert "holes is left out: 1 translation that people scored has no score" in result.stderr
    named = warm("mbr-metaeval", "--table", "t.tsv", "--human", "mqm", "--metrics", "holes")
    assert (named.returncode, "1 translation that people scored" in named.stderr) == (3, True)
    chosen = warm("mbr-metaeval", "--table", "t.tsv", "--human", "mqm", "--metrics", "holes", "--exclude-systems", "b")
    assert chosen.returncode == 0
    two = warm("mbr-metaeval", "--table", "t.tsv", "--human", "mqm", "--lp", "en-de", "en-fr")
    assert (two.returncode, "a table holds one language pair" in two.stderr) == (2, True)


def test_own_differences_and_anchors(folder: Path, warm: Run) -> None:
    lines = ["system\tother\tsegment\tscore"]
    scores = {**METRICS["close-refA"], "refA": [6, 6, 6, 6]}
    for one in ("good", "mid", "poor"):
        for other in ("good", "mid", "poor", "refA"):
            if one != other:
                lines += [f"{one}\t{other}\t{s + 1}\t{scores[one][s] - scores[other][s]}" for s in range(4)]
    (folder / "pairs.tsv").write_text("\n".join(lines) + "\n")
    table = json.loads(warm("mbr-metaeval", *SET, "--own", "pairs=pairs.tsv", "--format", "json").stdout)
    rows = {row["metric"]: row for row in table["rows"]}
    for name in ("spa", "acc_eq", "pdp", "segment_pearson", "kendall"):
        assert rows["pairs"][name] == pytest.approx(rows["close"][name])
    anchors = warm("mbr-metaeval", "anchors", *SET, "--own", "pairs=pairs.tsv", "--format", "json")
    assert [row["anchor"] for row in json.loads(anchors.stdout)["rows"]] == ["reference", "good", "mid", "poor"]


def test_choices_as_a_user_sees_them(folder: Path, warm: Run) -> None:
    words = (*SET, "--utility", "chrf", "--draws", "50")
    result = warm("mbr-metaeval", "choice", *words, "--plot", "choice.svg")
    assert result.returncode == 0, result.stderr
    lines = result.stdout.splitlines()
    assert lines[0] == "wmt99 en-de: choices judged by mqm, 3 systems, 3 segments"
    assert lines[2].split() == ["metric", "rank", "choice", "regret", "RRP", "over", "good", "95", "%", "interval"]
    assert [line.split()[0] for line in lines[4:7]] == ["close", "MBR", "blind*"]
    assert "good (best system)" in result.stdout
    assert "few draws (--draws 50): intervals and ranks mean little; give 1000" in result.stderr
    assert "|ref:refA|" in lines[-1]
    assert "No metric without reference chooses better than always taking good." in lines
    assert "not official: wmt99 is not a known test set" in result.stdout
    ET.parse(folder / "choice.svg")
    record = json.loads(warm("mbr-metaeval", "choice", *words, "--format", "json").stdout)
    assert (record["best_system"], record["official"], record["ties"]) == ("good", False, "mean")
    rows = {row["metric"]: row for row in record["rows"]}
    assert (rows["oracle"]["choice_regret"], rows["random"]["choice_regret"]) == pytest.approx((0, 1))
    assert len(record["significance"]["metrics"]) == 3
    tsv = warm("mbr-metaeval", "choice", *words, "--format", "tsv", "--ties", "first").stdout.splitlines()
    assert tsv[0].split("\t")[-4:] == ["rrp", "gain", "gain_low", "gain_high"]
    write_set(folder / "data", lp="en-fr")
    several = ("choice", "--data", "data", "--lp", "en-de", "en-fr", "--draws", "9", "--plot", "both.svg")
    both = json.loads(warm("mbr-metaeval", *several, "--format", "json").stdout)
    assert [part["lp"] for part in both["language_pairs"]] == ["en-de", "en-fr"]
    drawn = ET.parse(folder / "both.svg").getroot()
    assert len([element for element in drawn if element.tag.endswith("svg")]) == 2


def test_an_own_metric_is_a_group_of_its_own_unless_its_reference_is_named(folder: Path, warm: Run) -> None:
    write_scores(folder / "m.score", {name: METRICS["close-refA"][name] for name in ("good", "mid", "poor")})
    words = ("mbr-metaeval", "choice", *SET, "--metrics", "close", "--no-significance")
    for reference, group, name in (
        ("", "own metric", "mine (own)"),
        (",reference=src", "metric without reference", "mine* (own)"),
        (",reference=refB", "metric with a reference", "mine (own)"),
    ):
        lines = warm(*words, "--own", f"mine=m.score{reference}").stdout.splitlines()
        assert f"No {group} chooses better than always taking good." in lines
        assert any(line.startswith(f"{name} ") for line in lines)
        assert any("* compares with no reference" in line for line in lines) == ("src" in reference)


def test_domains_golds_levels_and_clips_as_a_user_sees_them(folder: Path, warm: Run) -> None:
    docs = folder / "data" / "wmt99" / "documents"
    docs.mkdir()
    (docs / "en-de.docs").write_text("news\td1\nsocial\td2\nsocial\td2\nsocial\td3\n")
    words = (*SET, "--statistics", "acc_eq,pdp", "--no-sanity")
    parts = warm("mbr-metaeval", *words, "--domain")
    assert "acc_eq* by domain; annotated segments: news 1, social 2\n" in parts.stdout
    record = json.loads(warm("mbr-metaeval", *words, "--domain", "--format", "json").stdout)
    assert [part["domain"] for part in record["domains"]] == ["news", "social"]
    tsv = [line.split("\t") for line in warm("mbr-metaeval", *words, "--domain", "--format", "tsv").stdout.splitlines()]
    assert tsv[0][:3] == ["metric", "domain", "lp"]
    assert {row[1] for row in tsv[1:]} == {"", "news", "social"}
    one = warm("mbr-metaeval", *words, "--domain", "social", "--clip=-5:", "--level", "document")
    assert one.stdout.startswith(
        "wmt99 en-de domain social clip -5:: agreement with mqm, 3 systems, 2 annotated documents"
    )
    assert "|domain:social|level:document|clip:-5:|" in one.stdout
    golds = warm("mbr-metaeval", *words, "--human", "mqm", "esa")
    assert "acc_eq* by gold; annotated segments: mqm 3, esa 4\n" in golds.stdout
    both = json.loads(warm("mbr-metaeval", *words, "--human", "mqm", "esa", "--format", "json").stdout)
    assert [part["human"] for part in both["golds"]] == ["mqm", "esa"]
    parity = warm("mbr-metaeval", "parity", *SET, "--human", "mqm", "esa", "--no-significance")
    assert "esa (human)" in parity.stdout
    assert "mqm (human)" in parity.stdout


def test_raters_beside_metrics_as_a_user_sees_them(folder: Path, warm: Run) -> None:
    rows = [
        f"{system}\t{segment}\t{rater}\t{place + (rater == 'a')}"
        for place, system in enumerate(("poor", "mid", "good"))
        for segment in (1, 2, 4)
        for rater in "ab"
    ]
    (folder / "psqm.tsv").write_text("system\tseg_id\trater\tscore\n" + "\n".join(rows) + "\n")
    result = warm("mbr-metaeval", "parity", "--ratings", "psqm.tsv", "--groups", "2", *SET, "--no-significance")
    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith("wmt99 en-de: agreement with raters-1, 3 systems, 3 annotated segments")
    assert re.search(r"raters-2 \(human\) +1 ", result.stdout)
    assert re.search(r"close +\d ", result.stdout)
    alone = warm("mbr-metaeval", "parity", "--ratings", "psqm.tsv", "--groups", "2", "--metrics", "close")
    assert (alone.returncode, "--metrics does not go with --ratings, unless" in alone.stderr) == (2, True)


def test_oracles_of_a_folder(folder: Path, warm: Run) -> None:
    rating = '{"errors": [{"category": "Fluency/Grammar", "severity": "minor"}]}'
    path = folder / "data" / "wmt99" / "human-scores" / "en-de.mqm.seg.rating"
    rows = {"good": ['{"errors": []}'] * 4, "mid": [rating] * 4, "poor": [rating] * 4, "refA": ["None"] * 4}
    path.write_text("".join(f"{system}\t{text}\n" for system, texts in rows.items() for text in texts))
    result = warm("mbr-metaeval", "oracle", *SET)
    assert result.returncode == 0
    assert "oracles of error categories, 3 systems, 4 segments" in result.stdout
    assert re.search(r"fluency/grammar +8\.0 +8 +1\.00 +1\.000 +1\.000", result.stdout)


def test_post_edits(folder: Path, warm: Run) -> None:
    for name, texts in (("src", SOURCES), ("mt", OUTPUTS["mid"]), ("pe", OUTPUTS["good"])):
        (folder / name).write_text("\n".join(texts) + "\n")
    result = warm(
        "mbr-metaeval", "post-edits", "--sources", "src", "--before", "mt", "--after", "pe", "--score", "chrf"
    )
    assert result.returncode == 0
    assert "2 items that a post-editor changed (2 others)" in result.stdout
    assert re.search(r"chrf +0\.0 % +0\.0 %", result.stdout)


@pytest.mark.parametrize("task", TASKS)
def test_every_task_has_help_with_examples(run: Run, task: str) -> None:
    result = run("mbr-metaeval", task, "--help")
    assert result.returncode == 0
    assert f"quick start:\n  mbr-metaeval {task} " in result.stdout
    assert "exit codes:" in result.stdout


def test_help_names_every_task(run: Run) -> None:
    text = run("mbr-metaeval", "--help").stdout
    for task in TASKS:
        assert f"\n  {task} " in text


def test_the_real_thing(warm: Run, tmp_path: Path) -> None:
    """The command of the README on the real data: the first row of table 5 and the warning sign of length."""
    folder = DATA / "mt-metrics-eval-v2"
    if not folder.is_dir():
        pytest.skip(f"no {folder}; set MBR_DATA to the folder that holds it")
    result = warm(
        "mbr-metaeval", "--data", folder, "--test-set", "wmt23", "--lp", "en-de", "--human", "mqm", "--format", "json"
    )
    rows = {row["metric"]: row for row in json.loads(result.stdout)["rows"]}
    assert len([row for row in rows.values() if row["kind"] == "metric"]) == 45
    assert round(rows["MetricX-23-QE"]["pdp"], 3) == 0.501
    assert round(rows["length"]["pdp"], 3) == 0.409 > rows["CometKiwi"]["pdp"]
