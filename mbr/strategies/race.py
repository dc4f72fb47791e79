"""Race: compare until the expected regret is below a tolerance.

First a screen: a random cycle through all candidates, in which each comes first once and second once, and a random
matching. Least squares on the graph of scored pairs (`mbr.strategies.additive`; HodgeRank, Jiang et al. 2011) then
gives every candidate an estimate with its uncertainty; if the estimates are mostly noise, more cycles follow. From
there on passes go to the contenders: candidates are drawn by their probability of being the best (Thompson 1933) and
meet random opponents, heavy ones first. It ends when the mean loss over samples of the true scores is below the
tolerance, as a share of best minus mean. That holds for the mean over many lists; a single one may lose more. A
tolerance of 0 spends the budget.

2 % of the passes score pairs again in the other order, to measure the order bias. Estimates, contenders and regret
include the terms, so terms that decide the list end the race after the screen.
Work besides the passes: O(N^3) per round.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Annotated

import numpy as np

from mbr.decide import Certainty
from mbr.matrix import Relation
from mbr.strategies.additive import expected_regret, fit, order_untested, ratios
from mbr.strategies.base import (
    TOLERANCE,
    Ask,
    Conversation,
    Enough,
    Floats,
    Outcome,
    Pairs,
    PairScores,
    Scores,
    Segment,
    Strategy,
    check_budget,
    check_tolerance,
    reversals,
)
from mbr.strategies.halving import halving_conversation

PASSES_PER_CANDIDATE = 20  # the default budget
RELIABLE = 0.6  # share of the estimates' variance that should be real before contenders are looked for
MORE_CYCLES = 12  # at most, to get there
SCREEN = 0.4  # at most this share of the budget
TRIES = 20  # for a random cycle of pairs that are all new

Tolerance = Annotated[
    float, f"stop when the expected regret is below this share of best minus mean (default: {TOLERANCE})"
]
Budget = Annotated[int | None, f"passes per list, at most (default: {PASSES_PER_CANDIDATE} per candidate)"]


def race(tolerance: Tolerance = TOLERANCE, budget: Budget = None) -> Strategy:
    check_budget(budget)
    check_tolerance(tolerance)
    return Strategy(
        "race",
        "until the expected regret is below a tolerance",
        partial(race_conversation, tolerance=tolerance, budget=budget),
        partial(race_passes, budget=budget),
        rounds=lambda size: 2 * race_passes(size, 0, "antisymmetric", budget=budget) // size,
        needs_antisymmetry=True,
        alternative="halving",
        uses_seed=True,
        adaptive=True,
        anytime=True,
        settings={"tol": tolerance, "budget": f"{PASSES_PER_CANDIDATE}N" if budget is None else budget},
    )


def race_passes(size: int, diagonal: int, relation: Relation, *, budget: int | None) -> int:
    pairs = size * (size - 1) // 2
    return min(PASSES_PER_CANDIDATE * size if budget is None else budget, pairs + reversals(pairs))


def race_conversation(segment: Segment, *, tolerance: float, budget: int | None) -> Conversation:
    """The list is taken in the order of its draws, so that its own order does not matter.

    A budget too small for the screen is spent by `halving`.
    """
    left = race_passes(segment.size, 0, segment.relation, budget=budget)
    if left < min(segment.size * 3 // 2, segment.size * (segment.size - 1) // 2):
        return (yield from halving_conversation(segment, budget=left))
    order = segment.order
    state = _Race(segment.take(order), left, to_the_end=not tolerance)
    while len(pairs := state.next_pairs()):
        try:
            scores = yield Ask(order[pairs], state.regret)
        except Enough:
            break
        state.update(pairs, scores)
        if state.regret <= tolerance and not (state.blurred or state.to_the_end):
            break
    return state.outcome(np.argsort(order))


class _Race:
    """The scores so far, the estimates that follow, and the pairs to compare next."""

    def __init__(self, segment: Segment, left: int, *, to_the_end: bool) -> None:
        self.regret = np.inf
        self.to_the_end = to_the_end
        self._segment = segment
        self._left = left
        self._screen = SCREEN * min(left, segment.fair_share or left)
        self._draw = np.random.default_rng(int(segment.draws[0] * 2**52))
        self._scores = PairScores(segment)
        self._met = np.eye(segment.size, dtype=np.bool_)
        self._pairs: list[tuple[int, int]] = []
        self._slots = np.zeros(segment.size, np.intp)  # how much more often first than second
        self._twice: set[tuple[int, int]] = set()
        self._cycles = 0
        self._expected: Floats | None = None
        self._certainty = Certainty(None, None)
        self._reliable = True
        self._contenders = np.arange(segment.size)
        self._winners = self._contenders  # of samples of what the truth may be

    def update(self, pairs: Pairs, scores: Scores) -> None:
        """Estimate all candidates anew, and the contenders."""
        self._scores.write(pairs, scores)
        model = fit(self._scores, self._segment, shrink=self._segment.hints is not None)
        if model is None:
            return
        best = int(model.expected.argmax())
        self._contenders = model.contenders()
        samples = model.sample(self._contenders, self._draw)
        self._winners = self._contenders[samples.argmax(axis=1)]
        self.regret = expected_regret(model, self._contenders, samples, best)
        self._expected = model.expected
        self._certainty = Certainty(self.regret, len(self._contenders), *ratios(model))
        if order_untested(self._scores, self._segment):
            self._certainty = replace(self._certainty, estimated_regret=None, contenders=None)
        self._reliable = model.score_spread >= RELIABLE * (model.score_spread + model.doubt)

    @property
    def blurred(self) -> bool:
        """Whether the estimates are mostly noise, and more cycles may help."""
        return not self._reliable and self._cycles <= MORE_CYCLES and len(self._pairs) <= self._screen

    def next_pairs(self) -> Pairs:
        """The next comparisons; none where the budget is spent or all pairs that matter are scored."""
        before = len(self._pairs)
        if not before:
            self._plan_cycle()
            self._plan_matching()
        elif self.blurred:
            self._plan_cycle()
        if len(self._pairs) == before:
            self._plan_meetings()
        new = self._pairs[before:]
        again = self._plan_reversals() if new else self._plan_second_looks()
        return np.array([*new, *again], np.intp).reshape(-1, 2)

    def outcome(self, places: Pairs) -> Outcome:
        """The outcome in the order of the list; `places` [N] says where its candidates are here."""
        square = np.ix_(places, places)
        values, scored = self._scores.values[square], self._scores.scored[square]
        if self._expected is not None:
            expected, certainty = self._expected[places], self._certainty
        else:  # few pairs in all: all of them are scored, or no estimate goes beyond the scores
            met = scored | scored.T
            shares = self._segment.shares()[square]
            expected = (shares * (values.astype(np.float64) - values.T) / 2).sum(axis=1)
            certainty = Certainty() if (scored | np.eye(len(met), dtype=np.bool_)).all() else self._certainty
            if met.sum() < len(met) * (len(met) - 1):
                expected /= np.where(met, shares, 0).sum(axis=1)
            expected = self._segment.with_terms(expected, places)
        return Outcome(values, scored, expected, tuple(np.argsort(-expected, kind="stable").tolist()), certainty)

    def _plan_cycle(self) -> None:
        """Each candidate once first and once second; where no cycle of new pairs is found, the new pairs of one."""
        self._cycles += 1
        most = np.empty((0, 2), np.intp)
        for _ in range(TRIES):
            path = self._draw.permutation(self._segment.size)
            pairs = np.column_stack([path, np.roll(path, -1)])[: None if len(path) > 2 else 1]
            new = pairs[~self._met[tuple(pairs.T)]]
            if len(new) == len(pairs) <= self._left:
                for first, second in new.tolist():
                    self._add(first, second)
                return
            if len(new) > len(most):
                most = new
        for first, second in most.tolist():
            self._plan(first, second)

    def _plan_matching(self) -> None:
        path = self._draw.permutation(self._segment.size)
        for first, second in zip(path[0::2].tolist(), path[1::2].tolist(), strict=False):
            self._plan(first, second)

    def _plan_meetings(self) -> None:
        """The likely winners against random opponents that are new to them; half as many meetings as candidates."""
        wanted = max(self._segment.size // 2, 1)
        winners = self._winners[~self._met[self._winners].all(axis=1)]
        if len(winners):
            players, meetings = np.unique(self._draw.choice(winners, wanted), return_counts=True)
        else:  # the other contenders; with a tolerance of 0, then all candidates
            others = self._contenders
            if self.to_the_end and self._met[others].all():
                others = np.arange(self._segment.size)
            players = others[~self._met[others].all(axis=1)][:wanted]
            meetings = np.full(len(players), -(-wanted // max(len(players), 1)))
        for player, often in zip(players.tolist(), meetings.tolist(), strict=True):
            opponents = np.flatnonzero(~self._met[player])
            # The smallest of exponential times over weights: draws by weight, without replacement.
            times = self._draw.exponential(size=len(opponents)) / self._segment.weights[opponents]
            for opponent in opponents[np.argsort(times, kind="stable")[:often]].tolist():
                self._plan(player, opponent)

    def _plan(self, first: int, second: int) -> None:
        """A new pair; the candidate that came first less often comes first."""
        if self._met[first, second] or not self._left:
            return
        ahead = self._slots[first] - self._slots[second]
        if ahead > 0 or (ahead == 0 and self._draw.random() < 0.5):
            first, second = second, first
        self._add(first, second)

    def _add(self, first: int, second: int) -> None:
        self._met[first, second] = self._met[second, first] = True
        self._slots[first] += 1
        self._slots[second] -= 1
        self._pairs.append((first, second))
        self._left -= 1

    def _plan_reversals(self) -> list[tuple[int, int]]:
        """Some of the pairs in the other order."""
        once = [pair for pair in self._pairs if pair not in self._twice]
        wanted = reversals(len(self._pairs)) - len(self._twice)
        return self._reverse([once[k] for k in self._draw.permutation(len(once))[: max(wanted, 0)]])

    def _plan_second_looks(self) -> list[tuple[int, int]]:
        """Pairs of likely winners in the other order: all their rows are complete, and an order bias keeps it open."""
        if self.to_the_end:
            return []
        likely = set(self._winners.tolist())
        open_pairs = [pair for pair in self._pairs if pair not in self._twice and not likely.isdisjoint(pair)]
        return self._reverse(open_pairs[: max(self._segment.size // 2, 1)])

    def _reverse(self, pairs: list[tuple[int, int]]) -> list[tuple[int, int]]:
        chosen = pairs[: self._left]
        self._twice |= set(chosen)
        self._left -= len(chosen)
        return [(second, first) for first, second in chosen]
