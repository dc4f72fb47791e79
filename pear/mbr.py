"""Utility matrices for MBR with the function names of pear-mt 1.1.1.

These functions give pear-mt's numbers entry by entry, including the non-zero entries it has for equal texts at
different places. For decoding itself use `mbr`, which treats equal texts as one candidate.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from candidates.common.errors import UsageError
from pear.inference import Predictor, score_pairwise


def pear_utility_matrix(
    model: Predictor,
    source: str,
    hypotheses: Sequence[str],
    *,
    mode: Literal["half", "full"] = "half",
    batch_size: int = 8,
    gpus: int | str = "auto",
    progress_bar: bool = True,
) -> NDArray[np.float32]:
    """[n, n], entry (i, j) = PEAR(source, i, j); `half` scores i < j and fills the rest by antisymmetry."""
    if mode not in ("half", "full"):
        raise UsageError(f"mode {mode!r} is unknown; mode must be 'half' or 'full'")
    n = len(hypotheses)
    first, second = np.triu_indices(n, k=1) if mode == "half" else np.nonzero(~np.eye(n, dtype=bool))
    matrix = np.zeros((n, n), np.float32)
    if not len(first):
        return matrix
    scores = score_pairwise(
        model,
        [source] * len(first),
        [hypotheses[i] for i in first.tolist()],
        [hypotheses[j] for j in second.tolist()],
        batch_size=batch_size,
        gpus=gpus,
        progress_bar=progress_bar,
    )
    matrix[first, second] = np.asarray(scores, np.float32)
    if mode == "half":
        matrix[second, first] = -matrix[first, second]
    return matrix


def select_mbr_hypothesis(utility_matrix: NDArray[np.floating]) -> tuple[int, float]:
    """Index and expected utility (row sum over n - 1) of the best hypothesis."""
    utilities = utility_matrix.sum(axis=1) / max(utility_matrix.shape[0] - 1, 1)
    index = int(np.argmax(utilities))
    return index, float(utilities[index])
