"""Correlated sequential halving: spend a fixed number of passes where the decision is close.

In each of ceil(log2 N) rounds all remaining candidates meet the same next pseudo-references, and the better half
stays (Karnin et al. 2013; Baharav & Tse 2019). Because they meet the same ones, effects of a reference on all
candidates cancel when candidates are compared. Earlier scores are kept; for an antisymmetric utility a score of (i, j)
is also one of (j, i), and no pair is scored twice, except 2 % of the passes that measure the order bias.
Work besides the passes: O(N^2), and one fit of the additive model for the estimated regret, O(N^3).
"""

from __future__ import annotations

from functools import partial
from typing import Annotated

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
from mbr.strategies.elimination import Elimination
from mbr.strategies.half import balanced_conversation

PASSES_PER_CANDIDATE = 10  # the default budget

Budget = Annotated[int | None, f"passes per list, exactly (default: {PASSES_PER_CANDIDATE} per candidate)"]


def halving(budget: Budget = None) -> Strategy:
    check_budget(budget)
    return Strategy(
        "halving",
        "in rounds against common references, the better half stays",
        partial(halving_conversation, budget=budget),
        partial(halving_passes, budget=budget),
        rounds=rounds_of,
        uses_seed=True,
        anytime=True,
        settings={"budget": f"{PASSES_PER_CANDIDATE}N" if budget is None else budget},
    )


def halving_passes(size: int, diagonal: int, relation: Relation, *, budget: int | None) -> int:
    return min(PASSES_PER_CANDIDATE * size if budget is None else budget, all_passes(size, diagonal, relation))


def rounds_of(size: int) -> int:
    return (size - 1).bit_length()


def halving_conversation(segment: Segment, *, budget: int | None) -> Conversation:
    """Candidates rank by the round they reached, then by their estimate at its end, ties to the earlier.

    Passes left after the last round complete rows, from the best candidate down; complete rows are exact. With a
    budget for all pairs this is `balanced`, or for other utilities `full`. With a budget too small for all candidates
    to meet one reference, only those with the best terms take part, or without terms a random few.
    """
    left = halving_passes(segment.size, int(segment.diagonal.sum()), segment.relation, budget=budget)
    pairs_in_all = segment.size * (segment.size - 1) // 2
    if segment.antisymmetric and left >= pairs_in_all:
        return (yield from balanced_conversation(segment, checks=left - pairs_in_all))
    elimination = Elimination(segment)
    remaining = elimination.affordable(left)
    # Only from passes that remain when all of these can meet a reference.
    reversals = min(int(REVERSED * left), left - len(remaining) + 1) if segment.antisymmetric else 0
    left -= elimination.plan_diagonal(remaining, left) + reversals
    rounds = rounds_of(len(remaining))
    for number in range(1, rounds + 1):
        left -= _plan_round(elimination, remaining, rounds - number + 1, left)
        if number == 1:
            left += reversals - elimination.plan_reversals(reversals)
        if len(pairs := elimination.pairs()):
            try:
                elimination.fill((yield Ask(pairs)))
            except Enough:
                return elimination.outcome()
        elimination.settle(remaining, number)
        if number < rounds:
            # A candidate without a comparison, being the only reference so far, stays.
            better = np.argsort(-np.nan_to_num(elimination.estimates[remaining], nan=np.inf), kind="stable")
            remaining = remaining[np.sort(better[: (len(remaining) + 1) // 2])]
    if left:
        elimination.plan_rows(elimination.ranking(), left)
        try:
            elimination.fill((yield Ask(elimination.pairs())))
        except Enough:
            return elimination.outcome()
        elimination.settle_complete(rounds + 1)
    return elimination.outcome()


def _plan_round(elimination: Elimination, remaining: Pairs, rounds: int, left: int) -> int:
    """The next references for all that remain: one if the passes suffice, more within this round's share."""
    share = fair_share(len(remaining), rounds, len(elimination.references) - elimination.used, left)
    spent = elimination.plan_reference(remaining, left) or 0
    while (passes := elimination.plan_reference(remaining, share - spent)) is not None:
        spent += passes
    return spent


def fair_share(remaining: int, rounds: int, references: int, passes: int) -> int:
    """Passes for the next of these rounds: the same for each, as far as there are references left to spend them on.

    Every round has at least one more reference. Reused scores make a round cheaper than planned; the saved passes go
    to later rounds.
    """

    def cost(share: int) -> int:
        total, size, unused = 0, remaining, references
        for _ in range(rounds):
            more = min(max(share // size, 1), unused)
            total, size, unused = total + more * size, (size + 1) // 2, unused - more
        return total

    low, high = 0, passes
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if cost(middle) <= passes else (low, middle - 1)
    return low
