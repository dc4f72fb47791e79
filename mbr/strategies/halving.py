"""Correlated sequential halving: spend a fixed number of passes where the decision is close.

In each of ceil(log2 N) rounds all candidates that are left meet the same next pseudo-references, and the better half
stays (Karnin et al. 2013; Baharav & Tse 2019). Because they meet the same ones, what a reference does to everybody
cancels when candidates are compared. What was scored before counts on; for an antisymmetric utility a score of (i, j)
is also one of (j, i), and no pair is scored twice, but for a fiftieth of the passes that measures the order bias.
Work besides the passes: O(N^2), and one fit of the additive model for the estimated regret.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from mbr.matrix import Relation
from mbr.strategies.base import (
    REVERSED,
    Ask,
    Conversation,
    Enough,
    Pairs,
    Segment,
    Strategy,
    all_passes,
    check_budget,
)
from mbr.strategies.half import talk_balanced
from mbr.strategies.references import Sheet

PASSES_PER_CANDIDATE = 10  # the default budget


def halving(budget: int | None = None) -> Strategy:
    """The strategy with a budget of passes per list; by default ten per candidate."""
    check_budget(budget)
    return Strategy(
        "halving",
        "in rounds against common references, the better half stays",
        partial(talk_halving, budget=budget),
        partial(passes_halving, budget=budget),
        rounds=rounds_of,
        uses_seed=True,
        anytime=True,
        settings={"budget": f"{PASSES_PER_CANDIDATE}N" if budget is None else budget},
    )


def passes_halving(size: int, diagonal: int, relation: Relation, *, budget: int | None) -> int:
    return min(PASSES_PER_CANDIDATE * size if budget is None else budget, all_passes(size, diagonal, relation))


def rounds_of(size: int) -> int:
    return (size - 1).bit_length()


def talk_halving(segment: Segment, *, budget: int | None) -> Conversation:
    """Candidates rank by the round they reached, then by their estimate at its end, ties to the earlier.

    Passes left after the last round complete rows, from the best candidate down; rows that are complete are exact.
    With passes enough for everything this is `balanced`, or for other utilities `full`. With fewer than it takes to
    let all meet one reference, only the first few in the order of references take part.
    """
    left = passes_halving(segment.size, int(segment.diagonal.sum()), segment.relation, budget=budget)
    if segment.antisymmetric and left == segment.size * (segment.size - 1) // 2:
        return (yield from talk_balanced(segment))
    sheet = Sheet(segment)
    alive = sheet.references[: sheet.affordable(left)]
    # Only from what is left when all of these can meet a reference.
    reversals = min(int(REVERSED * left), left - len(alive) + 1) if segment.antisymmetric else 0
    left -= sheet.plan_diagonal(alive, left) + reversals
    rounds = rounds_of(len(alive))
    for number in range(1, rounds + 1):
        left -= _plan_round(sheet, alive, rounds - number + 1, left)
        if number == 1:
            left += reversals - sheet.plan_reversals(reversals)
        if len(pairs := sheet.pairs()):
            try:
                sheet.fill((yield Ask(pairs)))
            except Enough:
                return sheet.outcome()
        sheet.settle(alive, number)
        if number < rounds:
            # Who has met nobody yet, being the only reference so far, stays.
            better = np.argsort(-np.nan_to_num(sheet.estimates[alive], nan=np.inf), kind="stable")
            alive = alive[np.sort(better[: (len(alive) + 1) // 2])]
    if left:
        sheet.plan_rows(sheet.ranking(), left)
        try:
            sheet.fill((yield Ask(sheet.pairs())))
        except Enough:
            return sheet.outcome()
        sheet.settle_complete(rounds + 1)
    return sheet.outcome()


def _plan_round(sheet: Sheet, alive: Pairs, rounds: int, left: int) -> int:
    """The next references for all who are left: one if the passes suffice, more within this round's share."""
    share = fair_share(len(alive), rounds, len(sheet.references) - sheet.used, left)
    spent = sheet.plan_reference(alive, left) or 0
    while (passes := sheet.plan_reference(alive, share - spent)) is not None:
        spent += passes
    return spent


def fair_share(alive: int, rounds: int, references: int, passes: int) -> int:
    """Passes for the next of these rounds: the same for each, as far as there are references left to spend them on.

    Every round has at least one more reference. Reused scores make it cheaper than it is planned; what is saved goes
    to later rounds.
    """

    def cost(share: int) -> int:
        total, size, rest = 0, alive, references
        for _ in range(rounds):
            more = min(max(share // size, 1), rest)
            total, size, rest = total + more * size, (size + 1) // 2, rest - more
        return total

    low, high = 0, passes
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if cost(middle) <= passes else (low, middle - 1)
    return low
