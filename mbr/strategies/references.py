"""Candidates against common pseudo-references: what `halving` and `prune` share.

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

import numpy as np

from mbr.decide import Certainty
from mbr.strategies.additive import certainty_of
from mbr.strategies.base import Board, Floats, Outcome, Pairs, Scores, Segment


def counted_weights(weights: Floats, draws: Floats, used: int) -> tuple[Pairs, Floats]:
    """The references in their order [N], and what each of the first `used` counts."""
    priorities = weights / draws
    order = np.argsort(-priorities, kind="stable")
    threshold = priorities[order[used]] if used < len(order) else 0.0
    return order, np.maximum(weights[order[:used]], threshold)


class Sheet:
    """The scores of one list so far, the pairs planned next, and the estimates that follow."""

    def __init__(self, segment: Segment) -> None:
        size = segment.size
        self.board = Board(segment)
        self.references, _ = counted_weights(segment.weights, segment.draws, 0)
        self.used = 0  # how many of them all who are left have met, or will have when what is planned is scored
        self.estimates = np.full(size, np.nan)
        self._reached = np.zeros(size, np.intp)
        self._planned: list[Pairs] = []
        self._segment = segment
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

    def plan_reference(self, candidates: Pairs, passes: int) -> int | None:
        """The next reference for all of these. Returns the passes; None where there is none, or too few passes."""
        if self.used == len(self.references):
            return None
        reference = self.references[self.used]
        new = candidates[~self._met[candidates, reference] & (candidates != reference)]
        if len(new) > passes:
            return None
        self.used += 1
        return self._plan(new, np.full(len(new), reference))

    def plan_rows(self, candidates: Pairs, passes: int) -> None:
        """What is missing in the rows of these candidates, one after the other, until the passes are spent."""
        for candidate in candidates:
            missing = self.references[~self._met[candidate, self.references]][:passes]
            passes -= self._plan(np.full(len(missing), candidate), missing)

    def plan_reversals(self, wanted: int) -> int:
        """Some of the pairs planned, in the other order. Returns the passes."""
        again = self.pairs()[:wanted, ::-1]
        self._planned.append(again)
        return len(again)

    def _plan(self, candidates: Pairs, references: Pairs) -> int:
        """Of an antisymmetric pair the earlier one in the order comes first if they are an odd number of places apart.

        So everyone's slots alternate from reference to reference, as hypothesis and as reference.
        """
        pairs = np.column_stack([candidates, references])
        self._met[candidates, references] = True
        if self._segment.antisymmetric:
            self._met[references, candidates] = True
            apart = self._place[references] - self._place[candidates]
            swap = (apart % 2 == 1) != (apart > 0)
            pairs[swap] = pairs[swap, ::-1]
        self._planned.append(pairs)
        return len(pairs)

    def pairs(self) -> Pairs:
        """What is planned; it may all be known already."""
        return np.concatenate(self._planned) if self._planned else np.empty((0, 2), np.intp)

    def fill(self, scores: Scores) -> None:
        self.board.write(self.pairs(), scores)
        self._planned = []

    def compare(self, candidates: Pairs) -> tuple[Floats, Floats, Floats]:
        """The utilities of these by the references used [candidates, used], what each counts, and what their sum does.

        For an antisymmetric utility u(i, i) = 0 takes part: then all candidates are measured by exactly the same
        references, those who are among them too. Else a reference is measured by the others.
        """
        columns = self.references[: self.used]
        values = self.board.values[np.ix_(candidates, columns)].astype(np.float64)
        _, counted = counted_weights(self._segment.weights, self._segment.draws, self.used)
        itself = candidates[:, None] == columns
        shares = np.where(itself, 0, counted)
        if not self._segment.antisymmetric:
            return values, shares, shares
        values = (values - self.board.values[np.ix_(columns, candidates)].T) / 2
        return values, shares, np.tile(counted, (len(candidates), 1))

    def settle(self, candidates: Pairs, number: int) -> None:
        """Estimates of these from all they met, at the end of a round; NaN for the only reference of no relation."""
        weights, own = self._segment.weights, self._segment.own_weights[candidates]
        others = np.where(np.arange(len(weights)) == candidates[:, None], 0, weights).sum(axis=1)
        values, shares, divisors = self.compare(candidates)
        whole = divisors.sum(axis=1)
        means = np.divide((values * shares).sum(axis=1), whole, out=np.full(len(candidates), np.nan), where=whole > 0)
        if self._segment.antisymmetric:
            self.estimates[candidates] = means * weights.sum() / (others + own)
        else:
            own = np.where(self.board.scored[candidates, candidates], own, 0)
            itself = self.board.values[candidates, candidates]
            self.estimates[candidates] = (means * others + own * itself) / (others + own)
        self._reached[candidates] = number

    def settle_complete(self, number: int) -> None:
        """Those from the best on whose rows are complete now count as exact, if there are two to compare."""
        ranking = self.ranking()
        complete = ranking[: int(np.logical_and.accumulate(self._met[ranking].all(axis=1)).sum())]
        if len(complete) > 1:
            self.used = len(self.references)
            self.settle(complete, number)

    def ranking(self) -> Pairs:
        """By the round reached, then by the estimate, ties to the earlier; last those of whom nothing is known."""
        return np.lexsort((-self.estimates, -self._reached))

    def outcome(self) -> Outcome:
        known = self.ranking()
        known = known[~np.isnan(self.estimates[known])]
        return Outcome(self.board.values, self.board.scored, self.estimates, tuple(known.tolist()), self.certainty())

    def certainty(self) -> Certainty:
        """How sure the one that leads now is."""
        order = self._segment.order  # so that the order of the list does not matter
        draw = np.random.default_rng(int(self._segment.draws.min() * 2**52))
        choice = int(np.argsort(order)[self.ranking()[0]])
        return certainty_of(self.board.take(order), self._segment.take(order), choice, draw)
