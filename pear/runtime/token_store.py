"""Texts -> token ids, every distinct text tokenised once.

store = TokenStore(tokenizer)
numbers = store.number(["A dog.", "Ein Hund.", "A dog."])          # -> array([0, 1, 0])
store.lengths[numbers]                                             # tokens of each text
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


class TokenStore:
    """Token ids of distinct texts, tokenised once and kept end to end in one array.

    `tokens[offsets[t] : offsets[t] + lengths[t]]` are the ids of text number t. The store starts anew when it
    holds more than `limit` tokens, so that a long run needs bounded memory.
    """

    def __init__(self, tokenizer: Any, limit: int = 1_000_000) -> None:
        self._tokenizer = tokenizer
        self._limit = limit
        self._numbers: dict[str, int] = {}
        self.tokens: Ints = np.empty(0, np.int64)
        self.offsets: Ints = np.empty(0, np.int64)
        self.lengths: Ints = np.empty(0, np.int64)

    def number(self, texts: Iterable[str]) -> Ints:
        """The number of each text, tokenising those not seen before. Valid until the next call."""
        texts = list(texts)
        if len(self.tokens) > self._limit:
            self._clear()
        fresh = [text for text in dict.fromkeys(texts) if text not in self._numbers]
        if fresh:
            self._add(fresh)
        return np.fromiter(map(self._numbers.__getitem__, texts), np.int64, len(texts))

    def _add(self, texts: Sequence[str]) -> None:
        encoded = self._tokenizer(list(texts), return_attention_mask=False, verbose=False)["input_ids"]
        contents = [np.asarray(ids[1:-1], np.int64) for ids in encoded]  # without the outer special tokens
        lengths = np.array([len(ids) for ids in contents], np.int64)
        starts = len(self.tokens) + np.cumsum(lengths) - lengths
        self._numbers.update(zip(texts, range(len(self.lengths), len(self.lengths) + len(texts)), strict=True))
        self.tokens = np.concatenate([self.tokens, *contents])
        self.offsets = np.concatenate([self.offsets, starts])
        self.lengths = np.concatenate([self.lengths, lengths])

    def _clear(self) -> None:
        self._numbers.clear()
        self.tokens = self.offsets = self.lengths = np.empty(0, np.int64)
