"""Lists whose texts repeat, decided with PEAR: what pear-mt 1.1.1 chooses from the list with its copies, and we from
the distinct texts and their counts."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pear
from mbr import rerank
from mbr.utilities import get_utility

TEXTS = ["Ein Hund.", "Der Hund.", "Eine Katze.", "Hund", "Kein Hund.", "Zwei Katzen", "Ein Hund und eine Katze."]
LISTS = [random.Random(seed).choices(TEXTS, k=12) for seed in range(20)]


@pytest.fixture(scope="module")
def metric(ours: Path) -> Any:
    return pear.load_metric(ours)


@pytest.fixture(scope="module")
def utility(ours: Path) -> Any:
    return get_utility("pear", model=ours, device="cpu")


def matrix(metric: Any, texts: list[str], mode: Any) -> Any:
    return pear.pear_utility_matrix(metric, "A dog.", texts, mode=mode, gpus=0, progress_bar=False)


def test_full_decides_as_pear_mt_does_with_the_copies(metric: Any, utility: Any) -> None:
    """Every score of a row has its candidate in the first slot, that against its own copy too."""
    otherwise = 0
    for texts in LISTS:
        theirs = matrix(metric, texts, "full")
        index, expected = pear.select_mbr_hypothesis(theirs)
        decision = rerank("A dog.", texts, utility, strategy="full")
        assert decision.text == texts[index]
        assert decision.expected[decision.ranking[0]] == pytest.approx(expected, abs=1e-5)
        distinct = list(dict.fromkeys(texts))
        assert decision.passes == len(distinct) * (len(distinct) - 1) + sum(texts.count(text) > 1 for text in distinct)
        equal = np.array(texts)[:, None] == np.array(texts)
        otherwise += texts[pear.select_mbr_hypothesis(np.where(equal, 0, theirs))[0]] != decision.text
    assert otherwise  # PEAR(a, a) matters in some of these lists


def test_half_compares_distinct_texts_once_in_the_order_of_their_first_copies(metric: Any, utility: Any) -> None:
    """pear-mt's `half` gives each copy a row of its own, with other orders of the same pairs: choices may differ."""
    equal = 0
    for texts in LISTS:
        distinct = list(dict.fromkeys(texts))
        counts = np.array([texts.count(text) for text in distinct])
        shares = counts - np.eye(len(distinct))  # PEAR(a, a) is 0 by antisymmetry
        expected = (matrix(metric, distinct, "half") * shares).sum(axis=1) / (len(texts) - 1)
        decision = rerank("A dog.", texts, utility, strategy="half")
        np.testing.assert_allclose(decision.expected, expected, atol=1e-5)
        assert decision.passes == len(distinct) * (len(distinct) - 1) // 2
        equal += decision.text == texts[pear.select_mbr_hypothesis(matrix(metric, texts, "half"))[0]]
    assert len(LISTS) / 2 < equal < len(LISTS)  # random weights have a strong order bias


@pytest.mark.parametrize("strategy", ["both", "balanced", "half"])
def test_strategies_without_order_bias_in_their_rows_never_score_a_text_against_itself(
    utility: Any, strategy: str
) -> None:
    decision = rerank("A dog.", LISTS[0], utility, strategy=strategy, keep_matrix=True)
    assert decision.matrix is not None
    assert not decision.matrix.scored.diagonal().any()
    assert not decision.matrix.values.diagonal().any()
