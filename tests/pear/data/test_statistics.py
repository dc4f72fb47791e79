"""The summary and description of training data."""

from __future__ import annotations

import json

import pytest

from pear.data import (
    describe,
    group,
    sample_pairs,
    summary,
)
from tests.pear.data.files import judged

pytestmark = pytest.mark.one_world


def test_the_summary_counts_and_the_description_shows() -> None:
    groups = group([*judged("s", 0, -5, -5), *judged("t", -10)])
    pairs = sample_pairs(groups, seed=1)
    found = summary(groups, pairs)
    counts = {"groups": 2, "judgments": 4, "pairs": 3, "ties": 1}
    assert found["language_pairs"] == {"en-de": counts}
    assert found["total"] == counts
    assert found["scores"]["mean"] == -5.0
    assert found["scores"]["histogram"][0] == [-10.0, -9.0, 1]
    assert found["scores"]["histogram"][-1] == [-1.0, 0.0, 1]
    assert sum(count for *_, count in found["differences"]["histogram"]) == 3
    assert json.loads(json.dumps(found)) == found
    text = describe(groups, pairs)
    assert "language pair  groups  judgments  pairs  ties\nen-de               2          4      3     1\n" in text
    assert text.count("#" * 40) == 2
    assert describe([], []).endswith("total               0          0      0     0\n")
