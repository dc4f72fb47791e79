"""COMET with references (`regression_metric`): COMET-22 and all that are built like it.

Each text has a vector of its own: the score of (source, hypothesis, reference) is a feed-forward estimate from
[h; r; h*r; |h-r|; h*s; |h-s|]. So N candidates need N + 1 encoder passes, and all N x N pairs only the estimator. Its
first layer splits exactly: the parts of h and s are computed once per hypothesis, that of r once per reference, and of
the two parts left, which are the same for (h, r) and (r, h), each unordered pair is computed once.

    with Comet(model="comet-folder") as comet:
        comet.score([("A dog.", "Ein Hund.", "Der Hund.")])
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from mbr.metrics.vectors import VectorMetric

if TYPE_CHECKING:
    import torch


class Comet(VectorMetric):
    """A regression checkpoint with references. Options: `ModelOptions`."""

    name = "comet"
    default = "wmt22-comet-da"
    summary = "COMET: learned, from vectors of source, hypothesis and reference"
    needs = "a checkpoint (--model); else Unbabel/wmt22-comet-da from the hub"
    kind = "regression_metric"
    width = 6

    def estimate(self, *vectors: torch.Tensor) -> NDArray[np.float32]:
        import torch

        source, mt, reference = vectors
        with torch.inference_mode():
            features = torch.cat(
                (mt, reference, mt * reference, (mt - reference).abs(), mt * source, (mt - source).abs()), dim=1
            )
            scores: NDArray[np.float32] = self._runner.network.estimator(features).cpu().numpy()
        return scores

    def all_pairs(
        self, source: torch.Tensor, hypotheses: torch.Tensor, references: torch.Tensor | None = None
    ) -> NDArray[np.float32]:
        """Scores [hypotheses, references] of all pairs of vectors; without references, of the hypotheses themselves."""
        import torch

        from pear.runtime.batches import in_chunks

        with torch.inference_mode():
            first, *rest = self._runner.network.estimator.ff
            w_mt, w_ref, w_product, w_difference, w_source, w_distance = first.weight.T.split(
                self._hidden
            )  # [hidden, .]
            of_mt = hypotheses @ w_mt + (hypotheses * source) @ w_source + (hypotheses - source).abs() @ w_distance
            of_mt += first.bias
            same = references is None
            others = hypotheses if references is None else references
            of_reference = others @ w_ref
            of_pair = torch.cat([w_product, w_difference])
            row, column = _pairs(len(hypotheses), len(others), same, hypotheses.device)
            scores = torch.empty(len(hypotheses), len(others), device=hypotheses.device)

            def work(left: int, right: int) -> None:
                i, j = row[left:right], column[left:right]
                h, r = hypotheses[i], others[j]
                shared = torch.cat([h * r, (h - r).abs()], dim=1) @ of_pair
                scores[i, j] = _through(rest, shared + of_mt[i] + of_reference[j])
                if same:
                    scores[j, i] = _through(rest, shared.add_(of_mt[j]).add_(of_reference[i]))

            in_chunks(len(row), self._chunk() // (2 * self._hidden + 2 * first.out_features), work)
            result: NDArray[np.float32] = scores.cpu().numpy()
        return result


def _pairs(hypotheses: int, references: int, same: bool, device: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """Which pairs to compute: all, or each unordered one once."""
    import torch

    if same:
        row, column = torch.triu_indices(hypotheses, hypotheses, device=device)
        return row, column
    row = torch.arange(hypotheses, device=device).repeat_interleave(references)
    return row, torch.arange(references, device=device).repeat(hypotheses)


def _through(layers: Sequence[Any], values: torch.Tensor) -> torch.Tensor:
    for layer in layers:
        values = layer(values)
    return values.squeeze(-1)
