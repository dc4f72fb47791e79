"""Raters in groups: the solver and the search find the same, and small cases are right."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from candidates.common.errors import InputError, UsageError
from mbr.metaeval import Scores, ScoreSet, Texts, human_parity, raters
from mbr.metaeval.raters import beside_metrics, disjoint_groups, read_evaluators, together
from mbr.metaeval.ratings import read_rating_table
from pear.data import Judgment

pytestmark = pytest.mark.one_world


def test_a_case_by_hand() -> None:
    """a and b share two segments, c comes with a once; two groups keep all but the one where only a judged."""
    found, kept = disjoint_groups({1: {"a", "b"}, 2: {"a", "b"}, 3: {"a", "c"}, 4: {"a"}}, 2)
    assert kept == [1, 2, 3]
    assert found.segments == 3
    assert set(found.groups) == {frozenset("a"), frozenset("bc")}


def test_the_solver_finds_what_the_search_finds() -> None:
    random = np.random.default_rng(1)
    for groups, people in ((2, 5), (3, 6)):
        for _ in range(6):
            segments = {
                n: frozenset(random.choice(people, size=int(random.integers(1, 5)), replace=False)) for n in range(30)
            }
            named = {n: {f"r{one}" for one in found} for n, found in segments.items()}
            cases = Counter(frozenset(found) for found in named.values() if len(found) >= groups)
            everybody = sorted({rater for case in cases for rater in case})
            tried = raters._tried(cases, everybody, groups)
            solved = raters._solved(cases, everybody, groups)
            best = max(
                sum(
                    count
                    for case, count in cases.items()
                    if set(range(groups))
                    <= {place for name, place in zip(everybody, places, strict=True) if name in case}
                )
                for places in product(range(groups + 1), repeat=len(everybody))
            )
            assert tried.segments == solved.segments == best
            for grouping in (tried, solved):
                assert sum(len(group) for group in grouping.groups) == len(frozenset().union(*grouping.groups))


def test_evaluators_are_made_of_groups() -> None:
    rows = []
    for segment, people in (("1", "ab"), ("2", "ab"), ("3", "abc"), ("4", "a")):
        for rater in people:
            for place, system in enumerate(("x", "y")):
                score = -float(ord(rater) - ord("a")) - place
                rows.append(Judgment("s", "t", score, system=system, document="d", segment=segment, rater=rater))
    rows.append(Judgment("s", "t", -9.0, system="x", document="d", segment="4", rater="b"))  # not of all systems
    scores = read_evaluators(rows, 2)
    assert (scores.systems, scores.segments) == (("x", "y"), ("d:1", "d:2", "d:3"))
    assert scores.gold.tolist() == [[0, 0, 0], [-1, -1, -1]]
    (other,) = scores.metrics
    assert other.segments is not None
    assert (other.name, other.kind) == ("raters-2", "human")
    assert other.segments[:, 0].tolist() == [-1, -2]
    assert other.segments[0, 2] == -1  # c is not needed
    assert scores.notes[0].startswith("3 of 4 segments have a rater of each of 2 disjoint groups: raters-1 is a;")
    with pytest.raises(UsageError, match="no system 'z'; there are x, y"):
        read_evaluators(rows, 2, without=["z"])


def test_too_few_raters() -> None:
    with pytest.raises(UsageError, match="1 groups of raters; expected at least 2"):
        disjoint_groups({1: {"a"}}, 1)
    with pytest.raises(InputError, match="no segment has 2 raters"):
        disjoint_groups({1: {"a"}, 2: {"b"}}, 2)


RATINGS = [("1", "ab"), ("2", "ab"), ("3", "bc")]


def rating_rows(columns: tuple[str, ...], scale: float) -> list[dict[str, object]]:
    """Three systems, three segments; a rater's level is their letter."""
    return [
        dict(zip(columns, (system, segment, rater, scale * (ord(rater) - 97 - place)), strict=True))
        for segment, people in RATINGS
        for rater in people
        for place, system in enumerate("xyz")
    ]


