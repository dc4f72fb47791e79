"""UniTE (`unified_metric` with references): hypothesis with source, with reference, and with both, in one encoder.

The score is the mean of the three estimates. Models of hypothesis and reference alone take one pass per row; rows of
(source, hypothesis) are judged by the first of the three. N candidates as each other's references take N + 2 N^2
passes.

    with Unite(model="unite-folder") as unite:
        unite.score([("A dog.", "Ein Hund.", "Der Hund.")])
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Unpack

import numpy as np
from numpy.typing import NDArray

from candidates.common.errors import ModelError
from mbr.metrics.base import NeuralMetric, Row
from pear.runtime.options import ModelOptions

SEGMENTS = (["mt", "src", "ref"], ["mt", "ref"])


class Unite(NeuralMetric):
    """A unified checkpoint that reads references. Options: `ModelOptions`."""

    name = "unite"
    default = "unite-mup"
    summary = "UniTE: learned, texts read together, with or without reference"
    family = "comet"
    needs = "a checkpoint (--model); else Unbabel/unite-mup from the hub"
    takes = (2, 3)

    def __init__(self, **options: Unpack[ModelOptions]) -> None:
        from mbr.metrics.comet_network import load_comet
        from mbr.metrics.joint import JointEncoder, JointRows

        checkpoint = load_comet(self.name, {"unified_metric": 1}, self.default, **options)
        segments = list(checkpoint.hparams.get("input_segments", SEGMENTS[0]))
        if segments not in SEGMENTS:
            raise ModelError(
                f"{checkpoint.name} reads {' and '.join(segments)}; unite takes models with references, cometkiwi "
                "those of mt and src"
            )
        self._alone = segments == SEGMENTS[1]  # with references, without sources
        self._joint = JointEncoder(checkpoint, options)
        self._rows = JointRows(self._joint)
        self._hold(checkpoint.name, checkpoint.files, self._joint.runner, self._joint.max_tokens)

    def score(self, rows: Sequence[Row], *, progress: bool = False) -> NDArray[np.float32]:
        passes = self._rows.run(self._read(rows), label="UniTE" if progress else None)
        return np.array([np.mean([passed.score for passed in row]) for row in passes], np.float32)

    def truncated(self, rows: Sequence[Row]) -> NDArray[np.bool_]:
        return self._rows.truncated(self._read(rows))

    def tokens(self, rows: Sequence[Row]) -> int:
        return self._rows.tokens(self._read(rows))

    def close(self) -> None:
        self._rows.clear()
        super().close()

    def _read(self, rows: Sequence[Row]) -> Sequence[Row]:
        """The rows as the model reads them: where it knows no sources, a reference is in the place of the source."""
        if rows and self.texts_per_row(rows) == 2 and self._alone:
            raise ModelError(f"{self._name} reads mt and ref, and cannot judge without a reference")
        return [(reference, hypothesis) for _, hypothesis, reference in rows] if self._alone else rows
