"""Sentence embeddings as a utility: how near two candidates are in meaning (`mbr.metrics.embedding`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Unpack, cast

import numpy as np
from numpy.typing import NDArray

from mbr.metrics import get_metric
from mbr.metrics.embedding import Embedding as EmbeddingMetric
from mbr.metrics.embedding import EmbeddingOptions
from mbr.utilities.base import MatrixUtility
from mbr.utilities.means import LeftOutMean


class Embedding(MatrixUtility):
    """Cosine of two texts' vectors; each distinct text is encoded once. Options: `EmbeddingOptions`."""

    name = "embedding"
    summary = EmbeddingMetric.summary
    needs = EmbeddingMetric.needs
    relation = "symmetric"
    family = "embedding"
    traits = ("embedding",)

    def __init__(self, **options: Unpack[EmbeddingOptions]) -> None:
        self.metric = cast(EmbeddingMetric, get_metric("embedding", **options))
        self._vectors: dict[str, NDArray[np.float32]] = {}

    def settings(self) -> dict[str, object]:
        return self.metric.settings()

    def prepare(self, lists: Sequence[tuple[str, Sequence[str]]]) -> None:
        texts = dict.fromkeys(text for _, candidates in lists for text in candidates)
        kept = {text: vector for text, vector in self._vectors.items() if text in texts}
        fresh = [text for text in texts if text not in kept]
        self._vectors = kept | dict(zip(fresh, self.metric.embed(fresh), strict=True))

    def matrix(self, source: str, hypotheses: Sequence[str], references: Sequence[str]) -> NDArray[np.float32]:
        vectors = self._stack([*hypotheses, *references])
        return vectors[: len(hypotheses)] @ vectors[len(hypotheses) :].T

    def aggregate(
        self, source: str, texts: Sequence[str], weights: NDArray[np.float64], own_weights: NDArray[np.float64]
    ) -> NDArray[np.float32]:
        """Against the mean vector; a cosine is linear in it, so this is the expected utility itself."""
        vectors = self._stack(texts)
        means = LeftOutMean(weights, own_weights)(vectors.astype(np.float64))
        return np.asarray(np.einsum("tv,tv->t", vectors, means), np.float32)

    def truncates(self, source: str, texts: Sequence[str]) -> bool:
        return bool(self.metric.truncated([(source, text, text) for text in texts]).any())

    @property
    def on_gpu(self) -> bool:
        return self.metric.on_gpu

    def close(self) -> None:
        self._vectors.clear()
        self.metric.close()

    def _stack(self, texts: Sequence[str]) -> NDArray[np.float32]:
        if any(text not in self._vectors for text in texts):
            self.prepare([("", texts)])
        return np.stack([self._vectors[text] for text in texts])
