"""Confidence pruning (Cheng & Vlachos 2023): more and more references, and whoever has no chance is dropped.

All candidates that are left meet the same 8, 16, 32, ... pseudo-references. After each step the references are drawn
again with replacement, many times; a candidate that beats the best so far in no more than a share of the draws (the
tolerance) is dropped. It ends when one is left, or all references are met. A tolerance of 0 drops nobody.
"""

from __future__ import annotations

from functools import partial

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
from mbr.strategies.half import talk_balanced
from mbr.strategies.references import Sheet

FIRST_STEP = 8
DRAWS = 500


def pruning(tolerance: float | None = None, budget: int | None = None) -> Strategy:
    """The strategy with a tolerance (by default 1 %) and a budget of passes per list (by default no bound)."""
    check_budget(budget)
    tolerance = TOLERANCE if tolerance is None else tolerance
    check_tolerance(tolerance)
    return Strategy(
        "prune",
        "against more and more common references, the hopeless are dropped",
        partial(talk_prune, tolerance=tolerance, budget=budget),
        partial(passes_prune, budget=budget),
        rounds=lambda size: max((size // FIRST_STEP).bit_length(), 1),
        uses_seed=True,
        adaptive=True,
        anytime=True,
        settings={"tol": tolerance, "budget": budget},
    )


def passes_prune(size: int, diagonal: int, relation: Relation, *, budget: int | None) -> int:
    everything = all_passes(size, diagonal, relation)
    return everything if budget is None else min(budget, everything)


def talk_prune(segment: Segment, *, tolerance: float, budget: int | None) -> Conversation:
    """Candidates rank by how long they stayed, then by their estimate, ties to the earlier.

    A budget that ends within a step buys as many of its references as it can.
    """
    left = passes_prune(segment.size, int(segment.diagonal.sum()), segment.relation, budget=budget)
    if segment.antisymmetric and tolerance == 0 and left == segment.size * (segment.size - 1) // 2:
        return (yield from talk_balanced(segment))
    sheet = Sheet(segment)
    draw = np.random.default_rng(int(segment.draws.min() * 2**52))
    alive = sheet.references[: sheet.affordable(left)]
    left -= sheet.plan_diagonal(alive, left)
    target = FIRST_STEP
    number = 0
    regret = np.inf
    while True:
        number += 1
        begun = sheet.used
        while sheet.used < target and (passes := sheet.plan_reference(alive, left)) is not None:
            left -= passes
        if number == 1 and segment.antisymmetric:
            left -= sheet.plan_reversals(min(reversals(len(sheet.pairs())), left))
        if len(pairs := sheet.pairs()):
            try:
                sheet.fill((yield Ask(pairs, regret)))
            except Enough:
                return sheet.outcome()
        sheet.settle(alive, number)
        if sheet.used < target or sheet.used in (begun, len(sheet.references)):
            return sheet.outcome()
        alive = alive[_wins(sheet, alive, draw) > tolerance] if tolerance else alive
        if len(alive) < 2:
            return sheet.outcome()
        target = min(2 * target, len(sheet.references))
        known = sheet.certainty().estimated_regret
        regret = np.inf if known is None else known


def _wins(sheet: Sheet, alive: Pairs, draw: np.random.Generator) -> Floats:
    """In what share of draws of the references each is as good as the best so far."""
    values, shares, divisors = sheet.compare(alive)
    often = draw.multinomial(sheet.used, np.full(sheet.used, 1 / sheet.used), size=DRAWS).T  # [used, draws]
    with np.errstate(invalid="ignore"):  # a reference that was drawn alone has no others to be measured by
        means = (values * shares) @ often / (divisors @ often)
    best = int(np.nan_to_num(sheet.estimates[alive], nan=-np.inf).argmax())
    return np.asarray((np.nan_to_num(means, nan=-np.inf) >= np.nan_to_num(means[best], nan=-np.inf)).mean(axis=1))
