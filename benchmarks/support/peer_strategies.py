"""Decision rules of other programs under a budget of passes, to replay on complete utility matrices.

In: values [N, N], the utility of hypothesis i against pseudo-reference j, a budget and a random generator. Out: a
ranking, and the passes it took. No rule reads an entry that it has not scored, or scores one twice. Of an antisymmetric
utility a pair is scored in one random order, u(j, i) = -u(i, j) and u(i, i) = 0 are free; of any other u(i, i) is an
entry like all. Weights enter as mbrs's `reference_lprobs` do: references are drawn uniformly, and the means over them
are weighted. Ties go to the earlier; a hypothesis that was never scored has estimate 0. Facts about mbrs are from the
sources of version 0.1.8 (`decoders/pruning_mbr.py`, `decoders/probabilistic_mbr.py`, `modules/als.py`).

    >>> values = np.subtract.outer(np.arange(9.0), np.arange(9.0))
    >>> random_anchors(values, 20, np.random.default_rng(0), antisymmetric=True)
    Replay(ranking=array([8, 7, 6, 5, 4, 3, 2, 1, 0]), passes=15)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.floating[Any]]
Floats = NDArray[np.float64]
Indices = NDArray[np.intp]

# mbrs 0.1.8, DecoderProbabilisticMBR.Config; the tolerance is that of MatrixFactorizationALS.factorize.
RANK = 8
REGULARISATION = 0.1
ITERATIONS = 10
TOLERANCE = 1e-4
# mbrs 0.1.8, DecoderPruningMBR.Config.
ALPHA = 0.99
SCHEDULE = (8, 16, 32, 64, 128, 256)
BOOTSTRAP_DRAWS = 500


@dataclass(frozen=True)
class Replay:
    """All hypotheses, best first, and the number of entries scored."""

    ranking: Indices
    passes: int


def random_anchors(
    values: Values, budget: int, draw: np.random.Generator, *, antisymmetric: bool, weights: Floats | None = None
) -> Replay:
    """N-by-S (Eikema & Aziz 2022): the mean over S random references, the same for all, S as the budget allows.

    A reference is scored for all hypotheses or none, so up to N - 1 passes stay unspent. O(N S).
    """
    sheet = _Sheet(values, budget, draw, antisymmetric)
    order = draw.permutation(len(values))
    anchors = order[: sheet.meet(np.arange(len(values)), order)]
    expected = _means(sheet.scores[:, anchors], _weights(weights, values)[anchors])
    return Replay(_best_first(expected), sheet.passes)


def low_rank(
    values: Values,
    budget: int,
    draw: np.random.Generator,
    *,
    antisymmetric: bool,
    weights: Floats | None = None,
    rank: int = RANK,
    regularisation: float = REGULARISATION,
) -> Replay:
    """Row means of the matrix completed from random entries (Trabelsi et al. 2024), as mbrs's `probabilistic_mbr`.

    Alternating least squares with mbrs's defaults: rank 8, regularisation 0.1, at most 10 iterations, fewer once the
    loss falls by no more than 1e-4. As there, observed entries are replaced by their reconstruction too, and nothing is
    completed if everything is observed. O(N^2 rank^2) per iteration.
    """
    sheet = _Sheet(values, budget, draw, antisymmetric)
    sheet.score_at_random()
    completed = sheet.scores if sheet.seen.all() else _completed(sheet.scores, sheet.seen, draw, rank, regularisation)
    return Replay(_best_first(_means(completed, _weights(weights, values))), sheet.passes)


def confidence_pruning(
    values: Values, budget: int, draw: np.random.Generator, *, antisymmetric: bool, weights: Floats | None = None
) -> Replay:
    """More and more references for fewer and fewer hypotheses (Cheng & Vlachos 2023), as mbrs's `pruning_mbr`.

    Once all remaining hypotheses have met 8, 16, 32 ... 256 random references, those are pruned whose mean is at least
    that of the best in no more than 1% of 500 bootstrap draws of these references. It ends with one hypothesis left
    (mbrs would score it against more references, to no effect), with all references met, or when the budget does not
    suffice for the next reference; an incomplete step counts for the means, but prunes none. So with a budget below
    the 8 references of the first step it is `random_anchors`. Hypotheses pruned later rank higher, then the last mean
    decides. O(500 N r) per step.
    """
    sheet = _Sheet(values, budget, draw, antisymmetric)
    reference_weights = _weights(weights, values)
    order = draw.permutation(len(values))
    alive = np.arange(len(values))
    expected = np.zeros(len(values))
    survived = np.zeros(len(values), np.intp)
    used = 0
    for size in SCHEDULE:
        used += sheet.meet(alive, order[used:size])
        references = order[:used]
        scores = sheet.scores[np.ix_(alive, references)]
        expected[alive] = _means(scores, reference_weights[references])
        if used < min(size, len(order)):
            break
        drawn = draw.multinomial(used, np.full(used, 1 / used), size=BOOTSTRAP_DRAWS)  # [draws, references]
        # [alive, draws]; their divisor is the same for all alive
        sums = scores @ (drawn * reference_weights[references]).T
        wins = (sums >= sums[expected[alive].argmax()]).mean(axis=1)
        alive = alive[wins > 1 - ALPHA]
        survived[alive] += 1
        if len(alive) == 1 or used == len(order):
            break
    return Replay(np.lexsort((-expected, -survived)), sheet.passes)


def plain_random_pairs(
    values: Values, budget: int, draw: np.random.Generator, *, antisymmetric: bool, weights: Floats | None = None
) -> Replay:
    """The naive baseline: random unordered pairs, and the mean of what each hypothesis has met, u(i, i) left out."""
    if not antisymmetric:
        raise ValueError("a utility without antisymmetry has no unordered pairs; expected antisymmetric=True")
    sheet = _Sheet(values, budget, draw, antisymmetric)
    sheet.score_at_random()
    counted = np.where(sheet.seen & ~np.eye(len(values), dtype=np.bool_), _weights(weights, values), 0)
    whole = counted.sum(axis=1)
    expected = np.divide((sheet.scores * counted).sum(axis=1), whole, out=np.zeros(len(values)), where=whole > 0)
    return Replay(_best_first(expected), sheet.passes)


class _Sheet:
    """The entries scored so far: scores [N, N], 0 where not seen. Nothing else reads the values."""

    def __init__(self, values: Values, budget: int, draw: np.random.Generator, antisymmetric: bool) -> None:
        if budget < 0:
            raise ValueError(f"a budget of {budget} passes; expected 0 or more")
        size = len(values)
        self.scores = np.zeros((size, size))
        self.seen = np.diag(np.full(size, antisymmetric))
        self.passes = 0
        self._values = values
        self._budget = budget
        self._draw = draw
        self._antisymmetric = antisymmetric

    def meet(self, hypotheses: Indices, references: Indices) -> int:
        """All of these hypotheses against one reference after the other; returns how many fit into the budget."""
        for count, reference in enumerate(references):
            new = hypotheses[~self.seen[hypotheses, reference]]
            if self.passes + len(new) > self._budget:
                return count
            self._score(new, np.full(len(new), reference))
        return len(references)

    def score_at_random(self) -> None:
        """As many entries, or unordered pairs, as fit into the budget, all equally likely."""
        first, second = (~np.tri(len(self.seen), dtype=np.bool_) if self._antisymmetric else ~self.seen).nonzero()
        chosen = self._draw.permutation(len(first))[: self._budget]
        self._score(first[chosen], second[chosen])

    def _score(self, first: Indices, second: Indices) -> None:
        if self._antisymmetric:
            swap = self._draw.random(len(first)) < 0.5
            first, second = np.where(swap, second, first), np.where(swap, first, second)
        scores = self._values[first, second]
        self.passes += len(first)
        self.scores[first, second] = scores
        self.seen[first, second] = True
        if self._antisymmetric:
            self.scores[second, first] = -scores
            self.seen[second, first] = True


def _weights(weights: Floats | None, values: Values) -> Floats:
    return np.ones(len(values)) if weights is None else weights


def _means(scores: Floats, weights: Floats) -> Floats:
    """Weighted means of rows; 0 where all weights are 0."""
    whole = weights.sum()
    return np.asarray(scores @ weights / whole if whole > 0 else np.zeros(len(scores)))


def _best_first(expected: Floats) -> Indices:
    return np.argsort(-expected, kind="stable")


def _completed(
    scores: Floats, seen: NDArray[np.bool_], draw: np.random.Generator, rank: int, regularisation: float
) -> Floats:
    """The product of factors [N, rank] that approximates the entries seen, with a penalty on their squares.

    The start is that of mbrs: uniform in [0, 1), divided by sqrt(N rank).
    """
    right = draw.random((len(scores), rank)) / (len(scores) * rank) ** 0.5
    loss = np.inf
    for _ in range(ITERATIONS):
        left = _ridge(scores, seen, right, regularisation)
        right = _ridge(scores.T, seen.T, left, regularisation)
        completed = left @ right.T
        before, loss = loss, ((completed - scores)[seen] ** 2).sum()
        loss += regularisation * ((left**2).sum() + (right**2).sum())
        if before - loss <= TOLERANCE:
            break
    return np.asarray(completed)


def _ridge(targets: Floats, seen: NDArray[np.bool_], features: Floats, regularisation: float) -> Floats:
    """Coefficients [N, rank] of each row of targets, as far as seen and 0 elsewhere, on the features [N, rank]."""
    products = (features[:, :, None] * features[:, None, :]).reshape(len(features), -1)
    rank = features.shape[1]
    grams = (seen.astype(np.float64) @ products).reshape(-1, rank, rank) + regularisation * np.eye(rank)
    return np.asarray(np.linalg.solve(grams, (targets @ features)[:, :, None])[:, :, 0])
