"""CometKiwi (`unified_metric` on hypothesis and source): quality without a reference, one pass per candidate."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Unpack

import numpy as np
from numpy.typing import NDArray

from candidates.common.errors import ModelError
from mbr.metrics.base import NeuralMetric, Row
from pear.runtime.options import ModelOptions


class CometKiwi(NeuralMetric):
    """A unified checkpoint that can do without references. Options: `ModelOptions`."""

    name = "cometkiwi"
    default = "wmt22-cometkiwi-da"
    summary = "CometKiwi: learned quality estimation, no reference"
    family = "comet"
    needs = "a checkpoint (--model); else Unbabel/wmt22-cometkiwi-da from the hub (not for commercial use)"
    takes = (2,)

    def __init__(self, **options: Unpack[ModelOptions]) -> None:
        from mbr.metrics.comet_network import load_comet
        from mbr.metrics.joint import JointEncoder

        checkpoint = load_comet(self.name, {"unified_metric": 1}, self.default, **options)
        segments = checkpoint.hparams.get("input_segments", ["mt", "src", "ref"])
        if "src" not in segments:
            raise ModelError(
                f"{checkpoint.name} reads {' and '.join(segments)}; cometkiwi has no references to give it, unite has"
            )
        self._joint = JointEncoder(checkpoint, options)
        self._hold(checkpoint.name, checkpoint.files, self._joint.runner, self._joint.max_tokens)

    def score(self, rows: Sequence[Row], *, progress: bool = False) -> NDArray[np.float32]:
        if not rows:
            return np.empty(0, np.float32)
        inputs = self._inputs(rows)
        passed = self._joint.run(inputs, label="CometKiwi" if progress else None)
        return np.array([passed[texts].score for texts in inputs], np.float32)

    def truncated(self, rows: Sequence[Row]) -> NDArray[np.bool_]:
        return self._joint.truncated(self._inputs(rows)) if rows else np.zeros(0, np.bool_)

    def tokens(self, rows: Sequence[Row]) -> int:
        return self._joint.tokens(self._inputs(rows)) if rows else 0

    def _inputs(self, rows: Sequence[Row]) -> list[tuple[str, ...]]:
        self.texts_per_row(rows)
        return [(hypothesis, source) for source, hypothesis in rows]
