"""Families of made utility matrices, each with a difficulty of its own for a strategy that estimates its regret.

    for name, family in FAMILIES.items():
        values = family(seed)

Qualities are normal, rho is the root mean square of the remainder over that of the differences, as in
`benchmarks.support.replay.structured`, which makes the plain case.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.typing import NDArray

from benchmarks.support.replay import structured

Floats = NDArray[np.float64]
SLIGHT_ORDER = 0.05  # order bias of families that are about something else


def student(seed: int, size: int, rho: float, freedom: float = 3.0) -> Floats:
    """Heavy tails: the remainder of each pair is Student's t, scaled to the variance that rho asks for."""
    draw = np.random.default_rng(seed)
    remainder = draw.standard_t(freedom, size=(size, size)) / (freedom / (freedom - 2)) ** 0.5
    return _matrix(draw, draw.normal(size=size), rho * remainder)


def rough(seed: int, size: int, rho: float, candidates: int = 10, times: float = 5.0) -> Floats:
    """The pairs of ten candidates have a remainder five times as large as those of the others."""
    draw = np.random.default_rng(seed)
    scales = np.ones(size)
    scales[draw.permutation(size)[:candidates]] = times
    return _matrix(
        draw, draw.normal(size=size), rho * np.maximum.outer(scales, scales) * draw.normal(size=(size, size))
    )


def clustered(seed: int, size: int, rho: float, clusters: int = 8, within: float = 0.1) -> Floats:
    """Near-duplicates: qualities and remainders are those of a few clusters, and a tenth the candidates' own."""
    draw = np.random.default_rng(seed)
    cluster = draw.integers(clusters, size=size)
    quality = draw.normal(size=clusters)[cluster] + within * draw.normal(size=size)
    shared = draw.normal(size=(clusters, clusters))[np.ix_(cluster, cluster)]
    return _matrix(draw, quality, rho * (shared + within * draw.normal(size=(size, size))))


def cyclic(seed: int, size: int, rho: float, rank: int = 2) -> Floats:
    """The remainder is a smooth game without an order, as rock, paper and scissors: x'y - y'x of hidden traits."""
    draw = np.random.default_rng(seed)
    traits = draw.normal(size=(2, size, rank))
    game = traits[0] @ traits[1].T
    game = (game - game.T) / (2 * rank) ** 0.5
    return _matrix(draw, draw.normal(size=size), rho * game)


def slot_biased(seed: int, size: int, rho: float, tau: float = 0.5) -> Floats:
    """An order bias whose square is half a constant and half effects of candidates, as on real lists."""
    draw = np.random.default_rng(seed)
    values = _matrix(draw, draw.normal(size=size), rho * draw.normal(size=(size, size)), order=0.0)
    effects = draw.normal(size=size) / 2
    values += 2**0.5 * tau * (0.5**0.5 + effects[:, None] + effects)
    np.fill_diagonal(values, 0)
    return values


def _matrix(draw: np.random.Generator, quality: Floats, remainder: Floats, order: float = SLIGHT_ORDER) -> Floats:
    """Differences of qualities and, in units of their root mean square, the upper triangle of a remainder."""
    upper = np.triu(remainder, 1)
    spread = float(quality.std()) or 1.0
    values = (quality[:, None] - quality) / spread + 2**0.5 * (upper - upper.T + order)
    np.fill_diagonal(values, 0)
    return np.asarray(values)


FAMILIES: dict[str, Callable[[int], Floats]] = {
    **{f"Gaussian, rho {rho:g}, N = 100": partial(structured, size=100, rho=rho, tau=0.15) for rho in (0.1, 0.5, 2.0)},
    "Gaussian, rho 0.5, tau 0.5, N = 100": partial(structured, size=100, rho=0.5, tau=0.5),
    **{f"clustered, rho {rho:g}, N = 60": partial(clustered, size=60, rho=rho) for rho in (0.1, 0.5)},
    **{f"cyclic, rho {rho:g}, N = 60": partial(cyclic, size=60, rho=rho) for rho in (0.3, 1.0)},
    **{f"slot-biased, rho 0.3, N = {size}": partial(slot_biased, size=size, rho=0.3) for size in (12, 60)},
    **{
        f"Student t3, rho {rho:g}, N = {size}": partial(student, size=size, rho=rho)
        for rho in (0.5, 1.0, 3.0)
        for size in (60, 100)
    },
    **{f"ten rough, rho {rho:g}, N = 60": partial(rough, size=60, rho=rho) for rho in (0.2, 0.5, 1.0)},
}
