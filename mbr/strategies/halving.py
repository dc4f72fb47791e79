"""Correlated sequential halving: spend a fixed number of passes where the decision is close.

In each of ceil(log2 N) rounds all candidates that are left meet the same next pseudo-references, and the better half
stays (Karnin et al. 2013; Baharav & Tse 2019). Because they meet the same ones, what a reference does to everybody
cancels when candidates are compared. What was scored before counts on; for an antisymmetric utility a score of (i, j)
is also one of (j, i), and no pair is scored twice. Work besides the passes: O(N^2).

References come in the order of priority sampling (Duffield, Lund & Thorup 2007): by weight over a uniform random
number. With t the priority of the first one not used, sum_j max(w_j, t) u(i, j) over those used estimates
sum_j w_j u(i, j) without bias, for any weights, after any number of references: heavy ones are certain to be met and
count with their weight, the others stand for those like them. A plain mean over draws by weight without replacement
would favour light references, and weights in a mean over uniform draws would waste passes on them. The sum is divided
by that of the same max(w_j, t), which keeps the level of the estimates and, being the same for all, changes no
comparison (without antisymmetry a candidate that is itself a reference is measured by the other ones, and the divisor
follows). With equal weights it is a plain mean over random references; once all are met it is exact.
"""

from __future__ import annotations

from functools import partial

import numpy as np
from numpy.typing import NDArray

from candidates.errors import UsageError
from mbr.matrix import Relation
from mbr.strategies.base import Conversation, Outcome, Pairs, Scores, Segment, Strategy
from mbr.strategies.half import talk_balanced

Floats = NDArray[np.float64]

PASSES_PER_CANDIDATE = 10  # the default budget


def with_budget(budget: int | None = None) -> Strategy:
    """The strategy with a budget of passes per list; by default ten per candidate."""
    if budget is not None and budget < 1:
        raise UsageError(f"a budget of {budget} passes decides nothing; expected a positive number")
    return Strategy(
        "halving",
        "in rounds against common references, the better half stays",
        partial(talk_halving, budget=budget),
        partial(passes_halving, budget=budget),
        uses_seed=True,
        settings={"budget": f"{PASSES_PER_CANDIDATE}N" if budget is None else budget},
    )


def passes_halving(size: int, diagonal: int, relation: Relation, *, budget: int | None) -> int:
    pairs = size * (size - 1)
    everything = pairs // 2 if relation == "antisymmetric" else pairs + diagonal
    return min(PASSES_PER_CANDIDATE * size if budget is None else budget, everything)


