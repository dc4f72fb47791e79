"""Race: compare until the expected regret is below a tolerance.

Samples of the true scores (`mbr.strategies.posterior`) tell which candidates may be the best, and what choosing the
best estimate loses on average. Passes go to the contenders: candidates are drawn by their probability of being the
best (Thompson 1933) and meet opponents drawn by weight and by how well they are known. It ends when the mean loss over
the samples is below the tolerance, as a share of best minus mean, and the choice has met a few opponents: the best of
many candidates with one score each is likely to owe it to that score. The tolerance holds for the mean over many
lists; a single one may lose more. A tolerance of 0 spends the budget.

The first pairs, the screen: a few hubs meet each other, and every other candidate meets one of them. Where terms in
the score tell candidates apart, a quarter of the list suffices, those with the best terms among them: it shows how
much the utility can still change. Candidates that the terms rule out are never compared.

2 % of the passes score pairs again in the other order, to measure the order bias.
Work besides the passes: that of the samples, once per round.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Annotated

import numpy as np

from mbr.decide import Certainty
from mbr.matrix import Relation
from mbr.strategies.base import (
    TOLERANCE,
    Ask,
    Conversation,
    Enough,
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
from mbr.strategies.comparisons import Comparisons
from mbr.strategies.halving import halving_conversation
from mbr.strategies.posterior import SWEEPS, Chain, Sweep, standardised
from mbr.strategies.standing import Standing, standing_of

PASSES_PER_CANDIDATE = 20  # the default budget
SMALL_ROUND, LARGE_ROUND = 8, 64  # passes of a round: a sixth of the candidates, or an eighth of the passes so far
WITH_TERMS = 4  # where terms tell candidates apart, one in four takes part in the screen,
LEAST_SCREENED = 8  # and this number at least
CHECKED = 4  # comparisons of a choice with rivals before it counts: the best of many single scores is an outlier
CONFIRM = 3  # times as many samples, before it stops
CAUTION = (
    1.2  # times the sampled loss: ending at low estimates favours estimates that are too low (benchmarks.calibration)
)
SHORT = 16  # candidates: shorter lists are screened in full
TINY = 6  # candidates: up to this all pairs are compared at once, since samples would cost more than they save

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
        uses_hints=True,
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
    state = _Race(segment.take(order), left, tolerance)
    while len(pairs := state.next_pairs()):
        try:
            scores = yield Ask(order[pairs], state.regret)
        except Enough:
            break
        state.update(pairs, scores)
        if state.settled:
            break
    return state.outcome(order)


class _Race:
    """The scores so far, the estimates that follow, and the pairs to compare next."""

    def __init__(self, segment: Segment, left: int, tolerance: float) -> None:
        self.regret = np.inf
        self.to_the_end = not tolerance
        self._tolerance = tolerance
        self._segment = segment
        self._left = left
        self._draw = np.random.default_rng(int(segment.draws[0] * 2**52))
        self._chain = Chain(segment, self._draw)
        self._asked: list[Pairs] = []
        self._scores: list[Scores] = []
        self._met = np.eye(segment.size, dtype=np.bool_)
        self._pairs: list[tuple[int, int]] = []
        self._slots = np.zeros(segment.size, np.intp)  # how much more often first than second
        self._twice: set[tuple[int, int]] = set()
        self._standing: Standing | None = None
        self._untested = True

    def update(self, pairs: Pairs, scores: Scores) -> None:
        """Estimate all candidates anew, and the contenders."""
        self._asked.append(pairs)
        self._scores.append(scores)
        comparisons = Comparisons.of(np.concatenate(self._asked), np.concatenate(self._scores), self._segment.size)
        self._untested = comparisons.order_untested
        self._stand(self._chain.run(comparisons), comparisons)
        if self.settled:  # perhaps by chance: others decide whether to stop, and are reported
            self._stand(self._chain.run(comparisons, CONFIRM * SWEEPS), comparisons)

    def _stand(self, sweeps: Sequence[Sweep], comparisons: Comparisons) -> None:
        self._standing = standing_of(sweeps, comparisons, self._segment, self._met, self._draw)
        self.regret = CAUTION * self._standing.regret(self._standing.best)

    @property
    def settled(self) -> bool:
        """Whether the expected regret is below the tolerance, and the choice was compared often enough."""
        return self.regret <= self._tolerance and not self.to_the_end and not self._to_check

    @property
    def _to_check(self) -> int:
        """The number of opponents the choice has to meet before it counts; none if it has no rival."""
        standing = self._standing
        assert standing is not None
        if len(standing.contenders) == 1:
            return 0
        met = int(self._met[standing.best].sum()) - 1
        return max(min(CHECKED, self._segment.size - 1) - met, 0)

    def next_pairs(self) -> Pairs:
        """The next comparisons; none where the budget is spent or all pairs that matter are scored."""
        before = len(self._pairs)
        if before:
            self._plan_meetings()
        else:
            self._plan_screen()
        new = self._pairs[before:]
        again = self._plan_reversals() if new else self._plan_second_looks()
        return np.array([*new, *again], np.intp).reshape(-1, 2)

    @property
    def _decided_in_part(self) -> bool:
        """Whether terms tell the candidates apart before they are compared."""
        size = self._segment.size
        return size >= SHORT and standardised(self._segment.terms, size).size > 0

    def outcome(self, order: Pairs) -> Outcome:
        """The outcome in the order of the list, where `order` [N] names the candidate at each place here."""
        scores = PairScores(self._segment)
        for pairs, values in zip(self._asked, self._scores, strict=True):
            scores.write(order[pairs], values)
        standing = self._standing
        assert standing is not None
        expected = np.empty(len(order))
        expected[order] = standing.expected
        certainty = Certainty(self.regret, len(standing.contenders), standing.rho, standing.tau)
        if self._untested:
            certainty = replace(certainty, estimated_regret=None, contenders=None)
        ranking = tuple(np.argsort(-expected, kind="stable").tolist())
        return Outcome(scores.values, scores.scored, expected, ranking, certainty)

    def _plan_screen(self) -> None:
        """A few hubs, drawn by weight, meet the next two in a cycle; every other candidate meets one of them.

        With terms only a part of the list: half of it those with the best terms, half at random. Of a tiny list, all
        pairs.
        """
        size = self._segment.size
        order = np.argsort(self._draw.exponential(size=size) / self._segment.weights, kind="stable")
        if size <= TINY:
            self._plan_pairs(*order[np.stack(np.triu_indices(size, 1))])
            return
        if self._decided_in_part:
            count = max(size // WITH_TERMS, LEAST_SCREENED)
            at_random = order[: count // 2]
            best = np.argsort(-self._segment.with_terms(np.zeros(size)), kind="stable")
            best = best[~np.isin(best, at_random)][: count - len(at_random)]
            order = np.concatenate([at_random, best])
        hubs = order[: max(math.isqrt(len(order)), min(len(order), 4))]
        self._plan_pairs(hubs, np.roll(hubs, -1))
        self._plan_pairs(hubs, np.roll(hubs, -2))  # more than a cycle, or the noise would be a guess
        others = self._draw.permutation(order[len(hubs) :])
        self._plan_pairs(others, np.resize(hubs, len(others)))

    def _plan_pairs(self, some: Pairs, others: Pairs) -> None:
        for first, second in zip(some.tolist(), others.tolist(), strict=False):
            self._plan(first, second)

    def _plan_meetings(self) -> None:
        """The likely winners against opponents that are new to them."""
        standing = self._standing
        assert standing is not None
        wanted = max(min(self._segment.size // 6, LARGE_ROUND), len(self._pairs) // 8, SMALL_ROUND)
        if self.regret <= self._tolerance and not self.to_the_end:
            self._plan_opponents(standing.best, self._to_check)
            return
        winners = standing.winners
        winners = winners[~self._met[winners].all(axis=1)]
        new = np.unique(winners[self._met[winners].sum(axis=1) == 1])  # without a comparison yet
        if len(new) > wanted:  # one comparison is the most informative
            players, meetings = new, np.ones(len(new), np.intp)
        elif len(winners):
            players, meetings = np.unique(self._draw.choice(winners, wanted), return_counts=True)
        else:  # the other contenders; with a tolerance of 0, then all candidates
            others = standing.contenders
            if self.to_the_end and self._met[others].all():
                others = np.arange(self._segment.size)
            players = others[~self._met[others].all(axis=1)][:wanted]
            meetings = np.full(len(players), -(-wanted // max(len(players), 1)))
        for player, often in zip(players.tolist(), meetings.tolist(), strict=True):
            self._plan_opponents(player, often)

    def _plan_opponents(self, player: int, often: int) -> None:
        """New opponents, drawn by weight and by how well they are known."""
        standing = self._standing
        assert standing is not None
        opponents = np.flatnonzero(~self._met[player])
        information = self._segment.weights[opponents] / (standing.noise + standing.uncertainty[opponents])
        # The smallest of exponential times over rates: draws by rate, without replacement.
        times = self._draw.exponential(size=len(opponents)) / information
        for opponent in opponents[np.argsort(times, kind="stable")[:often]].tolist():
            self._plan(player, opponent)

    def _plan(self, first: int, second: int) -> None:
        """A new pair; the candidate that came first less often comes first."""
        if self._met[first, second] or self._left <= 0:
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
        assert self._standing is not None
        likely = set(self._standing.winners.tolist())
        open_pairs = [pair for pair in self._pairs if pair not in self._twice and not likely.isdisjoint(pair)]
        return self._reverse(open_pairs[: max(self._segment.size // 2, 1)])

    def _reverse(self, pairs: list[tuple[int, int]]) -> list[tuple[int, int]]:
        chosen = pairs[: self._left]
        self._twice |= set(chosen)
        self._left -= len(chosen)
        return [(second, first) for first, second in chosen]
