"""Several texts in one input, as CometKiwi and XCOMET read them: `<s> hypothesis </s></s> source </s>`, and so on.

Each text is tokenised once and cut to the longest input by itself; the whole is then cut on the right. Every distinct
input is computed once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mbr.metrics.comet_network import CometCheckpoint
from pear.runtime.options import ModelOptions
from pear.runtime.runner import Runner, padded, running
from pear.runtime.token_store import Ints, TokenStore


@dataclass(frozen=True)
class Passed:
    """The result for one input: a score, and if the network tags, probabilities [tokens of the hypothesis, labels]."""

    score: float
    tags: NDArray[np.float32] | None


class JointEncoder:
    """Inputs of two or three texts through a network that reads them together."""

    def __init__(self, checkpoint: CometCheckpoint, options: ModelOptions) -> None:
        tokenizer = checkpoint.tokenizer
        config: Any = checkpoint.network.encoder.config
        self.max_tokens = checkpoint.max_tokens
        self.store = TokenStore(tokenizer)
        self.runner = Runner(checkpoint.network, hidden=int(config.hidden_size), **running(options))
        self._start, self._end, self._padding = tokenizer.cls_token_id, tokenizer.sep_token_id, tokenizer.pad_token_id
        self._between = [self._end] * (1 if checkpoint.network.typed else 2)

    def run(self, inputs: Sequence[tuple[str, ...]], *, label: str | None = None) -> dict[tuple[str, ...], Passed]:
        """The result for each distinct input."""
        distinct = list(dict.fromkeys(inputs))
        sequences, first = self._lay_out(distinct)
        results: list[Passed | None] = [None] * len(distinct)

        def work(network: Any, device: Any, rows: Ints) -> None:
            import torch

            ids, attention = padded([sequences[row] for row in rows], self._padding, device)
            lengths = torch.from_numpy(first[rows]).to(device)
            states, words = network.encode(ids, attention, lengths)
            scores = network.estimator(states[:, 0]).cpu().numpy()  # the start token stands for the sentence
            tags = None if words is None else torch.softmax(network.hidden2tag(words), dim=2).cpu().numpy()
            for place, row in enumerate(rows):
                own = None if tags is None else tags[place, : first[row]].copy()
                results[row] = Passed(float(scores[place]), own)

        self.runner.run(np.array([len(sequence) for sequence in sequences]), work, label=label)
        return {texts: result for texts, result in zip(distinct, results, strict=True) if result is not None}

    def truncated(self, inputs: Sequence[tuple[str, ...]]) -> NDArray[np.bool_]:
        """Which inputs are cut."""
        lengths = self._lengths(inputs)
        whole = lengths.sum(axis=1) + 2 + (lengths.shape[1] - 1) * len(self._between)
        return np.asarray((lengths > self.max_tokens - 4).any(axis=1) | (whole > self.max_tokens))

    def tokens(self, inputs: Sequence[tuple[str, ...]]) -> int:
        sequences, _ = self._lay_out(list(dict.fromkeys(inputs)))
        return sum(map(len, sequences))

    def _lengths(self, inputs: Sequence[tuple[str, ...]]) -> Ints:
        numbers = self.store.number(text for texts in inputs for text in texts)
        return self.store.lengths[numbers].reshape(len(inputs), -1)

    def _lay_out(self, inputs: Sequence[tuple[str, ...]]) -> tuple[list[Ints], Ints]:
        """Token ids of each input, and how many of them are the hypothesis with a special token on either side."""
        numbers = iter(self.store.number(text for texts in inputs for text in texts))
        sequences, first = [], []
        for texts in inputs:
            pieces: list[Any] = [[self._start]]
            for place, number in enumerate([next(numbers) for _ in texts]):
                begin = self.store.offsets[number]
                length = min(self.store.lengths[number], self.max_tokens - 4)
                content = self.store.tokens[begin : begin + length]
                if place == 0:
                    first.append(len(content) + 2)
                # The library drops padding before it joins texts, and with it a text's own word `<pad>`.
                pieces += [self._between] * (place > 0) + [content[content != self._padding]]
            pieces.append([self._end])
            sequences.append(np.concatenate(pieces).astype(np.int64)[: self.max_tokens])
        return sequences, np.array(first)