def talk_halving(segment: Segment, *, budget: int | None) -> Conversation:
    """Candidates rank by the round they reached, then by their estimate at its end, ties to the earlier.

    Passes left after the last round complete rows, from the best candidate down; rows that are complete are exact.
    With passes enough for everything this is `balanced`, or for other utilities `full`. With fewer than it takes to
    let all meet one reference, only the first few in the order of references take part.
    """
    left = passes_halving(segment.size, int(segment.diagonal.sum()), segment.relation, budget=budget)
    if segment.relation == "antisymmetric" and left == segment.size * (segment.size - 1) // 2:
        return (yield from talk_balanced(segment))
    sheet = _Sheet(segment)
    alive = sheet.references[: sheet.affordable(left)]
    left -= sheet.plan_diagonal(alive, left)
    rounds = (len(alive) - 1).bit_length()
    expected = np.full(segment.size, np.nan)
    reached = np.zeros(segment.size, np.intp)
    for number in range(1, rounds + 1):
        share = fair_share(len(alive), rounds - number + 1, segment.size - sheet.used, left)
        left -= sheet.plan_references(alive, share, left)
        if sheet.planned:
            sheet.fill((yield sheet.pairs()))
        expected[alive] = sheet.expected(alive)
        reached[alive] = number
        if number < rounds:
            # Who has met nobody yet, being the only reference so far, stays.
            better = np.argsort(-np.nan_to_num(expected[alive], nan=np.inf), kind="stable")
            alive = alive[np.sort(better[: (len(alive) + 1) // 2])]
    ranking = np.lexsort((-expected, -reached))
    if left:
        sheet.plan_rows(ranking, left)
        sheet.fill((yield sheet.pairs()))
        complete = ranking[: sheet.complete_rows(ranking)]
        if len(complete) > 1:  # else there is nothing exact to compare it with
            sheet.used = segment.size
            expected[complete] = sheet.expected(complete)
            reached[complete] = rounds + 1
            ranking = np.lexsort((-expected, -reached))
    known = tuple(ranking[~np.isnan(expected[ranking])].tolist())
    return Outcome(sheet.values, sheet.scored, estimated_regret=None, expected=expected, ranking=known)


def counted_weights(weights: Floats, draws: Floats, used: int) -> tuple[Pairs, Floats]:
    """The references in their order [N], and what each of the first `used` counts."""
    priorities = weights / draws
    order = np.argsort(-priorities, kind="stable")
    threshold = priorities[order[used]] if used < len(order) else 0.0
    return order, np.maximum(weights[order[:used]], threshold)


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


class _Sheet:
    """The scores of one list so far, the pairs planned next, and the estimates that follow."""

    def __init__(self, segment: Segment) -> None:
        size = segment.size
        self.references, _ = counted_weights(segment.weights, segment.draws, 0)
        self.used = 0  # how many of them all who are left have met
        self.planned: list[Pairs] = []
        self.values = np.zeros((size, size), np.float32)
        self.scored = np.zeros((size, size), np.bool_)
        self._segment = segment
        self._antisymmetric = segment.relation == "antisymmetric"
        self._place = np.argsort(self.references)  # the inverse permutation
        self._met = np.diag(~segment.diagonal)  # scored, planned, or not needed

    def affordable(self, passes: int) -> int:
        """How many candidates, in the order of references, can meet the first of them; two at least."""
        costs = np.arange(len(self.references)) + np.cumsum(self._segment.diagonal[self.references])
        return max(int(np.searchsorted(costs, passes, side="right")), 2)

    def plan_diagonal(self, candidates: Pairs, passes: int) -> int:
        """u(i, i) where it matters, if a reference can be met as well. Returns the passes."""
        own = candidates[self._segment.diagonal[candidates]]
        return self._plan(own, own) if len(own) + len(candidates) - 1 <= passes else 0

    def plan_references(self, candidates: Pairs, share: int, passes: int) -> int:
        """The next references for all of these: one if the passes suffice, more within the share."""
        spent, begun = 0, self.used
        while self.used < len(self.references):
            reference = self.references[self.used]
            new = candidates[~self._met[candidates, reference] & (candidates != reference)]
            if spent + len(new) > (passes if self.used == begun else share):
                break
            spent += self._plan(new, np.full(len(new), reference))
            self.used += 1
        return spent

    def plan_rows(self, candidates: Pairs, passes: int) -> None:
        """What is missing in the rows of these candidates, one after the other, until the passes are spent."""
        for candidate in candidates:
            missing = self.references[~self._met[candidate, self.references]][:passes]
            passes -= self._plan(np.full(len(missing), candidate), missing)

    def complete_rows(self, candidates: Pairs) -> int:
        """How many of them, from the first on, have complete rows."""
        return int(np.logical_and.accumulate(self._met[candidates].all(axis=1)).sum())

    def _plan(self, candidates: Pairs, references: Pairs) -> int:
        """Of an antisymmetric pair the earlier one in the order comes first if they are an odd number of places apart.

        So everyone's slots alternate from reference to reference, as hypothesis and as reference.
        """
        pairs = np.column_stack([candidates, references])
        self._met[candidates, references] = True
        if self._antisymmetric:
            self._met[references, candidates] = True
            apart = self._place[references] - self._place[candidates]
            swap = (apart % 2 == 1) != (apart > 0)
            pairs[swap] = pairs[swap, ::-1]
        if len(pairs):  # else all of it is known already
            self.planned.append(pairs)
        return len(pairs)

    def pairs(self) -> Pairs:
        return np.concatenate(self.planned)

    def fill(self, scores: Scores) -> None:
        first, second = self.pairs().T
        self.values[first, second] = scores
        self.scored[first, second] = True
        if self._antisymmetric:
            self.values[second, first] = -scores
        self.planned = []

    def expected(self, candidates: Pairs) -> Floats:
        """Expected utilities by the references used so far; NaN for the only reference of a utility of no relation.

        For an antisymmetric utility u(i, i) = 0 takes part: then all candidates are measured by exactly the same
        references, those who are among them too. Else a reference is measured by the others.
        """
        weights = self._segment.weights[self.references]
        own = self._segment.own_weights[candidates]
        columns = self.references[: self.used]
        _, counted = counted_weights(self._segment.weights, self._segment.draws, self.used)
        itself = candidates[:, None] == self.references  # [candidates, references]
        others = np.where(itself, 0, weights).sum(axis=1)
        shares = np.where(itself[:, : self.used], 0, counted)
        sums = (self.values[np.ix_(candidates, columns)] * shares).sum(axis=1)
        if self._antisymmetric:
            return np.asarray(sums * (weights.sum() / counted.sum()) / (others + own))
        whole = shares.sum(axis=1)
        means = np.divide(sums, whole, out=np.full(len(candidates), np.nan), where=whole > 0)
        own = np.where(self.scored[candidates, candidates], own, 0)
        return np.asarray((means * others + own * self.values[candidates, candidates]) / (others + own))


HALVING = with_budget()
