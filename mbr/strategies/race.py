"""Race: compare until the regret to expect is below a tolerance.

First a screen: a random cycle through all candidates, in which each comes first once and second once, and a random
matching. Least squares on the graph of scored pairs (`mbr.strategies.additive`) then gives every candidate an estimate
with its uncertainty; if the estimates are mostly noise, more cycles follow. From there on passes go to those who may
be the best: candidates are drawn by their chance of it (Thompson sampling) and meet random opponents, heavy ones
first. It ends when the mean loss over samples of what the truth may be is below the tolerance, as a share of best
minus mean. That holds for the mean over many lists; a single one may lose more. A tolerance of 0 spends the budget.

A fiftieth of the passes scores pairs again in the other order, to measure the order bias.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from mbr.decide import Certainty
from mbr.matrix import Relation
from mbr.strategies.additive import expected_regret, fit, ratios
from mbr.strategies.base import (
    TOLERANCE,
    Ask,
    Board,
    Conversation,
    Enough,
    Floats,
    Outcome,
    Pairs,
    Scores,
    Segment,
    Strategy,
    check_budget,
    check_tolerance,
    reversals,
)
from mbr.strategies.halving import talk_halving

PASSES_PER_CANDIDATE = 20  # the default budget
RELIABLE = 0.6  # share of the estimates' variance that should be real before contenders are looked for
MORE_CYCLES = 12  # at most, to get there
SCREEN = 0.4  # at most this share of the budget
TRIES = 20  # for a random cycle of pairs that are all new


def racing(tolerance: float | None = None, budget: int | None = None) -> Strategy:
    """The strategy with a tolerance (by default 1 %) and a budget of passes per list (by default 20 per candidate)."""
    check_budget(budget)
    tolerance = TOLERANCE if tolerance is None else tolerance
    check_tolerance(tolerance)
    return Strategy(
        "race",
        "until the expected regret is below a tolerance",
        partial(talk_race, tolerance=tolerance, budget=budget),
        partial(passes_race, budget=budget),
        rounds=lambda size: 2 * passes_race(size, 0, "antisymmetric", budget=budget) // size,
        needs_antisymmetry=True,
        uses_seed=True,
        adaptive=True,
        anytime=True,
        settings={"tol": tolerance, "budget": f"{PASSES_PER_CANDIDATE}N" if budget is None else budget},
    )


def passes_race(size: int, diagonal: int, relation: Relation, *, budget: int | None) -> int:
    pairs = size * (size - 1) // 2
    return min(PASSES_PER_CANDIDATE * size if budget is None else budget, pairs + reversals(pairs))


def talk_race(segment: Segment, *, tolerance: float, budget: int | None) -> Conversation:
    """The list is taken in the order of its draws, so that the order it is given in does not matter.

    A budget too small for the screen is left to `halving`.
    """
    left = passes_race(segment.size, 0, segment.relation, budget=budget)
    if left < min(segment.size * 3 // 2, segment.size * (segment.size - 1) // 2):
        return (yield from talk_halving(segment, budget=left))
    order = segment.order
    race = _Race(segment.take(order), left, to_the_end=not tolerance)
    while len(asked := race.next_pairs()):
        try:
            scores = yield Ask(order[asked], race.regret)
        except Enough:
            break
        race.take_in(asked, scores)
        if race.regret <= tolerance and not (race.blurred or race.to_the_end):
            break
    return race.outcome(np.argsort(order))


class _Race:
    """What was scored, what follows from it, and whom to compare next."""

    def __init__(self, segment: Segment, left: int, *, to_the_end: bool) -> None:
        self.regret = np.inf
        self.to_the_end = to_the_end
        self._segment = segment
        self._left = left
        self._screen = SCREEN * min(left, segment.fair_share or left)
        self._draw = np.random.default_rng(int(segment.draws[0] * 2**52))
        self._board = Board(segment)
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

    def take_in(self, asked: Pairs, scores: Scores) -> None:
        """Estimate everybody anew, and who may be the best."""
        self._board.write(asked, scores)
        found = fit(self._board, self._segment, shrink=self._segment.hints is not None)
        if found is None:
            return
        best = int(found.expected.argmax())
        self._contenders = found.contenders()
        samples = found.sample(self._contenders, self._draw)
        self._winners = self._contenders[samples.argmax(axis=1)]
        self.regret = expected_regret(found, self._contenders, samples, best)
        self._expected = found.expected
        self._certainty = Certainty(self.regret, len(self._contenders), *ratios(found))
        self._reliable = found.spread >= RELIABLE * (found.spread + found.doubt)

    @property
    def blurred(self) -> bool:
        """Whether the estimates are mostly noise, and more cycles may help."""
        return not self._reliable and self._cycles <= MORE_CYCLES and len(self._pairs) <= self._screen

    def next_pairs(self) -> Pairs:
        """Whom to compare next; nobody where the budget is spent or all who matter have met."""
        before = len(self._pairs)
        if not before:
            self._plan_cycle()
            self._plan_matching()
        elif self.blurred:
            self._plan_cycle()
        if len(self._pairs) == before:
            self._plan_meetings()
        fresh = self._pairs[before:]
        again = self._plan_reversals() if fresh else self._plan_second_looks()
        return np.array([*fresh, *again], np.intp).reshape(-1, 2)

    def outcome(self, back: Pairs) -> Outcome:
        """In the order that `back` leads to."""
        places = np.ix_(back, back)
        values, scored = self._board.values[places], self._board.scored[places]
        if self._expected is not None:
            expected, certainty = self._expected[back], self._certainty
        else:  # few pairs in all: everybody has met everybody, or no estimate goes beyond the scores
            met = scored | scored.T
            shares = self._segment.shares()[places]
            expected = (shares * (values.astype(np.float64) - values.T) / 2).sum(axis=1)
            certainty = Certainty()
            if met.sum() < len(met) * (len(met) - 1):
                expected /= np.where(met, shares, 0).sum(axis=1)
                certainty = self._certainty
        return Outcome(values, scored, expected, tuple(np.argsort(-expected, kind="stable").tolist()), certainty)

    def _plan_cycle(self) -> None:
        """Everyone once first and once second; where no cycle of new pairs is found, those that are new."""
        self._cycles += 1
        most = np.empty((0, 2), np.intp)
        for _ in range(TRIES):
            path = self._draw.permutation(self._segment.size)
            pairs = np.column_stack([path, np.roll(path, -1)])[: None if len(path) > 2 else 1]
            new = pairs[~self._met[tuple(pairs.T)]]
            if len(new) == len(pairs) <= self._left:
                for first, second in new.tolist():
                    self._write_down(first, second)
                return
            if len(new) > len(most):
                most = new
        for one, other in most.tolist():
            self._plan(one, other)

    def _plan_matching(self) -> None:
        path = self._draw.permutation(self._segment.size)
        for one, other in zip(path[0::2].tolist(), path[1::2].tolist(), strict=False):
            self._plan(one, other)

    def _plan_meetings(self) -> None:
        """The likely winners against random opponents they have not met; half as many meetings as candidates."""
        wanted = max(self._segment.size // 2, 1)
        winners = self._winners[~self._met[self._winners].all(axis=1)]
        if len(winners):
            players, meetings = np.unique(self._draw.choice(winners, wanted), return_counts=True)
        else:  # the other contenders; and to the bitter end, everybody
            rest = self._contenders
            if self.to_the_end and self._met[rest].all():
                rest = np.arange(self._segment.size)
            players = rest[~self._met[rest].all(axis=1)][:wanted]
            meetings = np.full(len(players), -(-wanted // max(len(players), 1)))
        for player, often in zip(players.tolist(), meetings.tolist(), strict=True):
            opponents = np.flatnonzero(~self._met[player])
            # The smallest of exponential times over weights: draws by weight, without replacement.
            times = self._draw.exponential(size=len(opponents)) / self._segment.weights[opponents]
            for opponent in opponents[np.argsort(times, kind="stable")[:often]].tolist():
                self._plan(player, opponent)

    def _plan(self, one: int, other: int) -> None:
        """A pair not met yet; who came first less often than second comes first."""
        if self._met[one, other] or not self._left:
            return
        ahead = self._slots[one] - self._slots[other]
        if ahead > 0 or (ahead == 0 and self._draw.random() < 0.5):
            one, other = other, one
        self._write_down(one, other)

    def _write_down(self, first: int, second: int) -> None:
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
        """Where all contenders have met everybody and an order bias keeps it open: their pairs in the other order."""
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
