"""The diagnostics of a complete matrix: rho and tau, exactly.

They are properties of the utility, so terms do not enter. A matrix with both orders of every pair has no regret and one
contender, whatever the terms; what one order may lose, `mbr.strategies.one_order` estimates.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from mbr.matrix import row_blocks
from mbr.strategies.base import Floats, Outcome, Segment


def with_diagnostics(outcome: Outcome, segment: Segment, bias: Floats | None = None) -> Outcome:
    """An outcome that has all scores, with its rho, and its tau where both orders were scored. Work: O(N^2).

    `bias` holds the order biases of pairs, where the outcome has one order of each.
    """
    size = segment.size
    pairs = size * (size - 1)
    blocks = list(row_blocks(size, size))

    def values(rows: slice) -> Floats:
        """The antisymmetric part of some rows, or the rows with a diagonal of 0 [rows, N]."""
        part = outcome.values[rows].astype(np.float64)
        if segment.antisymmetric:
            return np.asarray((part - outcome.values[:, rows].T) / 2)
        np.fill_diagonal(part[:, rows], 0)
        return part

    if segment.antisymmetric:
        qualities = np.concatenate([values(rows).mean(axis=1) for rows in blocks])
        references = -qualities
    elif size < 3:
        return outcome
    else:
        by_row = np.concatenate([values(rows).sum(axis=1) for rows in blocks])
        by_column = np.sum([values(rows).sum(axis=0) for rows in blocks], axis=0)
        qualities = _round_robin(by_row, by_column)
        references = _round_robin(by_column, by_row) + by_row.sum() / pairs
    differences = residuals = 0.0
    for rows in blocks:
        off_diagonal = np.ones((rows.stop - rows.start, size), np.bool_)
        np.fill_diagonal(off_diagonal[:, rows], False)
        own = qualities[rows, None]
        differences += float(((own - qualities)[off_diagonal] ** 2).sum())
        residuals += float(((values(rows) - (own + references))[off_diagonal] ** 2).sum())
    if differences == 0:
        return outcome
    rho = float(np.sqrt(residuals / differences))
    if bias is None and segment.antisymmetric:
        bias = order_bias(outcome.values, outcome.scored)
    tau = None if bias is None or not len(bias) else float(np.sqrt((bias**2).mean() / (differences / pairs)))
    return replace(outcome, certainty=replace(outcome.certainty, rho=rho, tau=tau))


def order_bias(values: NDArray[np.floating], scored: NDArray[np.bool_]) -> Floats | None:
    """Half the sum of both orders of a pair, for pairs scored in both; zero for an exactly antisymmetric utility."""
    first, second = np.nonzero(np.triu(scored & scored.T, 1))
    return (values[first, second].astype(np.float64) + values[second, first]) / 2 if len(first) else None


def _round_robin(by_row: Floats, by_column: Floats) -> Floats:
    """Row effects of a matrix without its diagonal, from its sums, by least squares, centred."""
    size = len(by_row)
    effects = (size - 1) * by_row + by_column
    return np.asarray((effects - effects.mean()) / (size * (size - 2)))
