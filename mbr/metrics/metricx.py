"""MetricX: a prompt through mT5; the score is a predicted MQM error, 0 to 25. Lower is better.

MetricX-24 reads source, candidate and reference, and needs no reference: rows of (source, hypothesis) are judged
without one by the same model. MetricX-23 reads candidate and reference, its QE models candidate and source. Each
distinct prompt is tokenised and computed once.

    with MetricX(model="metricx-folder") as metricx:
        metricx.score([("A dog.", "Ein Hund.")])
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Unpack

import numpy as np
from numpy.typing import NDArray

from candidates.common.errors import UsageError
from mbr.metrics.base import NeuralMetric, Row
from pear.runtime.options import ModelOptions

Ints = NDArray[np.int64]


class MetricX(NeuralMetric):
    """A MetricX-24 checkpoint as Google released it. Options: `ModelOptions`; fp16 is not one of its precisions."""

    name = "metricx"
    default = "metricx-24-hybrid-xl"
    summary = "MetricX-24: learned, predicts an error score, with a reference or without"
    family = "metricx"
    needs = "a checkpoint (--model); else google/metricx-24-hybrid-xl-v2p6 from the hub"
    takes: ClassVar[tuple[int, ...]] = (2, 3)
    lower_is_better = True
    never = ("fp16",)
    # As the models were trained, with the end token, which is then dropped.
    longest: ClassVar[int] = 1536

    def __init__(self, **options: Unpack[ModelOptions]) -> None:
        if options.get("dtype") in self.never:
            raise UsageError(f"{self.name} cannot run in fp16: the numbers inside mT5 grow too large for it; use bf16")
        from mbr.metrics.metricx_network import load_metricx
        from pear.runtime.runner import Runner, running
        from pear.runtime.token_store import TokenStore

        checkpoint = load_metricx(self.name, self.default, options)
        self._padding = checkpoint.padding
        self._store = TokenStore(checkpoint.tokenizer)
        runner = Runner(checkpoint.network, hidden=checkpoint.hidden, **running(options))
        self._hold(checkpoint.name, checkpoint.files, runner, self.longest)

    def score(self, rows: Sequence[Row], *, progress: bool = False) -> NDArray[np.float32]:
        if not rows:
            return np.empty(0, np.float32)
        prompts = self._prompts(rows)
        places = {prompt: place for place, prompt in enumerate(dict.fromkeys(prompts))}
        numbers = self._store.number(places)
        begins, lengths = self._store.offsets[numbers], self._fitted(numbers)
        scores = np.empty(len(places), np.float32)

        def work(network: Any, device: Any, rows: Ints) -> None:
            from pear.runtime.runner import padded

            contents = [self._store.tokens[begins[row] : begins[row] + lengths[row]] for row in rows]
            ids, attention = padded(contents, self._padding, device)
            scores[rows] = network(ids, attention.long()).cpu().numpy()

        self._runner.run(lengths, work, label="MetricX" if progress else None)
        return scores[[places[prompt] for prompt in prompts]]

    def truncated(self, rows: Sequence[Row]) -> NDArray[np.bool_]:
        if not rows:
            return np.zeros(0, np.bool_)
        numbers = self._store.number(self._prompts(rows))  # first: it replaces the arrays of the store
        return np.asarray(self._store.lengths[numbers] > self.longest - 1)

    def tokens(self, rows: Sequence[Row]) -> int:
        return int(self._fitted(self._store.number(dict.fromkeys(self._prompts(rows)))).sum()) if rows else 0

    def _fitted(self, numbers: Ints) -> Ints:
        return np.minimum(self._store.lengths[numbers], self.longest - 1)

    def _prompts(self, rows: Sequence[Row]) -> list[str]:
        self.texts_per_row(rows)
        return [self.prompt(*row) for row in rows]

    def prompt(self, source: str, hypothesis: str, reference: str | None = None) -> str:
        """What the model reads. It is tokenised as a whole: pieces may reach across the joins."""
        words = f"source: {source} candidate: {hypothesis}"
        return words if reference is None else f"{words} reference: {reference}"


class MetricX23(MetricX):
    """A MetricX-23 checkpoint with references; it does not read the source."""

    name = "metricx-23"
    default = "metricx-23-xl"
    summary = "MetricX-23: learned, predicts an error score from hypothesis and reference"
    needs = "a checkpoint (--model); else google/metricx-23-xl-v2p0 from the hub"
    takes = (3,)
    reads_source = False
    longest = 1024

    def prompt(self, source: str, hypothesis: str, reference: str | None = None) -> str:
        return f"candidate: {hypothesis} reference: {reference}"


class MetricX23QE(MetricX):
    """A MetricX-23-QE checkpoint."""

    name = "metricx-23-qe"
    default = "metricx-23-qe-xl"
    summary = "MetricX-23-QE: learned, predicts an error score, no reference"
    needs = "a checkpoint (--model); else google/metricx-23-qe-xl-v2p0 from the hub"
    takes = (2,)
    longest = 1024

    def prompt(self, source: str, hypothesis: str, reference: str | None = None) -> str:
        return f"candidate: {hypothesis} source: {source}"
