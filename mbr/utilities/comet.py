"""COMET-MBR: each distinct text is encoded once, then the estimator scores all pairs (`mbr.metrics.comet`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Unpack, cast

import numpy as np
from numpy.typing import NDArray

from candidates.common.errors import UsageError
from mbr.metrics import get_metric
from mbr.utilities.base import MatrixUtility
from mbr.utilities.means import LeftOutMean
from pear.runtime.options import LibraryOptions

if TYPE_CHECKING:
    import torch

    from mbr.metrics.comet import Comet as CometMetric
    from pear.runtime.choice import PrecisionChoice


class Comet(MatrixUtility):
    """A COMET checkpoint with references (`regression_metric`). Options: `LibraryOptions`.

    unbabel-comet (`backend="library"`) reads pair by pair: nothing is shared between pairs, and nothing aggregated.
    """

    name = "comet"
    summary = "COMET: learned, from vectors of source, hypothesis and reference"
    needs = "a checkpoint (--model); else Unbabel/wmt22-comet-da from the hub"
    family = "comet"
    traits = ("embedding",)

    def __init__(self, **options: Unpack[LibraryOptions]) -> None:
        self.metric = cast("CometMetric", get_metric("comet", **options))
        self._by_library = options.get("backend") == "library"
        self._vectors: dict[str, torch.Tensor] = {}

    def settings(self) -> dict[str, object]:
        return self.metric.settings()

    def notes(self) -> list[str]:
        return self.metric.notes()

    def prepare(self, lists: Sequence[tuple[str, Sequence[str]]]) -> None:
        """Encode the texts of several lists together, in full batches; vectors of earlier lists are dropped."""
        if self._by_library:
            return
        texts = dict.fromkeys(text for source, candidates in lists for text in (source, *candidates))
        kept = {text: vector for text, vector in self._vectors.items() if text in texts}
        fresh = [text for text in texts if text not in kept]
        self._vectors = kept | dict(zip(fresh, self.metric.embed(fresh, progress=self.progress), strict=True))

    def matrix(self, source: str, hypotheses: Sequence[str], references: Sequence[str]) -> NDArray[np.float32]:
        if self._by_library:
            rows = [(source, hypothesis, reference) for hypothesis in hypotheses for reference in references]
            return self.metric.score(rows, progress=self.progress).reshape(len(hypotheses), len(references))
        self._encode_missing(source, hypotheses, references)
        others = None if references is hypotheses else self._stack(references)
        return self.metric.all_pairs(self._vectors[source], self._stack(hypotheses), others)

    def aggregate(
        self, source: str, texts: Sequence[str], weights: NDArray[np.float64], own_weights: NDArray[np.float64]
    ) -> NDArray[np.float32]:
        """Against the mean vector of the pseudo-references, as DeNero et al. (2009) and Vamvas & Sennrich (2024) do."""
        if self._by_library:
            raise UsageError("unbabel-comet has no vector of several references; leave out the strategy aggregate")
        self._encode_missing(source, texts, ())
        vectors = self._stack(texts)
        means = LeftOutMean(weights, own_weights)(vectors.double().cpu().numpy())
        return self.metric.estimate(self._vectors[source].expand_as(vectors), vectors, vectors.new_tensor(means))

    def truncates(self, source: str, texts: Sequence[str]) -> bool:
        return bool(self.metric.truncated([(text,) for text in (source, *texts)]).any())

    def cost(self, source: str, hypotheses: Sequence[str], references: Sequence[str]) -> dict[str, Any]:
        tokens = self.metric.tokens([(text,) for text in (source, *hypotheses, *references)])
        return {"tokens": tokens, "memory_bytes": self.metric.memory_bytes()}

    @property
    def precision_choice(self) -> PrecisionChoice | None:
        return self.metric.precision_choice

    @property
    def on_gpu(self) -> bool:
        return self.metric.on_gpu

    def close(self) -> None:
        self._vectors.clear()
        self.metric.close()

    def _encode_missing(self, source: str, hypotheses: Sequence[str], references: Sequence[str]) -> None:
        if any(text not in self._vectors for text in (source, *hypotheses, *references)):
            self.prepare([(source, (*hypotheses, *references))])

    def _stack(self, texts: Sequence[str]) -> torch.Tensor:
        import torch

        return torch.stack([self._vectors[text] for text in texts])
