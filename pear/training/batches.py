"""Examples -> batches of similar length, under a budget of padded tokens, in an order fixed by the seed."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pear.data.record import Words
from pear.runtime.token_store import Ints, TokenStore
from pear.serialize import Layout, lay_out, share_budget
from pear.training.examples import Example


@dataclass
class TrainingBatch:
    """Encoder input and targets. With `flipped`, the second half of the rows has a and b swapped.

    `word_places` [words, 2] are the (row, token) of tokens with word targets [words, channels].
    """

    ids: Tensor
    attention: Tensor
    spans: Tensor
    targets: Tensor
    flipped: bool
    word_places: Tensor | None = None
    word_targets: Tensor | None = None

    def to(self, device: torch.device) -> TrainingBatch:
        moved = {name: value.to(device) if isinstance(value, Tensor) else value for name, value in vars(self).items()}
        return TrainingBatch(**moved)


class Batcher:
    """Tokenises every distinct text once and lays out batches."""

    def __init__(self, tokenizer: Any, layout: Layout, batch_tokens: int, *, use_words: bool) -> None:
        self._tokenizer = tokenizer
        self._layout = layout
        self._budget = batch_tokens
        self._use_words = use_words
        self._store = TokenStore(tokenizer, limit=10**12)
        self._word_numbers: dict[str, NDArray[np.int64]] = {}

    def plan(self, examples: Sequence[Example], *, flipped: bool, seed: str) -> list[list[Example]]:
        """The examples of each batch, shuffled; a batch holds rows of about one length."""
        if not examples:
            return []
        draw = random.Random(seed)
        lengths = self._lengths(examples).sum(axis=1) + self._layout.specials(len(examples[0].texts))
        keyed = sorted((length + 3 * draw.random(), k) for k, length in enumerate(lengths.tolist()))
        orders = 2 if flipped else 1
        groups: list[list[Example]] = []
        longest = 0
        for _, k in keyed:
            longest = max(longest, int(lengths[k]))
            if not groups or (len(groups[-1]) + 1) * longest * orders > self._budget:
                groups.append([])
                longest = int(lengths[k])
            groups[-1].append(examples[k])
        draw.shuffle(groups)
        return groups

    def lay_out(self, examples: Sequence[Example], *, flipped: bool) -> TrainingBatch:
        """One batch; `flipped` adds every row again with its last two texts swapped."""
        numbers = self._numbers(examples)
        if flipped:
            numbers = np.concatenate([numbers, numbers[:, [0, 2, 1]]])
        granted = self._granted(numbers)
        batch = lay_out(self._layout, self._store, numbers, granted)
        result = TrainingBatch(
            torch.from_numpy(batch.ids),
            torch.from_numpy(batch.attention),
            torch.from_numpy(batch.spans),
            torch.tensor([example.target for example in examples], dtype=torch.float32),
            flipped,
        )
        if self._use_words:
            self._add_words(result, examples, granted[: len(examples)], batch.spans)
        return result

    def _add_words(self, batch: TrainingBatch, examples: Sequence[Example], granted: Ints, spans: Any) -> None:
        places, targets = [], []
        for row, example in enumerate(examples):
            for k, words in enumerate(example.words):
                if words and granted[row, k]:
                    columns = np.flatnonzero(spans[row, k])
                    places.append(np.column_stack([np.full(len(columns), row), columns]))
                    targets.append(self._of_tokens(example.texts[k], words)[: len(columns)])
        if places:
            batch.word_places = torch.from_numpy(np.concatenate(places))
            batch.word_targets = torch.from_numpy(np.concatenate(targets).astype(np.float32))

    def _of_tokens(self, text: str, words: Words) -> NDArray[np.float64]:
        """Every token has its word's numbers: [tokens, channels]."""
        if text not in self._word_numbers:
            self._word_numbers[text] = word_numbers(text, self._tokenizer)
        return np.asarray(words, np.float64)[self._word_numbers[text]]

    def _numbers(self, examples: Sequence[Example]) -> Ints:
        texts = [text for example in examples for text in example.texts]
        return self._store.number(texts).reshape(len(examples), -1)

    def _granted(self, numbers: Ints) -> Ints:
        budget = max(self._layout.max_tokens - self._layout.specials(numbers.shape[1]), 0)
        return share_budget(self._store.lengths[numbers], budget)

    def _lengths(self, examples: Sequence[Example]) -> Ints:
        return self._granted(self._numbers(examples))


def word_numbers(text: str, tokenizer: Any) -> NDArray[np.int64]:
    """Which whitespace word each token belongs to, [tokens]; a token of white space goes with the word after it."""
    offsets = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)["offset_mapping"]
    signs = [not sign.isspace() for sign in text]
    starts = [place for place, sign in enumerate(signs) if sign and not (place and signs[place - 1])]
    ends = [max(end - 1, start) for start, end in offsets]
    spaces = [place < len(text) and text[place].isspace() for place in ends]
    words = np.searchsorted(starts, ends, side="right") - 1 + np.asarray(spaces, np.int64)
    return np.clip(words, 0, max(len(starts) - 1, 0)).astype(np.int64)
