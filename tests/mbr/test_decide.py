from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from candidates import Candidate, CandidateList
from candidates.common.errors import InputError
from mbr import decode, rerank
from mbr.decide import ReferenceWeights, expected_utility, rank
from tests.mbr.made import Biased


def plain_expected(values: np.ndarray, entries: list[int], weights: list[float], self_rule: str) -> list[float]:
    """The definition on the list with duplicates written out: entry k is a copy of text entries[k]."""
    result = []
    for i in range(len(values)):
        own = entries.index(i)
        used = [k for k in range(len(entries)) if self_rule == "include" or k != own]
        total = sum(weights[k] for k in used)
        result.append(sum(weights[k] * values[i, entries[k]] for k in used) / total)
    return result


@given(st.lists(st.integers(0, 3), min_size=1, max_size=9), st.sampled_from(["include", "exclude"]))
def test_counts_mean_the_list_with_duplicates_written_out(extra: list[int], self_rule: str) -> None:
    entries = [0, 1, 2, 3, *extra]
    values = np.random.default_rng(len(extra)).normal(size=(4, 4))
    counts = np.array([entries.count(i) for i in range(4)], float)
    found = expected_utility(values, counts, counts, self_rule)  # type: ignore[arg-type]
    np.testing.assert_allclose(found, plain_expected(values, entries, [1.0] * len(entries), self_rule), rtol=1e-6)


def test_exclude_divides_by_the_rest_and_include_by_all() -> None:
    values = np.array([[100.0, 40.0, 20.0], [30.0, 100.0, 10.0], [20.0, 10.0, 100.0]])
    ones = np.ones(3)
    assert expected_utility(values, ones, ones).tolist() == [30.0, 20.0, 15.0]
    np.testing.assert_allclose(expected_utility(values, ones, ones, "include"), [160 / 3, 140 / 3, 130 / 3])


def test_one_candidate_with_all_the_probability_leaves_the_others_comparable() -> None:
    item = CandidateList.of("s", [Candidate("a", -1.0), Candidate("b", -5000.0), Candidate("c", -5001.0)])
    weights = ReferenceWeights("logprob").of(item)
    values = np.array([[0.0, 1.0, 2.0], [-1.0, 0.0, 1.0], [-2.0, -1.0, 0.0]])
    expected = expected_utility(values, weights, np.ones(3))
    assert np.isfinite(expected).all()
    assert expected[0] > 1.0


def test_kinds_of_weights() -> None:
    item = CandidateList.of("s", [Candidate("a", math.log(0.2), 3), Candidate("b", math.log(0.1))])
    assert ReferenceWeights("count").of(item).tolist() == [3, 1]
    assert ReferenceWeights("uniform").of(item).tolist() == [1, 1]
    np.testing.assert_allclose(ReferenceWeights("logprob").of(item), [2 / 3, 1 / 3])


def test_missing_logprobs_are_an_input_error_that_names_the_segment() -> None:
    with pytest.raises(InputError, match="segment 'x'.*no log-probability"):
        ReferenceWeights("logprob").of(CandidateList.of("s", [Candidate("a", -1.0), Candidate("b")], id="x"))


def test_ties_go_to_the_earlier_candidate() -> None:
    assert rank(np.array([1.0, 3.0, 3.0, 2.0, 3.0])) == (1, 2, 4, 3, 0)


class Broken(Biased):
    def score_pairs(self, triples: Sequence[tuple[str, str, str]]) -> Any:
        return np.full(len(triples), np.nan, np.float32)


@pytest.mark.parametrize("strategy", ["full", "both", "half", "balanced", "race", "halving", "prune"])
@pytest.mark.parametrize("size", [1, 2, 3, 12])
def test_what_is_not_known_of_a_decision_is_null(strategy: str, size: int) -> None:
    record = rerank("s", [f"text {k}" for k in range(size)], Biased(), strategy=strategy).record()
    for name in ("estimated_regret", "contenders", "rho", "tau"):
        assert record[name] is None or np.isfinite(record[name])
    one_order = strategy not in ("full", "both") and size > 1
    if strategy in ("half", "balanced") or size < 4:
        assert record["estimated_regret"] == (None if one_order else 0)
        assert record["contenders"] == (None if one_order else 1)
    if size == 1:
        assert (record["rho"], record["tau"], record["flags"]) == (None, None, ["single"])


def test_nothing_is_known_of_a_decision_that_failed_or_of_an_aggregate() -> None:
    (failed,) = decode([CandidateList.of("s", ["a", "b"])], Broken(), on_error="fallback")
    for record in (failed.record(), rerank("s", ["a b c", "a b d"], "chrf", strategy="aggregate").record()):
        assert [record[name] for name in ("estimated_regret", "contenders", "rho", "tau")] == [None] * 4
