"""What tuning gives: a recipe with its weights, and what it is worth on lists that it was not tuned on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from mbr.recipe import Recipe
from mbr.tune.gains import OBJECTIVE, Gain, Row
from mbr.tune.validation import FOLDS

FIRST, BEFORE, TUNED, ORACLE = "first candidate", "recipe before", "tuned recipe", "oracle (objective)"


@dataclass(frozen=True)
class Weight:
    """A weight of the recipe. `standard`: in standard deviations within lists, the largest being 1.

    `worth` is what the recipe loses in the objective without it, by cross-validation.
    """

    name: str
    weight: float
    standard: float
    worth: Gain


@dataclass(frozen=True)
class Tuned:
    """A recipe and what it is worth: all gains are those of cross-validation, never of the lists it was tuned on.

    `over_baseline` is the gain over the recipe that decides without tuning, by column; empty where there is none.
    """

    recipe: Recipe
    lists: int
    candidates: int
    objective: str
    penalty: float
    seed: int
    draws: int
    judges: Mapping[str, str]  # identities by label
    signature: str = ""
    weights: tuple[Weight, ...] = ()
    rows: tuple[Row, ...] = ()
    over_baseline: Mapping[str, Gain] = field(default_factory=dict)
    digits: Mapping[str, int] = field(default_factory=dict)  # decimals to print, by column

    @property
    def gain(self) -> Gain:
        """Over the first candidate, in the objective."""
        return self.gain_in(OBJECTIVE)

    def gain_in(self, column: str) -> Gain:
        """Over the first candidate, by a judge or in the objective."""
        return next(row.gains[column] for row in self.rows if row.label == TUNED)

    def record(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "signature": self.signature,
            "lists": self.lists,
            "candidates": self.candidates,
            "objective": self.objective,
            "folds": FOLDS,
            "seed": self.seed,
            "bootstrap": self.draws,
            "penalty": self.penalty,
            "judges": dict(self.judges),
            "weights": [{**vars(weight), "worth": weight.worth.record()} for weight in self.weights],
            "rows": [row.record() for row in self.rows],
            "over_baseline": {label: gain.record() for label, gain in self.over_baseline.items()},
        }