@pytest.mark.parametrize(
    ("file", "columns"),
    [
        ("psqm.tsv", ("system", "seg_id", "rater", "score")),
        ("esa.csv", ("system", "segment_id", "annotator", "score")),
        ("esa.jsonl", ("system", "line_id", "user", "overall")),
    ],
)
def test_any_table_of_ratings(tmp_path: Path, file: str, columns: tuple[str, ...]) -> None:
    path, rows = tmp_path / file, rating_rows(columns, 1.0)
    if file.endswith(".jsonl"):
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    else:
        mark = "," if file.endswith(".csv") else "\t"
        path.write_text("\n".join([mark.join(columns), *(mark.join(map(str, row.values())) for row in rows)]) + "\n")
    judgments = list(read_rating_table(path))
    assert (len(judgments), judgments[0].rater, judgments[0].segment) == (18, "a", "1")
    made = read_evaluators(judgments, 2, name="esa")
    assert (made.human.name, made.segments, made.systems) == ("esa-1", ("1", "2", "3"), ("x", "y", "z"))
    assert made.texts is None
    np.testing.assert_array_equal(made.metrics[0].segments, [[1, 1, 1], [0, 0, 0], [-1, -1, -1]])  # b
    np.testing.assert_array_equal(made.gold, [[0, 0, 2], [-1, -1, 1], [-2, -2, 0]])  # a, and c where a is not
    path.write_text("system\tseg_id\tscore\nx\t1\t5\n" if file.endswith("tsv") else path.read_text())
    if file.endswith("tsv"):
        with pytest.raises(InputError, match="no column rater or annotator"):
            list(read_rating_table(path))


def test_evaluators_of_several_tables_and_metrics_beside_them(tmp_path: Path) -> None:
    rows = rating_rows(("system", "segment", "rater", "score"), 1.0)
    judgments = [
        Judgment(
            "",
            "",
            float(str(row["score"])),
            system=str(row["system"]),
            segment=str(row["segment"]),
            rater=str(row["rater"]),
        )
        for row in rows
    ]
    mqm = read_evaluators(judgments, 2, name="mqm")
    psqm = read_evaluators([one for one in judgments if one.segment != "1"], 2, name="psqm")
    both = together([mqm, psqm])
    assert (both.segments, both.human.name) == (("2", "3"), "mqm-1")
    assert [one.name for one in both.metrics] == ["mqm-2", "psqm-1", "psqm-2"]
    metric = np.arange(12.0).reshape(4, 3)
    scores = ScoreSet(
        "set",
        "en-de",
        Scores("", np.zeros((4, 3))),
        ("w", "x", "y", "z"),
        ("1", "2", "3"),
        (Scores("metric", metric),),
    )
    beside = beside_metrics(both, scores)
    assert beside.systems == ("x", "y", "z")
    np.testing.assert_array_equal(beside.metric("metric").segments, metric[1:, 1:])
    np.testing.assert_array_equal(beside.gold, both.gold)
    table = human_parity(beside, significance=False)
    assert {row.metric for row in table.rows if row.kind == "human"} == {"psqm-1", "mqm-2", "psqm-2"}
    other = read_evaluators([replace(one, system=one.system.upper()) for one in judgments], 2)
    with pytest.raises(InputError, match="share 0 systems"):
        together([mqm, other])
    with pytest.raises(InputError, match="expected at least two of the same name"):
        beside_metrics(other, scores)
    with pytest.raises(InputError, match="ratings of segment '3' have no place"):
        beside_metrics(both, scores.columns(np.array([0, 1])))


def test_segments_are_matched_by_their_source() -> None:
    judgments = [
        Judgment(source, "t", float(score), system=system, document="d", segment=segment, rater=rater)
        for segment, source in (("7", "A dog."), ("3", "Yes."))
        for rater in "ab"
        for score, system in enumerate("xy")
    ]
    people = read_evaluators(judgments, 2)
    texts = Texts(["Yes.", "A dog.", "Yes."], [["", "", ""], ["", "", ""]])
    metric = Scores("metric", np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]))
    scores = ScoreSet("s", "", Scores("", np.zeros((2, 3))), ("x", "y"), ("1", "2", "3"), (metric,), texts)
    found = beside_metrics(people, scores).metric("metric").segments
    np.testing.assert_array_equal(found, [[2, 3], [5, 6]])  # the second "Yes." is segment 3
