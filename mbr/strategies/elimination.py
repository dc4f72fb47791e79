"""Candidates against common pseudo-references, the worse ones eliminated: what `halving` and `prune` share.

References come in the order of priority sampling (Duffield, Lund & Thorup 2007): by weight over a uniform random
number. With p the priority of the first one not used, sum_j max(w_j, p) u(i, j) over those used estimates
sum_j w_j u(i, j) without bias, for any weights, after any number of references: heavy ones are certain to be used and
count with their weight, the others represent those like them. A plain mean over draws by weight without replacement
would favour light references, and weights in a mean over uniform draws would waste passes on them. The sum is divided
by that of the same max(w_j, p), which keeps the level of the estimates and, being the same for all, changes no
comparison (without antisymmetry a candidate that is itself a reference is measured by the other ones, and the divisor
follows). With equal weights it is a plain mean over random references; once all are used it is exact.

Candidates are compared by their scores: this mean on the scale of the expected utility, plus their terms, once.
"""

from __future__ import annotations

import numpy as np

from mbr.decide import Certainty
from mbr.strategies.additive import certainty_of
from mbr.strategies.base import Floats, Outcome, Pairs, PairScores, Scores, Segment


def counted_weights(weights: Floats, draws: Floats, used: int) -> tuple[Pairs, Floats]:
    """The references in their order [N], and the weight with which each of the first `used` counts."""
    priorities = weights / draws
    order = np.argsort(-priorities, kind="stable")
    threshold = priorities[order[used]] if used < len(order) else 0.0
    return order, np.maximum(weights[order[:used]], threshold)


