"""Lists of thousands of candidates: a pair takes a few bytes, blocks change nothing, and there is a limit."""

from __future__ import annotations

import random
import string
import tracemalloc
from typing import Any

import numpy as np
import pytest

import mbr
from candidates import CandidateList
from candidates.common.errors import ResourceError
from mbr import matrix, pipeline
from mbr.utilities import get_utility, ngrams
from tests.mbr.compare.made import Counting

pytestmark = pytest.mark.one_world


def many(count: int, *, seed: int = 1) -> CandidateList:
    draw = random.Random(seed)
    texts = [" ".join(draw.choices(string.ascii_lowercase, k=5)) for _ in range(count)]
    return CandidateList.of("s", texts)


def decide(item: CandidateList, **settings: Any) -> mbr.Decision:
    (decision,) = mbr.decode([item], **settings)
    return decision


@pytest.mark.parametrize("name", ["chrf", "chrf++", "bleu", "ter"])
def test_tiles_of_a_matrix_are_parts_of_it(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    utility, texts = get_utility(name), many(40).texts
    same, apart = utility.matrix("", texts, texts), utility.matrix("", texts[:25], texts[20:])
    for cells in (170, 1000):
        monkeypatch.setattr(matrix, "BLOCK_CELLS", cells)
        assert np.array_equal(utility.matrix("", texts, texts), same)
        assert np.array_equal(utility.matrix("", texts[:25], texts[20:]), apart)


@pytest.mark.parametrize(
    "settings",
    [{"utility": "chrf"}, {"utility": Counting(), "strategy": "full"}, {"utility": "bleu", "self_rule": "include"}],
)
def test_blocks_of_rows_change_no_decision(settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    item = many(40)
    whole = decide(item, **settings)
    monkeypatch.setattr(matrix, "BLOCK_CELLS", 300)
    parts = decide(item, **settings)
    assert parts.ranking == whole.ranking
    np.testing.assert_array_equal(parts.expected, whole.expected)
    assert parts.certainty.rho == pytest.approx(whole.certainty.rho, rel=1e-12)
    assert parts.certainty.tau == whole.certainty.tau or parts.certainty.tau == pytest.approx(whole.certainty.tau)


def test_a_large_list_takes_a_few_bytes_per_pair(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matrix, "BLOCK_CELLS", 90_000)
    monkeypatch.setattr(ngrams, "BLOCK_CELLS", 900_000)
    item = many(1000)
    tracemalloc.start()
    try:
        decide(item, utility="chrf")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < (pipeline.BYTES_PER_PAIR + 10) * len(item) ** 2  # the rest is that of the single texts


def test_a_list_that_no_memory_holds_is_refused_before_any_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline, "memory_bytes", lambda: 100_000)
    with pytest.raises(ResourceError, match=r"the pairs of 100 candidates take about 0.0 GiB.*--strategy aggregate"):
        decide(many(100), utility="chrf")
    assert len(decide(many(100), utility="chrf", strategy="aggregate").ranking) == 100
    assert len(decide(many(80), utility="chrf").ranking) == 80
