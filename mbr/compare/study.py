"""A few lists in full: all pairs in both orders, to look at and to replay strategies on.

The best choice of a list is that of the complete matrix (strategy `both` for an antisymmetric utility, else `full`). A
replayed strategy reads its scores from the matrix instead of running the model, so regret against passes costs nothing
more for any number of strategies.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from candidates.common.errors import MbrError
from candidates.lists import CandidateList
from mbr.compare.settings import Setting
from mbr.decide import Decision, ReferenceWeights
from mbr.evidence import WeightedTerm
from mbr.matrix import Relation
from mbr.pipeline import Decoder
from mbr.strategies import Strategy, get_strategy
from mbr.terms import Term, Values
from mbr.utilities import PairUtility
from mbr.utilities.base import Triple

SEEDS = 5
TOLERANCES = (0.3, 0.1, 0.03, 0.01, 0.003)
BUDGETS = (1, 2, 4, 8, 16)  # passes per candidate


@dataclass(frozen=True)
class Portrait:
    """One list: utilities [N, N] of all ordered pairs, scores [N] by them, terms included, and the terms [N]."""

    item: CandidateList
    values: NDArray[np.float32]
    scores: NDArray[np.float64]
    terms: Mapping[str, NDArray[np.float64]]
    antisymmetric: bool

    @property
    def asymmetry(self) -> float:
        """Mean size of half the sum (antisymmetric utilities) or half the difference (others) of a pair's two orders.

        0 for an exactly antisymmetric or symmetric matrix.
        """
        first, second = np.triu_indices(len(self.values), 1)
        reverse = self.values[second, first].astype(np.float64) * (1 if self.antisymmetric else -1)
        return float(np.abs(self.values[first, second] + reverse).mean() / 2)


@dataclass(frozen=True)
class Point:
    """A replayed strategy: mean passes per list, and mean regret as a share of best minus mean."""

    strategy: str
    number: str  # its tolerance or budget
    passes: float
    regret: float


@dataclass(frozen=True)
class Study:
    """A utility with its terms on some lists: complete matrices, and strategies replayed on them."""

    setting: Setting
    relation: Relation
    portraits: tuple[Portrait, ...]
    points: tuple[Point, ...]


def titles(studies: Sequence[Study]) -> list[str]:
    """A name for each: the utility with its terms, or the label of the setting where that is not unique."""
    short = [
        ", ".join([recipe.utility, *(f"{term.name} {term.weight:g}" for term in recipe.terms)])
        for recipe in (study.setting.recipe for study in studies)
    ]
    return [name if short.count(name) == 1 else study.setting.label for name, study in zip(short, studies, strict=True)]


def regret_of(scores: NDArray[np.float64], choice: int, best: int) -> float | None:
    """The regret of a choice as a share of best minus mean; None where the choice has no score.

    `best` is the place of the decision by these scores; a choice that scores higher still has no regret.
    """
    if not len(scores) or not np.isfinite(scores[choice]):
        return None
    highest, mean = float(scores[best]), float(np.nanmean(scores))
    return max(float((highest - scores[choice]) / (highest - mean)), 0.0) if highest > mean else 0.0


def study(setting: Setting, decoder: Decoder, lists: Sequence[CandidateList]) -> Study:
    """Score all pairs of these lists and replay strategies on them. The decoder's own strategy plays no part."""
    relation = decoder.utility.relation
    complete = replace(decoder, strategy=get_strategy("full"), keep_matrix=True, on_error="stop", models=None)
    exact = get_strategy("both" if relation == "antisymmetric" else "full")
    portraits, players = [], []
    for decision in chain.from_iterable(complete.windows(lists)):
        assert decision.candidates is not None
        assert decision.matrix is not None
        utility = _from_matrix(decision.candidates, decision.matrix.values, relation)
        terms = _from_decision(decoder, decision)
        players.append(
            replace(decoder, utility=utility, strategy=exact, terms=terms, memory=None, on_error="stop", models=None)
        )
        scores = _play(players[-1], decision.candidates).scores
        values, antisymmetric = decision.matrix.values, relation == "antisymmetric"
        portraits.append(Portrait(decision.candidates, values, scores, decision.terms, antisymmetric))
    # A utility that computes whole matrices has nothing to save.
    strategies = _strategies(relation, portraits) if isinstance(decoder.utility, PairUtility) else ()
    points = [_point(strategy, players, portraits) for strategy in strategies]
    return Study(setting, relation, tuple(portraits), tuple(points))


def _from_matrix(item: CandidateList, values: NDArray[np.float32], relation: Relation) -> PairUtility:
    """A utility that reads its scores from the matrix of a list."""
    places = {text: place for place, text in enumerate(item.texts)}

    class FromMatrix(PairUtility):
        name = "from matrix"

        def score_pairs(self, triples: Sequence[Triple]) -> NDArray[np.float32]:
            return np.array([values[places[first], places[second]] for _, first, second in triples], np.float32)

    FromMatrix.relation = relation
    return FromMatrix()


def _from_decision(decoder: Decoder, decision: Decision) -> tuple[WeightedTerm, ...]:
    """Terms that read their values from a decision."""

    class FromDecision(Term):
        def __init__(self, name: str) -> None:
            self.name = name

        def values(self, lists: Sequence[CandidateList], references: ReferenceWeights) -> list[Values | MbrError]:
            return [decision.terms[self.name] for _ in lists]

    return tuple(
        WeightedTerm(FromDecision(spec.name), weighted.weight)
        for spec, weighted in zip(decoder.recipe.terms, decoder.terms, strict=True)
    )


def _play(decoder: Decoder, item: CandidateList) -> Decision:
    return next(chain.from_iterable(decoder.windows([item])))


def _strategies(relation: Relation, portraits: Sequence[Portrait]) -> Iterator[Strategy]:
    size = round(float(np.mean([len(portrait.item) for portrait in portraits])))
    if relation == "antisymmetric":
        yield from (get_strategy(name) for name in ("half", "balanced", "both"))
        yield from (get_strategy("race", tolerance=tolerance) for tolerance in TOLERANCES)
    yield from (get_strategy("halving", budget=budget * size) for budget in BUDGETS if 2 * budget < size)


def _point(strategy: Strategy, players: Sequence[Decoder], portraits: Sequence[Portrait]) -> Point:
    passes, regrets = [], []
    for player, portrait in zip(players, portraits, strict=True):
        for seed in range(1, 1 + (SEEDS if strategy.uses_seed else 1)):
            recipe = replace(player.recipe, seed=seed)
            decision = _play(replace(player, strategy=strategy, recipe=recipe), portrait.item)
            passes.append(decision.passes)
            regrets.append(regret_of(portrait.scores, decision.ranking[0], int(portrait.scores.argmax())) or 0.0)
    number = strategy.settings.get("tol", strategy.settings.get("budget", ""))
    return Point(strategy.name, str(number), float(np.mean(passes)), float(np.mean(regrets)))
