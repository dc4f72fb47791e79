"""Raters in groups: the solver and the search find the same, and small cases are right."""

from __future__ import annotations

from collections import Counter
from itertools import product

import numpy as np
import pytest

from candidates.common.errors import InputError, UsageError
from mbr.metaeval import raters
from mbr.metaeval.raters import disjoint_groups, read_evaluators
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
