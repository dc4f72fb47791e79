"""Reading test sets, tables and one's own scores."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from candidates.common.errors import InputError, MbrError, UsageError
from mbr.metaeval import find_test_set, read_folder, read_own, read_study
from tests.mbr.metaeval.made import METRICS, write_scores, write_set

pytestmark = pytest.mark.one_world


def test_a_folder_gives_systems_and_metrics_as_the_official_results(tmp_path: Path) -> None:
    scores = read_folder(find_test_set(write_set(tmp_path), "wmt99"), "en-de", "mqm")
    assert scores.systems == ("good", "mid", "poor")
    assert (scores.name, scores.lp, scores.reference, scores.annotated) == ("wmt99", "en-de", "refA", 3)
    assert scores.segments == ("1", "2", "3", "4")
    assert [(one.name, one.reference, one.segments is None) for one in scores.metrics] == [
        ("blind", "src", False),
        ("close", "refA", False),
        ("whole", "refA", True),
    ]
    assert np.isnan(scores.gold[:, 2]).all()
    assert scores.metric("close").segments is not None
    assert scores.metric("close").segments.tolist() == [METRICS["close-refA"][name] for name in scores.systems]  # type: ignore[union-attr]
    assert scores.texts is not None
    assert scores.texts.outputs[2] == ["Hund", "Zwei", "Regen", "Nichts"]
    assert scores.notes[0] == "not among the systems (references): refA, refB"
    assert scores.notes[1] == "holes is left out: 1 translation that people scored has no score; expected a number"
    assert scores.notes[2].startswith("partial is left out: ")
    assert scores.notes[2].endswith("no score of poor; expected one of every system that people scored")


def test_choices_in_a_folder(tmp_path: Path) -> None:
    folder = write_set(tmp_path) / "wmt99"
    other = read_folder(folder, "en-de", reference="refB")
    assert [one.name for one in other.metrics] == ["blind", "close"]
    assert other.metric("close").segments is not None
    assert other.metric("close").segments[0].tolist() == [1, 1, 1, 1]  # type: ignore[index]
    people = read_folder(folder, "en-de", human_systems=True)
    assert people.systems == ("good", "mid", "poor", "refB")
    assert [one.name for one in people.metrics] == ["close"]
    named = read_folder(folder, "en-de", metrics=["close-refB", "blind"])
    assert [(one.name, one.reference) for one in named.metrics] == [("blind", "src"), ("close-refB", "refB")]
    beside = read_folder(folder, "en-de", evaluators=["esa"])
    assert (beside.metrics[0].name, beside.metrics[0].kind) == ("esa", "human")


def test_of_two_metrics_of_one_name_the_one_without_reference_keeps_its_suffix(tmp_path: Path) -> None:
    folder = write_set(tmp_path) / "wmt99"
    write_scores(folder / "metric-scores" / "en-de" / "close-src.seg.score", METRICS["blind-src"])
    names = [one.name for one in read_folder(folder, "en-de").metrics]
    assert names == ["blind", "close", "close-src", "whole"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"lp": "en-fr"}, "no sources/en-fr.txt; found en-de"),
        ({"human": "da"}, "no human scores en-de.da.seg.score; found esa, mqm"),
        ({"reference": "refC"}, "no reference 'refC' for en-de; found refA, refB"),
        ({"metrics": ["BLEU"]}, "no metric 'BLEU'; found blind, close"),
        ({"metrics": ["partial"]}, "no score of poor; expected one of every system"),
        ({"evaluators": ["sqm"]}, "no human scores en-de.sqm.seg.score"),
    ],
)
def test_what_a_folder_does_not_have(tmp_path: Path, options: dict[str, object], message: str) -> None:
    folder = write_set(tmp_path) / "wmt99"
    with pytest.raises(MbrError, match=message):
        read_folder(folder, **{"lp": "en-de", **options})  # type: ignore[arg-type]


def test_finding_a_test_set(tmp_path: Path) -> None:
    root = write_set(tmp_path)
    assert find_test_set(root, None) == find_test_set(root, "wmt99") == root / "wmt99"
    assert find_test_set(root / "wmt99", None) == find_test_set(root / "wmt99", "wmt99") == root / "wmt99"
    with pytest.raises(InputError, match="no test set 'wmt98'; found wmt99"):
        find_test_set(root, "wmt98")
    with pytest.raises(InputError, match="no such folder"):
        find_test_set(root / "nowhere", None)
    write_set(root, "wmt98")
    with pytest.raises(UsageError, match="has the test sets wmt98, wmt99; choose one"):
        find_test_set(root, None)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("good 1.0", "expected system<TAB>score, found 'good 1.0'"),
        ("good\tnan", "score 'nan' is not finite"),
        ("good\tx", "score 'x' is not a number"),
        ("good\t1.0\ngood\t1.0\ngood\t1.0\ngood\t1.0\ngood\t1.0", "more scores of good than the 4 sources"),
        ("good\t1.0", "1 score of good, but 4 sources; was it cut off?"),
        ("", "empty; expected lines"),
    ],
)
def test_broken_human_scores_are_told_with_their_place(tmp_path: Path, line: str, message: str) -> None:
    folder = write_set(tmp_path) / "wmt99"
    (folder / "human-scores" / "en-de.mqm.seg.score").write_text(line + "\n" if line else "")
    with pytest.raises(InputError, match=message):
        read_folder(folder, "en-de", "mqm")


def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    folder = write_set(tmp_path) / "wmt99"
    (folder / "metric-scores" / "en-de" / "close-refA.seg.score").write_bytes(b"good\t\xff\n")
    with pytest.raises(InputError, match="line 1, byte 6: 0xff is not valid UTF-8"):
        read_folder(folder, "en-de", metrics=["close"])


STUDY = """\
system\tsegment\tmqm\tesa\tmetric
a\t0\t-1\t80\t.5
a\t1\t-2\tNone\t.4
b\t0\t-3\t70\t.2
b\t1\tNone\t\t.1
c\t0\tNone\t1\t1
c\t1\tNone\t1\t1
"""


def test_a_table_of_columns(tmp_path: Path) -> None:
    path = tmp_path / "study.tsv"
    path.write_text(STUDY)
    scores = read_study(path, "mqm")
    assert (scores.name, scores.systems, scores.segments, scores.dropped) == ("study", ("a", "b"), ("0", "1"), ("c",))
    np.testing.assert_array_equal(scores.gold, [[-1, -2], [-3, np.nan]])
    assert [one.name for one in scores.metrics] == ["esa", "metric"]
    np.testing.assert_array_equal(scores.metric("esa").segments, [[80, np.nan], [70, np.nan]])
    records = []
    for line in STUDY.splitlines()[1:]:
        system, segment, mqm, esa, metric = line.split("\t")
        numbers = {"mqm": None if mqm == "None" else float(mqm), "metric": float(metric)}
        records.append(
            {"system": system, "segment": int(segment), **numbers, **({"esa": float(esa)} if esa.isdecimal() else {})}
        )
    (tmp_path / "study.jsonl").write_text("".join(json.dumps(one) + "\n" for one in records))
    same = read_study(tmp_path / "study.jsonl", "mqm", metrics=["metric"])
    np.testing.assert_array_equal(same.gold, scores.gold)
    assert [one.name for one in same.metrics] == ["metric"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("system\tmqm\na\t1\n", "no 'segment' among"),
        ("system\tsegment\tmqm\na\t1\tNaN\n", "mqm 'NaN' is not finite"),
        ("system\tsegment\tmqm\na\t1\t1\na\t1\t2\n", "a second row of system 'a' and segment '1'"),
        ("system\tsegment\tesa\na\t1\t1\n", "no column 'mqm'; found esa"),
        ("system\tsegment\tmqm\na\t1\tNone\n", "the column 'mqm' has no score"),
        ("system\tsegment\tother\tmqm\na\t1\tb\t1\n", "makes this a pairwise metric"),
        ("system\tsegment\tmqm\n\t1\t1\n", "system '' is no name"),
    ],
)
def test_broken_tables(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "study.tsv"
    path.write_text(text)
    with pytest.raises(MbrError, match=message):
        read_study(path, "mqm")


def test_own_scores_in_every_form(tmp_path: Path) -> None:
    known = read_folder(write_set(tmp_path) / "wmt99", "en-de")
    expected = known.metric("close").segments
    own = {name: METRICS["close-refA"][name] for name in ("poor", "good", "mid")}
    plain = write_scores(tmp_path / "own.seg.score", own)
    rows = [(system, str(place), score) for system, found in own.items() for place, score in enumerate(found, 1)]
    table = tmp_path / "own.tsv"
    table.write_text("segment\tsystem\tscore\n" + "".join(f"{n}\t{system}\t{score}\n" for system, n, score in rows))
    from_zero = tmp_path / "zero.jsonl"
    from_zero.write_text(
        "".join(
            json.dumps({"system": system, "segment": int(n) - 1, "mine": score}) + "\n" for system, n, score in rows
        )
    )
    for path in (plain, table, from_zero):
        found = read_own("mine", path, known)
        np.testing.assert_array_equal(found.segments, expected)
        assert found.kind == "own"


def test_own_differences(tmp_path: Path) -> None:
    known = read_folder(write_set(tmp_path) / "wmt99", "en-de")
    scores = known.metric("close").segments
    assert scores is not None
    lines = ["system\tother\tsegment\tscore"]
    for i, one in enumerate(known.systems):
        for j, other in enumerate(known.systems):
            if i < j:  # one order is enough
                lines += [f"{one}\t{other}\t{s + 1}\t{scores[i, s] - scores[j, s]}" for s in (0, 1, 3)]
        lines += [f"{one}\trefA\t{s + 1}\t{scores[i, s] - 5}" for s in (0, 1, 3)]
    path = tmp_path / "own.tsv"
    path.write_text("\n".join(lines) + "\n")
    found = read_own("mine", path, known)
    known.with_metrics(found)
    assert found.differences is not None
    assert found.to_reference is not None
    np.testing.assert_array_equal(found.differences[0, 2, [0, 1, 3]], scores[0, [0, 1, 3]] - scores[2, [0, 1, 3]])
    np.testing.assert_array_equal(found.differences, -found.differences.transpose(1, 0, 2))
    np.testing.assert_array_equal(found.to_reference[:, 3], scores[:, 3] - 5)
    path.write_text("\n".join(lines[:4]) + "\n")
    with pytest.raises(
        InputError, match=r"own.tsv: no score of good and poor in segment 1, the first gap; mine lacks 6 pairs of"
    ):
        read_own("mine", path, known)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "empty; expected scores"),
        ("good\t1\n", "1 score of good, but there are 4 segments: segment 2 is the first without one"),
        ("good\t1\n" * 5, "5 scores of good, but there are 4 segments; expected one each"),
        ("good\t1\t2\n", "a table has a header with system and segment"),
        ("mid\t1\nmid\t1\nmid\t1\nmid\t1\n", "no score of good"),
        ("system\tsegment\tscore\ngood\t9\t1\n", "segment '9' is unknown; there are 1 to 4"),
        ("system\tsegment\tx\ty\ngood\t1\t1\t2\n", "which of the columns x, y is mine"),
        ("system\tsegment\tscore\ngood\t1\tinf\n", "score 'inf' is not finite"),
        ("system\tsegment\tscore\ngood\t1\t1e308\n", "score '1e308' is too large"),
        ("system\tsegment\tscore\ngood\t1\t1\ngood\t1\t2\n", "line 3: a second row for the same scores as line 2"),
        (
            "system\tsegment\tother\tscore\ngood\t1\tmid\t1\ngood\t1\tmid\t2\n",
            "a second row for the same scores as line 2",
        ),
        ("system\tsegment\tother\tx\ty\ngood\t1\tmid\t1\t1\n", "which of the columns x, y is mine"),
        ("system\tsegment\tscore\tscore\ngood\t1\t1\t2\n", "two columns are called 'score'"),
    ],
)
def test_broken_own_scores(tmp_path: Path, text: str, message: str) -> None:
    known = read_folder(write_set(tmp_path) / "wmt99", "en-de")
    path = tmp_path / "own.tsv"
    path.write_text(text)
    with pytest.raises(MbrError, match=message):
        read_own("mine", path, known)


def test_own_scores_that_lack_an_annotated_translation_are_refused(tmp_path: Path) -> None:
    known = read_folder(write_set(tmp_path) / "wmt99", "en-de")
    own = {name: [*METRICS["close-refA"][name]] for name in known.systems}
    own["mid"][2] = "None"  # type: ignore[call-overload]
    known.with_metrics(read_own("fine", write_scores(tmp_path / "a.seg.score", own), known))  # nobody annotated it
    own["mid"][3] = "None"  # type: ignore[call-overload]
    message = "b.seg.score: no score of mid in segment 4, the first gap; mine lacks 1 translation that people scored"
    with pytest.raises(InputError, match=message):
        read_own("mine", write_scores(tmp_path / "b.seg.score", own), known)
