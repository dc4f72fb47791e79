"""Confidence pruning (Cheng & Vlachos 2023): more and more references, and candidates without a chance are dropped.

All remaining candidates meet the same 8, 16, 32, ... pseudo-references. After each step the references are resampled
with replacement, many times; a candidate that beats the best so far in at most a share of the samples (the
tolerance) is dropped. It ends when one is left, or all references are used. A tolerance of 0 drops none.
Work besides the passes: O(N^2) per bootstrap sample, and one fit of the additive model per step, O(N^3).
"""

from __future__ import annotations

from functools import partial
from typing import Annotated

import numpy as np

from mbr.matrix import Relation
from mbr.strategies.base import (
    TOLERANCE,
    Ask,
    Conversation,
    Enough,
    Floats,
    Pairs,
    Segment,
    Strategy,
    all_passes,
    check_budget,
    check_tolerance,
    reversals,
)
from mbr.strategies.elimination import Elimination
from mbr.strategies.half import balanced_conversation

FIRST_STEP = 8
DRAWS = 500

Tolerance = Annotated[float, f"drop candidates with at most this probability of being the best (default: {TOLERANCE})"]
Budget = Annotated[int | None, "passes per list, at most (default: unlimited)"]


def prune(tolerance: Tolerance = TOLERANCE, budget: Budget = None) -> Strategy:
    check_budget(budget)
    check_tolerance(tolerance)
    return Strategy(
        "prune",
        "against more and more common references, unlikely candidates are dropped",
        partial(prune_conversation, tolerance=tolerance, budget=budget),
        partial(prune_passes, budget=budget),
        rounds=lambda size: max((size // FIRST_STEP).bit_length(), 1),
        uses_seed=True,
        adaptive=True,
        anytime=True,
        settings={"tol": tolerance, "budget": budget},
    )


def prune_passes(size: int, diagonal: int, relation: Relation, *, budget: int | None) -> int:
    everything = all_passes(size, diagonal, relation)
    return everything if budget is None else min(budget, everything)


def prune_conversation(segment: Segment, *, tolerance: float, budget: int | None) -> Conversation:
    """Candidates rank by how long they stayed, then by their estimate, ties to the earlier.

    A budget that ends within a step buys as many of its references as possible.
    """
    left = prune_passes(segment.size, int(segment.diagonal.sum()), segment.relation, budget=budget)
    pairs_in_all = segment.size * (segment.size - 1) // 2
    if segment.antisymmetric and tolerance == 0 and left >= pairs_in_all:
        return (yield from balanced_conversation(segment, checks=left - pairs_in_all))
    elimination = Elimination(segment)
    draw = np.random.default_rng(int(segment.draws.min() * 2**52))
    remaining = elimination.affordable(left)
    left -= elimination.plan_diagonal(remaining, left)
    target = FIRST_STEP
    number = 0
    regret = np.inf
    while True:
        number += 1
        begun = elimination.used
        while elimination.used < target and (passes := elimination.plan_reference(remaining, left)) is not None:
            left -= passes
        if number == 1 and segment.antisymmetric:
            left -= elimination.plan_reversals(min(reversals(len(elimination.pairs())), left))
        if len(pairs := elimination.pairs()):
            try:
                elimination.fill((yield Ask(pairs, regret)))
            except Enough:
                return elimination.outcome()
        elimination.settle(remaining, number)
        if elimination.used < target or elimination.used in (begun, len(elimination.references)):
            return elimination.outcome()
        remaining = remaining[_wins(elimination, remaining, draw) > tolerance] if tolerance else remaining
        if len(remaining) < 2:
            return elimination.outcome()
        target = min(2 * target, len(elimination.references))
        estimated_regret = elimination.certainty().estimated_regret
        regret = np.inf if estimated_regret is None else estimated_regret


def _wins(elimination: Elimination, remaining: Pairs, draw: np.random.Generator) -> Floats:
    """The share of bootstrap samples of the references in which each is as good as the best so far."""
    scores = np.nan_to_num(elimination.resample(remaining, draw, DRAWS), nan=-np.inf)  # [draws, remaining]
    best = int(np.nan_to_num(elimination.estimates[remaining], nan=-np.inf).argmax())
    return np.asarray((scores >= scores[:, [best]]).mean(axis=0))