class Elimination:
    """The state of one list: the scores so far, the pairs planned next, and the estimates that follow.

    `references` [N] are the candidates in the order in which they serve as pseudo-references; the remaining candidates
    have met the first `used` of them, or will have when the planned pairs are scored. `estimates` [N] are of the
    scores, terms included; NaN where nothing is known.
    """

    def __init__(self, segment: Segment) -> None:
        size = segment.size
        self.scores = PairScores(segment)
        self.references, _ = counted_weights(segment.weights, segment.draws, 0)
        self.used = 0
        self.estimates = np.full(size, np.nan)
        self._reached = np.zeros(size, np.intp)  # the last round in which each was estimated
        self._planned: list[Pairs] = []
        self._segment = segment
        self._place = np.argsort(self.references)  # the inverse permutation
        self._met = np.diag(~segment.diagonal)  # scored, planned, or not needed

    def affordable(self, passes: int) -> Pairs:
        """The candidates that can meet the first reference, itself included, two at least; in the order of references.

        If not all can, those with the best terms do, or without terms the first in this order.
        """
        wanted = self.references
        if self._segment.terms is not None:
            best_first = np.argsort(-self._segment.terms[wanted[1:]], kind="stable")
            wanted = np.concatenate([wanted[:1], wanted[1:][best_first]])
        costs = np.arange(len(wanted)) + np.cumsum(self._segment.diagonal[wanted])
        count = max(int(np.searchsorted(costs, passes, side="right")), 2)
        return self.references[np.isin(self.references, wanted[:count])]

    def plan_diagonal(self, candidates: Pairs, passes: int) -> int:
        """Plan u(i, i) where it matters, if a reference can be met as well. Returns the passes."""
        own = candidates[self._segment.diagonal[candidates]]
        return self._plan(own, own) if len(own) + len(candidates) - 1 <= passes else 0

    def plan_reference(self, candidates: Pairs, passes: int) -> int | None:
        """Plan the next reference for all of these. Returns the passes; None without a reference or enough passes."""
        if self.used == len(self.references):
            return None
        reference = self.references[self.used]
        new = candidates[~self._met[candidates, reference] & (candidates != reference)]
        if len(new) > passes:
            return None
        self.used += 1
        return self._plan(new, np.full(len(new), reference))

    def plan_rows(self, candidates: Pairs, passes: int) -> None:
        """Plan the missing pairs in the rows of these candidates, one after the other, until the passes are spent."""
        for candidate in candidates:
            missing = self.references[~self._met[candidate, self.references]][:passes]
            passes -= self._plan(np.full(len(missing), candidate), missing)

    def plan_reversals(self, wanted: int) -> int:
        """Plan some of the planned pairs in the other order too. Returns the passes."""
        reversed_pairs = self.pairs()[:wanted, ::-1]
        self._planned.append(reversed_pairs)
        return len(reversed_pairs)

    def _plan(self, candidates: Pairs, references: Pairs) -> int:
        """Of an antisymmetric pair the earlier in the order comes first if they are an odd number of places apart.

        So the slots of each candidate alternate from reference to reference, as hypothesis and as reference.
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
        """The planned pairs; none where all are scored already."""
        return np.concatenate(self._planned) if self._planned else np.empty((0, 2), np.intp)

    def fill(self, scores: Scores) -> None:
        """The scores of the planned pairs."""
        self.scores.write(self.pairs(), scores)
        self._planned = []

    def resample(self, candidates: Pairs, draw: np.random.Generator, draws: int) -> Floats:
        """Scores of these candidates [draws, candidates], each draw with a bootstrap sample of the references used.

        NaN where a reference was drawn alone and has no others to be measured by.
        """
        values, shares, divisors = self._compare(candidates)
        often = draw.multinomial(self.used, np.full(self.used, 1 / self.used), size=draws).T  # [used, draws]
        with np.errstate(invalid="ignore"):
            means = (values * shares) @ often / (divisors @ often)
        return self._scores(candidates, means.T)

    def settle(self, candidates: Pairs, number: int) -> None:
        """Estimate these from all references used, at the end of a round.

        NaN for the only reference so far if the utility has no relation.
        """
        values, shares, divisors = self._compare(candidates)
        whole = divisors.sum(axis=1)
        means = np.divide((values * shares).sum(axis=1), whole, out=np.full(len(candidates), np.nan), where=whole > 0)
        self.estimates[candidates] = self._scores(candidates, means)
        self._reached[candidates] = number

    def _compare(self, candidates: Pairs) -> tuple[Floats, Floats, Floats]:
        """The utilities of these by the references used, their weights, and the weights in the divisor.

        All are [candidates, used]. For an antisymmetric utility u(i, i) = 0 takes part: then all candidates are
        measured by exactly the same references, also those among them. Else a reference is measured by the others.
        """
        columns = self.references[: self.used]
        values = self.scores.values[np.ix_(candidates, columns)].astype(np.float64)
        _, counted = counted_weights(self._segment.weights, self._segment.draws, self.used)
        itself = candidates[:, None] == columns
        shares = np.where(itself, 0, counted)
        if not self._segment.antisymmetric:
            return values, shares, shares
        values = (values - self.scores.values[np.ix_(columns, candidates)].T) / 2
        return values, shares, np.tile(counted, (len(candidates), 1))

    def _scores(self, candidates: Pairs, means: Floats) -> Floats:
        """From means over references [..., candidates] to expected utilities, by the self rule, plus the terms."""
        weights, own = self._segment.weights, self._segment.own_weights[candidates]
        others = np.where(np.arange(len(weights)) == candidates[:, None], 0, weights).sum(axis=1)
        if self._segment.antisymmetric:
            expected = means * weights.sum() / (others + own)
        else:
            own = np.where(self.scores.scored[candidates, candidates], own, 0)
            expected = (means * others + own * self.scores.values[candidates, candidates]) / (others + own)
        return self._segment.with_terms(expected, candidates)

    def settle_complete(self, number: int) -> None:
        """From the best down, candidates whose rows are complete now count as exact, if there are two to compare."""
        ranking = self.ranking()
        complete = ranking[: int(np.logical_and.accumulate(self._met[ranking].all(axis=1)).sum())]
        if len(complete) > 1:
            self.used = len(self.references)
            self.settle(complete, number)

    def ranking(self) -> Pairs:
        """By the round reached, then by the estimate, ties to the earlier; last those without an estimate."""
        return np.lexsort((-self.estimates, -self._reached))

    def outcome(self) -> Outcome:
        ranking = self.ranking()
        compared = ranking[~np.isnan(self.estimates[ranking])]
        certainty = self.certainty()
        return Outcome(self.scores.values, self.scores.scored, self.estimates, tuple(compared.tolist()), certainty)

    def certainty(self) -> Certainty:
        """How certain the choice of the current best is."""
        order = self._segment.order  # so that the order of the list does not matter
        draw = np.random.default_rng(int(self._segment.draws.min() * 2**52))
        choice = int(np.argsort(order)[self.ranking()[0]])
        return certainty_of(self.scores.take(order), self._segment.take(order), choice, draw)
