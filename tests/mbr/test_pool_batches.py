"""Requests scored in batches, and conversations that leave before their end: what a service needs of the pool."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import pytest

from candidates import CandidateList
from candidates.common.errors import ModelError, UsageError
from mbr import PairUtility
from mbr.opening import open_decoder
from mbr.pipeline import ListConversation
from mbr.pool import Pool
from mbr.recipe import Recipe
from tests.mbr.made import Better, Tables
from tests.mbr.test_pool import LISTS, added, assert_same

pytestmark = pytest.mark.one_world


def test_a_request_may_be_scored_in_batches_of_another_order() -> None:
    """The strategy gets its scores in the order in which it asked."""
    utility = Better()
    (item,) = Tables({"s": np.zeros((6, 6))}).lists()
    decoder = open_decoder(Recipe(strategy="half").complete(), utility=utility)
    (expected,) = decoder.decide([item])
    (conversation,) = decoder.start([item])
    assert isinstance(conversation, ListConversation)
    conversation.arrange([np.array([14, 3, 5]), np.array([0, 1, 2, 4]), np.arange(6, 14)])
    pool = Pool[str](utility)
    pool.add("s", conversation)
    sizes = []
    while len(pool):
        sizes.append(conversation.whole_batches(5))
        ended = pool.step(portion=lambda one: one.whole_batches(5))
    assert sizes == [3, 4, 8]
    assert_same(decoder.finish(cast(ListConversation, ended[0][1])), expected)


def test_a_request_that_is_partly_scored_is_not_arranged_again() -> None:
    decoder = open_decoder(Recipe(strategy="half").complete(), utility=Better())
    (conversation,) = decoder.start([CandidateList.of("s", ["a", "b", "c"])])
    assert isinstance(conversation, ListConversation)
    conversation.take(np.zeros(1, np.float32))
    with pytest.raises(UsageError, match="partly scored"):
        conversation.arrange([np.arange(3)])


def test_a_conversation_that_is_removed_or_failed_leaves_the_others_alone() -> None:
    decoder = open_decoder(Recipe(strategy="half").complete(), utility=Better())
    pool = Pool[Any](decoder.utility)
    added(decoder, pool, LISTS)
    pool.remove(1)
    pool.remove(1)
    conversations = dict(pool.open())
    conversations[2].fail(ModelError("from outside"))
    ended = dict(pool.step())
    assert list(ended) == [0, 2, 3]
    assert str(ended[2].error) == "from outside"
    assert ended[0].outcome is not None


def test_batches_scored_one_by_one_have_the_bits_of_all_at_once() -> None:
    with open_decoder(
        Recipe("pear", {"model": "en-de"}), runtime={"device": "cpu", "threads": 1, "batch_tokens": 512}
    ) as decoder:
        utility = decoder.utility
        assert isinstance(utility, PairUtility)
        triples = [(item.source, a, b + " !" * (len(a) % 3)) for item in LISTS for a in item.texts for b in item.texts]
        triples += triples[:5]
        batches = utility.batches(triples * 2)
        assert batches is not None
        assert len(batches) > 1
        assert sorted(np.concatenate(batches).tolist()) == list(range(2 * len(triples)))
        before = utility.work()
        whole = utility.score_pairs(triples * 2)
        after = utility.work()
        assert after.tokens - before.tokens == utility.cost(triples)["tokens"]
        assert after.padding >= before.padding
        for batch in batches:
            part = utility.score_pairs([(triples * 2)[place] for place in batch])
            assert part.tobytes() == whole[batch].tobytes()
