from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pear.runtime.token_store import TokenStore
from pear.serialize import Layout, lay_out, share_budget


def plain_share(wanted: list[int], budget: int) -> list[int]:
    """The rule of the specification, told token by token."""
    granted = [min(length, budget // 3) for length in wanted]
    while sum(granted) < budget and granted != wanted:
        for k in range(3):
            if granted[k] < wanted[k] and sum(granted) < budget:
                granted[k] += 1
    return granted


@given(st.lists(st.integers(0, 700), min_size=3, max_size=3), st.integers(0, 520))
def test_budget_is_shared_as_specified(wanted: list[int], budget: int) -> None:
    (granted,) = share_budget(np.array([wanted]), budget)
    assert granted.tolist() == plain_share(wanted, budget)
    assert granted.sum() == min(sum(wanted), budget)


@pytest.mark.parametrize(
    ("wanted", "granted"),
    [
        ([10, 10, 10], [10, 10, 10]),
        ([900, 5, 5], [496, 5, 5]),
        ([900, 900, 5], [251, 250, 5]),
        ([900, 900, 900], [169, 169, 168]),
    ],
)
def test_budget_of_the_released_models(wanted: list[int], granted: list[int]) -> None:
    assert share_budget(np.array([wanted]), 506).tolist() == [granted]


def plain_ids(tokenizer: Any, texts: tuple[str, str, str], separators: int) -> list[int]:
    contents = [tokenizer(text)["input_ids"][1:-1] for text in texts]
    between = [tokenizer.sep_token_id] * separators
    source, a, b = contents
    return [tokenizer.cls_token_id, *source, *between, *a, *between, *b, tokenizer.sep_token_id]


@pytest.mark.parametrize(("model_type", "separators"), [("xlm-roberta", 2), ("xlm-roberta-xl", 2), ("bert", 1)])
def test_layout_of_a_triple(tmp_path: Path, model_type: str, separators: int) -> None:
    from tests.support.random_pear import random_checkpoint

    checkpoint = random_checkpoint(tmp_path / "x", model_type=model_type, layers=1, hidden=16, heads=2)
    tokenizer = checkpoint.tokenizer
    layout = Layout.of(tokenizer, checkpoint.network.encoder.config)
    assert layout.content_budget == 512 - 2 - 2 * separators
    triples = [("The cat sat.", "Die Katze saß.", ""), ("", "How much is it?", "Danke! Wie viel kostet das?")]
    store = TokenStore(tokenizer)
    numbers = store.number(text for triple in triples for text in triple).reshape(-1, 3)
    batch = lay_out(layout, store, numbers, store.lengths[numbers])
    for row, triple in enumerate(triples):
        ids = plain_ids(tokenizer, triple, separators)
        assert batch.ids[row][batch.attention[row]].tolist() == ids
        assert (batch.ids[row][~batch.attention[row]] == tokenizer.pad_token_id).all()
        for k, text in enumerate(triple):
            assert batch.ids[row][batch.spans[row, k]].tolist() == tokenizer(text)["input_ids"][1:-1]


def test_a_text_is_tokenised_once_and_the_store_stays_bounded() -> None:
    class Counting:
        seen = 0

        def __call__(self, texts: list[str], **options: Any) -> dict[str, list[list[int]]]:
            self.seen += len(texts)
            return {"input_ids": [[0, *map(ord, text), 2] for text in texts]}

    tokenizer = Counting()
    store = TokenStore(tokenizer, limit=10)
    store.number(["abc", "de", "abc"])
    store.number(["de"])
    assert tokenizer.seen == 2
    store.number(["0123456789"])
    (number,) = store.number(["abc"])  # over the limit: starts anew
    start = store.offsets[number]
    assert store.tokens[start : start + store.lengths[number]].tolist() == list(map(ord, "abc"))
    assert len(store.tokens) == 3
