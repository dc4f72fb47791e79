"""MQM errors become scores; official scores are the independent source."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from pear.data import (
    Judgment,
    gemba_score,
    group,
    mqm_weight,
    read_judgments,
)
from tests.conftest import write_jsonl
from tests.pear.data.files import MQM_HEADER, write_tsv

pytestmark = pytest.mark.one_world


def test_mqm_rows_add_up_per_rater_and_lose_their_marks(tmp_path: Path) -> None:
    path = write_tsv(
        tmp_path / "mqm_news_ende.tsv",
        MQM_HEADER,
        "A|d|1|r1|A <v>dog</v>.|Ein Hund.|Accuracy/Omission|Major",
        "B|d|1|r1|A dog.|<v>Katze</v>.|Accuracy/Mistranslation|Minor",
        "A|d|1|r2|A dog.|Ein Hund.|No-error|No-error",
        "A|d|1|r1|A dog.|Ein Hund<v>.</v>|Fluency/Punctuation|Minor",
        "B|d|1|r1|A dog.|<v>Katze.</v>|Non-translation!|Major",
    )
    assert list(read_judgments(path)) == [
        Judgment("A dog.", "Ein Hund.", -5.1, "en-de", "A", "d", "1", "r1"),
        Judgment("A dog.", "Katze.", -26.0, "en-de", "B", "d", "1", "r1"),
        Judgment("A dog.", "Ein Hund.", 0.0, "en-de", "A", "d", "1", "r2"),
    ]


@pytest.mark.parametrize(
    ("severity", "category", "weight"),
    [
        ("Major", "Accuracy/Omission", 5),
        ("minor", "Style/Awkward", 1),
        ("Minor", "Fluency/Punctuation", 0.1),
        ("Major", "Fluency/Punctuation", 5),
        ("Major", "Non-translation!", 25),
        ("Neutral", "Style/Awkward", 0),
        ("No-error", "No-error", 0),
        ("Major", "Source issue", 0),
        ("Minor", "Accuracy/Creative Reinterpretation", 0),
        ("HOTW-test", "Found", 0),
    ],
)
def test_weights_of_errors(severity: str, category: str, weight: float) -> None:
    assert mqm_weight(severity, category) == weight


def test_weights_are_those_of_the_official_scores(wmt23: Path) -> None:
    """19,569 errors and the 5,980 segment scores of WMT23 en-de."""

    def column(name: str) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for line in (wmt23 / "human-scores" / f"en-de.mqm.{name}").read_text(encoding="utf-8").splitlines():
            system, value = line.split("\t")
            found.setdefault(system, []).append(value)
        return found

    ratings, scores, checked = column("merged.seg.rating"), column("seg.score"), 0
    for system, values in scores.items():
        for rating, score in zip(ratings[system], values, strict=True):
            if score != "None":
                errors = json.loads(rating)["errors"]
                total = sum(mqm_weight(error["severity"], error["category"]) for error in errors)
                assert total == pytest.approx(-float(score))
                checked += 1
    assert checked == 5980


def test_side_by_side_systems_are_grouped_as_they_were_shown(tmp_path: Path) -> None:
    def rows(system: str, *times: int) -> list[str]:
        times_there = json.dumps({"timing": {"x": {"log": [{"ts": time} for time in times]}}})
        return [f"{system}|d:en-de|1|{rater}|A dog.|{system} Hund.|No-error|No-error|{times_there}" for rater in "rs"]

    path = write_tsv(
        tmp_path / "sxs.tsv",
        "system|doc|globalSegId|rater|source|target|category|severity|metadata|# a remark",
        *rows("A", 1, 3),
        *rows("C", 11, 13),
        *rows("B", 2, 4),
        *rows("D", 12, 14),
    )
    groups = group(read_judgments(path))
    assert [[row.system for row in item.candidates] for item in groups] == [["A", "B"], ["C", "D"]]
    assert {item.lp for item in groups} == {"en-de"}


def test_side_by_side_without_times_is_one_comparison(tmp_path: Path) -> None:
    rows = [f"{system}|d|1|r|A dog.|{system} Hund.|No-error|No-error" for system in "ABC"]
    (item,) = group(read_judgments(write_tsv(tmp_path / "sxs.tsv", MQM_HEADER, *rows)))
    assert len(item.candidates) == 3


@pytest.mark.parametrize(
    ("errors", "score"),
    [
        ([], 0),
        ([{"severity": "major", "category": "accuracy/omission", "span": "x"}, {"severity": "minor"}], -6),
        ({"critical": [], "major": ['accuracy/omission - "x"'], "minor": [{"class": "style"}, "no-error"]}, -6),
        ([{"severity": "critical", "category": "accuracy"}], -25),
        ({"minor": ["non-translation"]}, -25),
        ([{"severity": "minor", "category": "fluency/punctuation"}], -0.1),
        ({"minor": ["style/awkward"] * 9}, -5),
        ({"major": ["style/awkward"] * 5, "critical": ["other"]}, -25),
    ],
)
def test_gemba_errors_become_a_score(tmp_path: Path, errors: Any, score: float) -> None:
    assert gemba_score(errors) == score
    path = write_jsonl(tmp_path / "x.jsonl", [{"src": "A dog.", "mt": "Hund", "lp": "en-de", "errors": errors}])
    assert list(read_judgments(path)) == [Judgment("A dog.", "Hund", score, "en-de")]


@pytest.mark.parametrize(
    ("name", "lp", "rows", "groups"),
    [
        ("en-de-mqm.2021.csv", "en-de", 6851, 527),
        ("en-de-mqm.2021-ted.csv", "en-de", 7878, 598),
        ("en-de-mqm.2022_dev.csv", "en-de", 1005, 1005),
        ("en-ru-mqm.2021-ted.csv", "en-ru", 8250, 504),
        ("zh-en-mqm.2021-ted.csv", "zh-en", 6877, 529),
    ],
)
def test_the_wmt_tables(wmt_mqm: Path, name: str, lp: str, rows: int, groups: int) -> None:
    found = list(read_judgments(wmt_mqm / name))
    assert len(found) == rows
    assert {row.lp for row in found} == {lp}
    assert len(group(found)) == groups


def test_the_ted_errors_add_up(wmt_mqm: Path) -> None:
    path = wmt_mqm / "mqm_ted_ende.tsv"
    found = list(read_judgments(path))
    assert len(found) == 529 * 14  # segments, systems; one rater each
    assert not any("<v>" in row.source + row.translation for row in found)
    text = path.read_text(encoding="utf-8")
    major, minor, comma = (text.count(part) for part in ("\tMajor\t", "\tMinor\t", "\tFluency/Punctuation\tMinor\t"))
    assert sum(row.score for row in found) == pytest.approx(-(5 * major + minor - 0.9 * comma))


def test_the_side_by_side_ratings(wmt_mqm: Path) -> None:
    found = list(read_judgments(wmt_mqm / "sxs_mqm_generalMT2023_ende.3ratingsPerSegment.tsv.tar.gz"))
    assert len(found) == 104 * 3 * 10  # segments, raters, systems
    assert {row.lp for row in found} == {"en-de"}
    shown = {tuple(row.document.split(" ", 1)[1].split(" + ")) for row in found}
    assert shown == {
        ("GPT4-5shot_with_ONLINE-W", "ONLINE-W"),
        ("GPT4-5shot_with_refA", "refA"),
        ("Lan-BridgeMT", "NLLB_MBR_BLEU"),
        ("ONLINE-A", "ONLINE-Y"),
        ("ONLINE-G", "ONLINE-M"),
    }
    assert Counter(len(item.candidates) for item in group(found)) == {2: 510, 1: 10}
