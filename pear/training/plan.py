"""Which batches a run learns from, and in which order: all of it follows from the data, the seed and the epoch."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from candidates.common.errors import InputError
from pear.data import Group
from pear.training.batches import Batcher
from pear.training.examples import Example, examples
from pear.training.recipe import Recipe

# The batches of one step: examples, and whether they are shown in both orders.
Step = list[tuple[list[Example], bool]]


@dataclass
class Place:
    """Where a run is, and its best measurement."""

    step: int = 0
    epoch: int = 0
    batch: int = 0
    best: float = -math.inf
    best_step: int = 0
    seconds: float = 0.0


class Plan:
    """The batches of the epoch that was entered last; `steps` is the length of the whole run."""

    def __init__(self, recipe: Recipe, groups: Sequence[Group], batcher: Batcher) -> None:
        self._recipe, self._groups, self._batcher = recipe, groups, batcher
        self.enter(0)
        steps_per_epoch = math.ceil(len(self._batches) / recipe.accumulate)
        self.steps: int = recipe.steps or max(1, round(recipe.epochs * steps_per_epoch))

    def enter(self, epoch: int) -> None:
        """Plan the batches of an epoch, for which pairs are drawn anew."""
        planned: Step = []
        for rows in examples(self._recipe, self._groups, epoch):
            flipped = self._recipe.kind == "pear" and self._recipe.flip > 0 and len(rows[0].texts) == 3
            seed = f"{self._recipe.seed} {epoch} {len(rows[0].texts)}"
            planned += [(batch, flipped) for batch in self._batcher.plan(rows, flipped=flipped, seed=seed)]
        if not planned:
            raise InputError("nothing to learn from: no source has two judged translations; give other data")
        order = np.random.default_rng([self._recipe.seed, epoch]).permutation(len(planned))
        self._batches = [planned[k] for k in order]

    def take(self, place: Place) -> Step:
        """The batches of the next step; the place moves on, to the next epoch after the last batch."""
        if place.batch == len(self._batches):
            place.epoch, place.batch = place.epoch + 1, 0
            self.enter(place.epoch)
        step = self._batches[place.batch : place.batch + self._recipe.accumulate]
        place.batch += len(step)
        return step

    def freezes_encoder(self, place: Place) -> bool:
        """Whether the step that ends here is in that share of the first epoch in which only the head learns."""
        return place.epoch == 0 and 0 < place.batch <= self._recipe.freeze_encoder * len(self._batches)
