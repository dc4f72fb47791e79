"""Judgments grouped, split and sampled as pairs."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import replace

import pytest

from candidates.common.errors import UsageError
from pear.data import (
    Group,
    Judgment,
    Pair,
    group,
    sample_pairs,
    split,
)
from tests.pear.data.files import judged
from tests.pear.training.processes import judged as random_groups

pytestmark = pytest.mark.one_world


def unordered(pairs: list[Pair]) -> set[frozenset[str]]:
    return {frozenset((pair.a, pair.b)) for pair in pairs}


def test_groups_keep_each_text_once_with_its_mean() -> None:
    twice = Judgment("s", "s 0", 3.0, "en-de", system="other", reference="r", words=((1.0,), (2.0,)))
    elsewhere = Judgment("s", "s 0", 9.0, "en-de", document="d")
    first, second = group([*judged("s", 1, 2), twice, elsewhere])
    assert (first.source, first.lp, first.reference) == ("s", "en-de", "r")
    assert [(row.translation, row.score) for row in first.candidates] == [("s 0", 2.0), ("s 1", 2.0)]
    assert first.candidates[0].words == ((1.0,), (2.0,))
    assert second.candidates == (elsewhere,)


def test_a_source_is_never_on_both_sides_and_stays_where_it_was() -> None:
    sources = [f"Sentence {index}" for index in range(2000)]
    groups = group(Judgment(source, "x", 0.0) for source in sources)
    train, dev = split(groups, 0.1, seed=1)
    assert 150 < len(dev) < 250
    assert len(train) + len(dev) == 2000
    shouted = group(Judgment(f" {source.upper()} ", "x", 0.0, "en-ru", document="d") for source in reversed(sources))
    _, dev_shouted = split(shouted, 0.1, seed=1)
    assert {item.source for item in dev_shouted} == {f" {item.source.upper()} " for item in dev}
    _, more = split(groups, 0.2, seed=1)
    assert {item.source for item in dev} < {item.source for item in more}
    assert {item.source for item in split(groups, 0.1, seed=2)[1]} != {item.source for item in dev}
    assert split(groups, 0.0, seed=1) == (groups, [])
    assert split(groups, 1.0, seed=1) == ([], groups)
    with pytest.raises(UsageError, match="dev_share 10"):
        split(groups, 10, seed=1)


def test_training_and_development_share_no_source() -> None:
    groups = random_groups(200, seed=1)
    dressed = [replace(g, source="  ".join(g.source.upper().split()), document="2") for g in groups]
    learned, measured = split([*groups, *dressed], 0.3, seed=1)
    sources = [{" ".join(g.source.casefold().split()) for g in side} for side in (learned, measured)]
    assert not sources[0] & sources[1]
    assert 0.2 < len(measured) / 400 < 0.4


def test_all_pairs_and_their_differences() -> None:
    scores = {"s 0": 0.0, "s 1": -5.0, "s 2": -5.0, "s 3": -1.0}
    pairs = sample_pairs(group(judged("s", *scores.values())), per_source=None, seed=1)
    assert len(pairs) == len(unordered(pairs)) == 6
    assert all(pair.difference == scores[pair.a] - scores[pair.b] for pair in pairs)
    assert sum(pair.difference == 0 for pair in pairs) == 1
    assert {pair.lp for pair in pairs} == {"en-de"}


def test_a_cap_draws_without_repetition_and_both_orders_occur() -> None:
    groups = group([row for index in range(300) for row in judged(f"s{index}", *range(9))])
    pairs = sample_pairs(groups, per_source=5, seed=1)
    assert len(pairs) == 1500
    assert len(unordered(pairs)) == 1500
    assert set(Counter(pair.source for pair in pairs).values()) == {5}
    assert 600 < sum(pair.difference > 0 for pair in pairs) < 900
    drawn = Counter(frozenset((pair.a[-1], pair.b[-1])) for pair in pairs)
    assert len(drawn) == 36  # every pair has its chance
    assert min(drawn.values()) > 15


def test_pairs_hang_on_the_seed_and_the_source_alone() -> None:
    rows = [row for index in range(50) for row in judged(f"s{index}", *range(9))]
    pairs = sample_pairs(group(rows), per_source=3, seed=1)
    assert sorted(pairs, key=repr) == sorted(sample_pairs(group(rows[::-1]), per_source=3, seed=1), key=repr)
    assert pairs[:30] == sample_pairs(group(rows[:90]), per_source=3, seed=1)
    assert pairs != sample_pairs(group(rows), per_source=3, seed=2)


def test_a_reference_can_be_one_more_candidate() -> None:
    groups = group(judged("s", -1, -2, reference="best"))
    pairs = sample_pairs(groups, per_source=9, seed=1, references_as=0.5)
    assert len(pairs) == 3
    best = {
        pair.b if pair.a == "best" else pair.a: abs(pair.difference) for pair in pairs if "best" in (pair.a, pair.b)
    }
    assert best == {"s 0": 1.5, "s 1": 2.5}
    known = group(judged("s", -1, -2, reference="s 1"))
    assert len(sample_pairs(known, per_source=9, seed=1, references_as=0.5)) == 1
    with pytest.raises(UsageError, match="per_source 0"):
        sample_pairs(groups, per_source=0, seed=1)


def test_words_travel_with_their_text() -> None:
    rows = [Judgment("s", "a", 1.0, words=((1.0,),)), Judgment("s", "b", 2.0)]
    (pair,) = sample_pairs(group(rows), per_source=1, seed=1)
    assert {pair.a: pair.words_a, pair.b: pair.words_b} == {"a": ((1.0,),), "b": None}


def test_a_few_pairs_of_long_lists_are_quick() -> None:
    rows = tuple(judged("s", *range(1000)))
    groups = [Group("s", "en-de", str(index), "", None, rows) for index in range(50)]
    began = time.process_time()
    assert len(sample_pairs(groups, per_source=4, seed=1)) == 200
    assert time.process_time() - began < 1  # 25 million pairs there are
