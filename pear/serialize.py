"""(source, a, b) -> token ids and span masks, under the encoder's length budget.

XLM-R family: `<s> source </s></s> a </s></s> b </s>`; BERT-like: `[CLS] source [SEP] a [SEP] b [SEP]`.
Each text is tokenised alone and once. Where the three do not fit, every text first gets a third of the budget
(or less, if it is shorter), and what is left is handed out one token at a time in the order source, a, b.
Models of other kinds take two texts (source, candidate) in the same way.
A batch is laid out with array operations only: what is neither content nor padding is a separator.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from candidates.common.errors import ModelError
from pear.runtime.shapes import READER
from pear.runtime.token_store import Ints, TokenStore


@dataclass(frozen=True)
class Layout:
    """The special tokens of an encoder and how many tokens it takes.

    `unknown` takes the place of special tokens that a text spells (`</s>`), for encoders that find texts by them.
    """

    start: int
    separator: int
    padding: int
    separators_between: int
    max_tokens: int
    unknown: int | None = None

    @property
    def content_budget(self) -> int:
        """Tokens left for three texts."""
        return self.budget(3)

    def budget(self, texts: int) -> int:
        """Tokens left for this number of texts."""
        return max(self.max_tokens - self.specials(texts), 0)

    def specials(self, texts: int) -> int:
        """Tokens that are not content: one start, one end, and the separators between the texts."""
        return 2 + (texts - 1) * self.separators_between

    def content(self, tokens: Ints) -> Ints:
        """Tokens of texts as the encoder takes them."""
        if self.unknown is None:
            return tokens
        return np.where(np.isin(tokens, (self.start, self.separator, self.padding)), self.unknown, tokens)

    @classmethod
    def of(cls, tokenizer: Any, config: Any) -> Layout:
        """Read the layout off a transformers tokenizer and encoder configuration."""
        tokens = (tokenizer.cls_token_id, tokenizer.sep_token_id, tokenizer.pad_token_id)
        if None in tokens:
            raise ModelError(
                "the tokenizer defines no start, separator or padding token; PEAR needs an encoder of the "
                "XLM-R or BERT family"
            )
        roberta = "roberta" in config.model_type or config.model_type in ROBERTA_LIKE
        # RoBERTa counts positions from padding_idx + 1 = 2. The released metric subtracts 2 for every encoder.
        max_tokens = config.max_position_embeddings - 2
        unknown = tokenizer.unk_token_id if config.model_type == READER else None
        return cls(*tokens, separators_between=2 if roberta else 1, max_tokens=max_tokens, unknown=unknown)


ROBERTA_LIKE = ("camembert", "xmod", READER)  # RoBERTa under another name, or texts laid out as for it


@dataclass(frozen=True)
class Batch:
    """One encoder input. Arrays are [pairs, tokens], spans [pairs, texts, tokens]."""

    ids: Ints
    attention: NDArray[np.bool_]
    spans: NDArray[np.bool_]


def share_budget(lengths: Ints, budget: int) -> Ints:
    """How many tokens of (source, a, b) fit: [rows, texts] wanted -> [rows, texts] granted."""
    granted = lengths.copy()
    for row in np.flatnonzero(lengths.sum(axis=1) > budget):
        granted[row] = _share(lengths[row].tolist(), budget)
    return granted


def _share(wanted: list[int], budget: int) -> list[int]:
    granted = [min(length, budget // len(wanted)) for length in wanted]
    left = budget - sum(granted)
    while left > 0:
        for k in range(len(wanted)):
            if left > 0 and granted[k] < wanted[k]:
                granted[k] += 1
                left -= 1
    return granted


def lay_out(layout: Layout, store: TokenStore, texts: Ints, granted: Ints) -> Batch:
    """Token ids and masks of [rows, texts] text numbers, padded to the longest row."""
    count = texts.shape[1]
    starts = np.cumsum(granted + layout.separators_between, axis=1) - granted - layout.separators_between + 1
    ends = starts[:, -1] + granted[:, -1] + 1
    column = np.arange(ends.max())
    attention = column < ends[:, None]  # [rows, tokens]
    spans = (column >= starts[..., None]) & (column < (starts + granted)[..., None])  # [rows, texts, tokens]
    ids = np.where(attention, layout.separator, layout.padding)
    ids[:, 0] = layout.start
    origin = store.offsets[texts] - starts  # add a column to get its place in the store
    for k in range(count):
        row, place = np.nonzero(spans[:, k])
        ids[row, place] = layout.content(store.tokens[origin[row, k] + place])
    return Batch(ids, attention, spans)
