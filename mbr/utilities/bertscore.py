"""BERTScore as a utility: each distinct text is encoded once, then all pairs are matched (`mbr.metrics.bertscore`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Unpack, cast

import numpy as np
from numpy.typing import NDArray

from mbr.metrics import get_metric
from mbr.metrics.bertscore import BertScore as BertScoreMetric
from mbr.metrics.bertscore import BertScoreOptions
from mbr.utilities.base import MatrixUtility

if TYPE_CHECKING:
    from mbr.metrics.bertscore import TokenVectors


class BertScore(MatrixUtility):
    """An encoder by folder or name. Options: `BertScoreOptions`."""

    name = "bertscore"
    summary = BertScoreMetric.summary
    needs = BertScoreMetric.needs
    family = "bertscore"
    traits = ("embedding",)

    def __init__(self, **options: Unpack[BertScoreOptions]) -> None:
        self.metric = cast(BertScoreMetric, get_metric("bertscore", **options))
        self._vectors: dict[str, TokenVectors] = {}

    def settings(self) -> dict[str, object]:
        return self.metric.settings()

    def notes(self) -> list[str]:
        return self.metric.notes()

    def prepare(self, lists: Sequence[tuple[str, Sequence[str]]]) -> None:
        """Encode the texts of several lists together, in full batches; vectors of earlier lists are dropped."""
        texts = dict.fromkeys(text for _, candidates in lists for text in candidates)
        kept = {text: vectors for text, vectors in self._vectors.items() if text in texts}
        fresh = [text for text in texts if text not in kept]
        self._vectors = kept | dict(zip(fresh, self.metric.embed(fresh, progress=self.progress), strict=True))

    def matrix(self, source: str, hypotheses: Sequence[str], references: Sequence[str]) -> NDArray[np.float32]:
        if any(text not in self._vectors for text in (*hypotheses, *references)):
            self.prepare([(source, (*hypotheses, *references))])
        own = [self._vectors[text] for text in hypotheses]
        others = own if references is hypotheses else [self._vectors[text] for text in references]
        return self.metric.matrix(own, others)

    def truncates(self, source: str, texts: Sequence[str]) -> bool:
        return bool(self.metric.truncated([(source, text, "") for text in texts]).any())

    def cost(self, source: str, hypotheses: Sequence[str], references: Sequence[str]) -> dict[str, Any]:
        tokens = self.metric.tokens([(source, text, "") for text in (*hypotheses, *references)])
        return {"tokens": tokens, "memory_bytes": self.metric.memory_bytes()}

    @property
    def on_gpu(self) -> bool:
        return self.metric.on_gpu

    def close(self) -> None:
        self._vectors.clear()
        self.metric.close()
