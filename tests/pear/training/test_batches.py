"""Batches of examples: budget, order, flipped rows, numbers of words."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from pear.checkpoint import Checkpoint
from pear.training.batches import Batcher, word_numbers
from pear.training.examples import Example, examples
from tests.pear.training.processes import judged
from tests.pear.training.runs import ALONE, BUNDLED, TEXTS, layout

pytestmark = pytest.mark.one_world


def test_batches_hold_every_example_once_within_the_budget(model: Checkpoint) -> None:
    (rows,) = examples(replace(ALONE, pairs_per_source=3), judged(40, seed=6), 0)
    for flipped, budget in ((False, 400), (True, 400), (True, 1)):
        batcher = Batcher(model.tokenizer, layout(model), budget, use_words=False)
        planned = batcher.plan(rows, flipped=flipped, seed="1")
        assert sorted(map(repr, rows)) == sorted(repr(row) for batch in planned for row in batch)
        assert planned == batcher.plan(rows, flipped=flipped, seed="1") != batcher.plan(rows, flipped=flipped, seed="2")
        for batch in planned:
            made = batcher.lay_out(batch, flipped=flipped)
            assert len(made.ids) == len(batch) * (2 if flipped else 1)
            assert made.ids.numel() <= budget or len(batch) == 1


def test_a_flipped_row_is_the_row_with_a_and_b_swapped(model: Checkpoint) -> None:
    batcher = Batcher(model.tokenizer, layout(model), 4000, use_words=False)
    rows = [Example(("one two", "drei", "vier fünf"), 1.0), Example(("x", "", "z z z"), -1.0)]
    both = batcher.lay_out(rows, flipped=True)
    swapped = batcher.lay_out(
        [Example((s, b, a), -t) for s, a, b, t in [(*r.texts, r.target) for r in rows]], flipped=False
    )
    assert torch.equal(both.ids[2:], swapped.ids)
    assert torch.equal(both.spans[2:], swapped.spans)
    assert both.targets.tolist() == [1.0, -1.0]


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("family", ["xlm-r", "translator"])
def test_every_token_belongs_to_its_word(family: str, text: str, model: Checkpoint) -> None:
    """A sentencepiece word begins with its mark for a space, alone or glued to the first piece."""
    tokenizer = model.tokenizer
    if family == "translator":
        from pear.training.translator import tokenizer_of_pieces

        tokenizer = tokenizer_of_pieces(BUNDLED / "sentencepiece.model", 256)
    tokens = tokenizer.convert_ids_to_tokens(tokenizer(text, add_special_tokens=False)["input_ids"])
    expected, word, fresh = [], -1, False
    for token in tokens:
        if token.startswith("▁"):
            word, fresh = word + (not fresh), token.strip("▁") == ""
        else:
            fresh = False
        expected.append(min(word, len(text.split()) - 1))
    assert word_numbers(text, tokenizer).tolist() == expected
    assert set(expected) == set(range(len(text.split())))


def test_targets_of_words_stand_at_their_tokens(model: Checkpoint) -> None:
    batcher = Batcher(model.tokenizer, layout(model), 4000, use_words=True)
    words = ((1.0,), (2.0,), (3.0,))
    rows = [Example(("source", "no numbers", "Tom told me."), 0.0, (None, None, words)), Example(("a", "b", "c"), 0.0)]
    batch = batcher.lay_out(rows, flipped=True)
    assert batch.word_places is not None
    assert batch.word_targets is not None
    found: dict[float, str] = {}
    for (row, column), (number,) in zip(batch.word_places.tolist(), batch.word_targets.tolist(), strict=True):
        assert row == 0
        found[number] = found.get(number, "") + model.tokenizer.convert_ids_to_tokens([int(batch.ids[row, column])])[0]
    assert found == {1.0: "▁Tom", 2.0: "▁told", 3.0: "▁me."}
