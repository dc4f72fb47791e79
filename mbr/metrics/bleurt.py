"""BLEURT: reference and candidate are read together by one encoder; the score comes from its first token.

Input is `[CLS] reference [SEP] candidate [SEP]`; the source is not read. Each distinct text is tokenised once and each
distinct (reference, candidate) computed once, whatever the sources are. N candidates need N^2 passes.

    with Bleurt(model="bleurt-folder") as bleurt:
        bleurt.score([("A dog.", "Ein Hund.", "Der Hund.")])
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Unpack

import numpy as np
from numpy.typing import NDArray

from mbr.metrics.base import NeuralMetric, Row
from pear.runtime.options import ModelOptions

Ints = NDArray[np.int64]


class Bleurt(NeuralMetric):
    """BLEURT-20 and its smaller versions, or an older one, of bleurt-pytorch or Google. Options: `ModelOptions`."""

    name = "bleurt"
    default = "bleurt-20"
    summary = "BLEURT: learned, reads hypothesis and reference together, not the source"
    family = "bleurt"
    needs = "a checkpoint (--model); else lucadiliello/BLEURT-20 from the hub"
    reads_source = False

    def __init__(self, **options: Unpack[ModelOptions]) -> None:
        from mbr.metrics.bleurt_network import load_bleurt
        from pear.runtime.runner import Runner, running
        from pear.runtime.token_store import TokenStore

        checkpoint = load_bleurt(self.default, options)
        self._layout = checkpoint.layout
        self._store = TokenStore(checkpoint.tokenizer)
        runner = Runner(checkpoint.network, hidden=checkpoint.hidden, **running(options))
        self._hold(checkpoint.name, checkpoint.files, runner, self._layout.max_tokens)

    def score(self, rows: Sequence[Row], *, progress: bool = False) -> NDArray[np.float32]:
        if not rows:
            return np.empty(0, np.float32)
        from pear.serialize import lay_out

        pairs = self._pairs(rows)
        places = {pair: place for place, pair in enumerate(dict.fromkeys(pairs))}
        texts, granted = self._fitted(list(places))
        scores = np.empty(len(places), np.float32)

        def work(network: Any, device: Any, rows: Ints) -> None:
            import torch

            batch = lay_out(self._layout, self._store, texts[rows], granted[rows])
            # The reference is of type 0, with the special tokens around it, and all that follows of type 1.
            types = np.arange(batch.ids.shape[1]) > granted[rows, :1] + 1
            ids, attention, types = (torch.from_numpy(a).to(device) for a in (batch.ids, batch.attention, types))
            scores[rows] = network(ids, attention.long(), types.long()).cpu().numpy()

        self._runner.run(self._whole(granted), work, label="BLEURT" if progress else None)
        return scores[[places[pair] for pair in pairs]]

    def truncated(self, rows: Sequence[Row]) -> NDArray[np.bool_]:
        if not rows:
            return np.zeros(0, np.bool_)
        texts = self._numbers(self._pairs(rows))  # first: it replaces the arrays of the store
        return np.asarray(self._whole(self._store.lengths[texts]) > self._layout.max_tokens)

    def tokens(self, rows: Sequence[Row]) -> int:
        return int(self._whole(self._fitted(list(dict.fromkeys(self._pairs(rows))))[1]).sum()) if rows else 0

    def _pairs(self, rows: Sequence[Row]) -> list[tuple[str, str]]:
        self.texts_per_row(rows)
        return [(reference, hypothesis) for _, hypothesis, reference in rows]

    def _numbers(self, pairs: Sequence[tuple[str, str]]) -> Ints:
        return self._store.number(text for pair in pairs for text in pair).reshape(-1, 2)

    def _fitted(self, pairs: Sequence[tuple[str, str]]) -> tuple[Ints, Ints]:
        """Of each pair the numbers of its texts, and how many tokens of them fit, both [pairs, 2]."""
        texts = self._numbers(pairs)
        return texts, fit(self._store.lengths[texts], self._layout.budget(2))

    def _whole(self, lengths: Ints) -> Ints:
        return np.asarray(lengths.sum(axis=1) + self._layout.specials(2))


def fit(lengths: Ints, budget: int) -> Ints:
    """How many tokens of (reference, candidate) fit: lengths [rows, 2] -> granted [rows, 2].

    BLEURT drops tokens one by one at the end of the longer text, of the candidate if both are equally long.
    """
    reference, candidate = lengths.T
    first = np.minimum(reference, np.maximum((budget + 1) // 2, budget - candidate))
    return np.stack([first, np.minimum(candidate, budget - first)], axis=1)
