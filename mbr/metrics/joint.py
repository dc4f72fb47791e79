"""Several texts in one input, as CometKiwi, UniTE and XCOMET read them: `<s> hypothesis </s></s> source </s>` etc.

Each text is tokenised once and cut to the longest input by itself; the whole is then cut on the right. Every distinct
input is computed once. With a reference a row is three inputs, of which the first, (hypothesis, source), does not
depend on the reference: N candidates as each other's references take N + 2 N^2 passes, not 3 N^2.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mbr.metrics.base import Row
from mbr.metrics.comet_network import CometCheckpoint
from pear.runtime.options import ModelOptions
from pear.runtime.runner import Runner, padded, running
from pear.runtime.token_store import Ints, TokenStore

KEPT_PASSES = 50_000  # inputs without reference that are remembered
PORTION = 20_000  # rows at once, so that label probabilities of many rows never fill the memory


def joint_inputs(row: Row) -> list[tuple[str, ...]]:
    """The inputs of the network for a row. The source comes second, also where there is a reference.

    Inputs of (hypothesis, reference) and (hypothesis, source) have the same form: equal texts give equal results.
    """
    source, hypothesis, *reference = row
    if not reference:
        return [(hypothesis, source)]
    return [(hypothesis, source), (hypothesis, reference[0]), (hypothesis, source, reference[0])]


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


class JointRows:
    """Rows through a `JointEncoder`, one input or three each; those without reference are remembered between calls."""

    def __init__(self, joint: JointEncoder) -> None:
        self._joint = joint
        self._kept: dict[tuple[str, ...], Passed] = {}
        self._kept_in = joint.runner.precision

    def run(self, rows: Sequence[Row], *, label: str | None = None) -> Iterator[list[Passed]]:
        """The results for each row's inputs: one without a reference, three with."""
        if self._kept_in != self._joint.runner.precision:  # while `auto` compares them
            self._kept.clear()
            self._kept_in = self._joint.runner.precision
        for left in range(0, len(rows), PORTION):
            inputs = [joint_inputs(row) for row in rows[left : left + PORTION]]
            distinct = dict.fromkeys(texts for row in inputs for texts in row)
            fresh = self._joint.run([texts for texts in distinct if texts not in self._kept], label=label)
            results = {**self._kept, **fresh}
            yield from ([results[texts] for texts in row] for row in inputs)
            if len(self._kept) > KEPT_PASSES:
                self._kept.clear()
            self._kept.update((row[0], results[row[0]]) for row in inputs)

    def truncated(self, rows: Sequence[Row]) -> NDArray[np.bool_]:
        """Which rows have an input that is cut."""
        if not rows:
            return np.zeros(0, np.bool_)
        each = [self._joint.truncated(inputs) for inputs in zip(*map(joint_inputs, rows), strict=True)]
        return np.asarray(np.any(each, axis=0))

    def tokens(self, rows: Sequence[Row]) -> int:
        return sum(self._joint.tokens(inputs) for inputs in zip(*map(joint_inputs, rows), strict=True))

    def clear(self) -> None:
        self._kept.clear()
