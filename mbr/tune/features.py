"""What a recipe knows of every candidate: its expected utility, and the value of every term.

One decoder with all terms computes them, on development lists with more pairs than decoding would score: the weights
are not known yet, so every candidate's expected utility counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np

from candidates.common.errors import InputError, UsageError
from candidates.lists import CandidateList
from mbr.decide import Decision
from mbr.pipeline import Decoder
from mbr.recipe import Recipe
from mbr.strategies import Strategy, get_strategy
from mbr.tune.listwise import Floats, standardised
from mbr.utilities import PairUtility, QualityUtility, utility_class


@dataclass(frozen=True)
class Features:
    """Of each list the standardised features [N, features], and each one's standard deviation within lists."""

    names: tuple[str, ...]
    values: list[Floats]
    deviations: Floats
    of_utility: bool  # whether the first one is the expected utility


def tuning_strategy(recipe: Recipe) -> Strategy:
    """Scores for every candidate: all pairs, in one order where the utility is antisymmetric."""
    kind = utility_class(recipe.utility)
    if issubclass(kind, QualityUtility):
        return get_strategy("rerank")
    antisymmetric = issubclass(kind, PairUtility) and kind.relation == "antisymmetric"
    return get_strategy("balanced" if antisymmetric else "full")


def features_of(decoder: Decoder, lists: Sequence[CandidateList]) -> Features:
    """Features by a decoder whose recipe has every term to be weighted.

    Raises:
        InputError: a feature never differs within a list.
        UsageError: the strategy leaves candidates without an expected utility.
    """
    recipe = decoder.recipe
    of_utility = recipe.utility != "none"
    names = [*([recipe.utility] if of_utility else []), *(spec.name for spec in recipe.terms)]
    decisions = chain.from_iterable(decoder.windows(lists))
    raw = [_raw(decision, len(names), decoder) for decision in decisions]
    values, deviations = standardised(raw)
    largest = np.max(np.abs(np.concatenate(raw)), axis=0, initial=1e-12)
    for name, deviation, size in zip(names, deviations, largest, strict=True):
        if deviation <= 1e-9 * size:
            raise InputError(
                f"{name} is the same for all candidates of a list, in every list, so it can have no weight; leave it "
                "out, or check the lists"
            )
    return Features(tuple(names), values, deviations, of_utility)


def _raw(decision: Decision, features: int, decoder: Decoder) -> Floats:
    """Expected utility and terms [N, features] of one list."""
    if "single" in decision.flags:  # nothing was scored
        return np.zeros((1, features))
    expected = [] if decoder.recipe.utility == "none" else [decision.expected]
    table = np.stack([*expected, *decision.terms.values()], axis=1)
    if not np.isfinite(table).all():
        raise UsageError(
            f"the strategy {decoder.strategy.name} leaves candidates of segment {decision.id!r} without an expected "
            "utility; tuning needs those of all: use balanced, half or full"
        )
    return np.asarray(table, np.float64)
