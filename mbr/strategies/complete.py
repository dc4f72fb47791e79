"""The diagnostics of a complete matrix: rho and tau, exactly.

They are properties of the utility, so terms do not enter. A matrix with both orders of every pair has no regret and one
contender, whatever the terms; what one order may lose, `mbr.strategies.one_order` estimates.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from mbr.strategies.base import Floats, Outcome, Segment


def with_diagnostics(outcome: Outcome, segment: Segment, bias: Floats | None = None) -> Outcome:
    """An outcome that has all scores, with its rho, and its tau where both orders were scored. Work: O(N^2).

    `bias` holds the order biases of pairs, where the outcome has one order of each.
    """
    size = segment.size
    off_diagonal = ~np.eye(size, dtype=np.bool_)
    values = outcome.values.astype(np.float64)
    if segment.antisymmetric:
        values = (values - values.T) / 2
        qualities = values.mean(axis=1)
        additive = qualities[:, None] - qualities
    elif size < 3:
        return outcome
    else:
        values = np.where(off_diagonal, values, 0)
        qualities, references = (_round_robin(table) for table in (values, values.T))
        additive = qualities[:, None] + references + values.sum() / (size * (size - 1))
    differences = float(((qualities[:, None] - qualities)[off_diagonal] ** 2).mean())
    if differences == 0:
        return outcome
    rho = float(np.sqrt(((values - additive)[off_diagonal] ** 2).mean() / differences))
    if bias is None and segment.antisymmetric:
        bias = order_bias(outcome.values, outcome.scored)
    tau = None if bias is None or not len(bias) else float(np.sqrt((bias**2).mean() / differences))
    return replace(outcome, certainty=replace(outcome.certainty, rho=rho, tau=tau))


def order_bias(values: NDArray[np.floating], scored: NDArray[np.bool_]) -> Floats | None:
    """Half the sum of both orders of a pair, for pairs scored in both; zero for an exactly antisymmetric utility."""
    first, second = np.nonzero(np.triu(scored & scored.T, 1))
    return (values[first, second].astype(np.float64) + values[second, first]) / 2 if len(first) else None


def _round_robin(values: Floats) -> Floats:
    """Row effects of a matrix without its diagonal (which is 0 here), by least squares, centred."""
    size = len(values)
    rows, columns = values.sum(axis=1), values.sum(axis=0)
    effects = (size - 1) * rows + columns
    return np.asarray((effects - effects.mean()) / (size * (size - 2)))
