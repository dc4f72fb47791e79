"""COMET without references (`referenceless_regression_metric`): COMET-QE of WMT20 and WMT21.

Hypothesis and source have a vector each; the score is a feed-forward estimate from [h; s; h*s; |h-s|]. N candidates of
one source need N + 1 encoder passes.

    with CometQE(model="comet-qe-folder") as comet:
        comet.score([("A dog.", "Ein Hund.")])
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from mbr.metrics.vectors import VectorMetric

if TYPE_CHECKING:
    import torch


class CometQE(VectorMetric):
    """A regression checkpoint without references. Options: `ModelOptions`."""

    name = "comet-qe"
    default = "wmt20-comet-qe-da"
    summary = "COMET-QE: learned, from vectors of source and hypothesis, no reference"
    needs = "a checkpoint (--model); else Unbabel/wmt20-comet-qe-da from the hub"
    takes = (2,)
    kind = "referenceless_regression_metric"
    width = 4

    def estimate(self, *vectors: torch.Tensor) -> NDArray[np.float32]:
        import torch

        source, mt = vectors
        with torch.inference_mode():
            features = torch.cat((mt, source, mt * source, (mt - source).abs()), dim=1)
            scores: NDArray[np.float32] = self._runner.network.estimator(features).cpu().numpy()
        return scores
