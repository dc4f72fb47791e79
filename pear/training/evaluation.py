"""How good a network is on development lists, while it is trained: predictions, and statistics of their agreement."""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from pear.data import Group
from pear.training.batches import Batcher
from pear.training.examples import Example, as_prediction, inputs
from pear.training.parallel import Parallel
from pear.training.recipe import Recipe
from pear.training.statistics import Pairs, acc_eq, pdp, segment_pearson


class Development:
    """The lists to measure with: those whose scores differ, at most `dev_lists` of them, in an order of the seed."""

    def __init__(self, recipe: Recipe, groups: Sequence[Group]) -> None:
        self._recipe = recipe
        self.groups = [group for group in groups if len({c.score for c in group.candidates}) > 1]
        random.Random(recipe.seed).shuffle(self.groups)  # files come sorted, by language pair for instance
        del self.groups[recipe.dev_lists :]
        chosen = [group.candidates[: recipe.dev_candidates] for group in self.groups]
        self._judged = [[item.score for item in candidates] for candidates in chosen]
        self._rows = [
            inputs(recipe.kind, group, [item.translation for item in candidates])
            for group, candidates in zip(self.groups, chosen, strict=True)
        ]

    def scores(self, learner: nn.Module, batcher: Batcher, parallel: Parallel) -> NDArray[np.float64]:
        """Scores of all rows of all lists, end to end."""
        learner.eval()
        texts = [row for rows in self._rows for row in rows]
        scores: NDArray[np.float64] = predict(learner, batcher, texts, parallel)
        return scores

    def statistics(self, scores: NDArray[np.float64]) -> dict[str, float]:
        """`acc_eq`, `pdp` and `segment_pearson` of such scores."""
        ends = np.cumsum([len(rows) for rows in self._rows])
        predicted = [
            as_prediction(self._recipe.kind, part, len(judged))
            for part, judged in zip(np.split(scores, ends[:-1]), self._judged, strict=True)
        ]
        pairs = Pairs.of(predicted, self._judged)
        return {
            "acc_eq": acc_eq(pairs)[0],
            "pdp": pdp(pairs),
            "segment_pearson": segment_pearson(predicted, self._judged),
        }


@torch.no_grad()
def predict(
    learner: nn.Module, batcher: Batcher, texts: Sequence[tuple[str, ...]], parallel: Parallel
) -> NDArray[np.float64]:
    """Scores [rows] of rows of texts, in order; each process scores its share and receives all."""
    rows = [Example(row, float(number)) for number, row in enumerate(texts)]
    scores = np.zeros(len(rows))
    for planned, counts in parallel.share(batcher.plan(rows, flipped=False, seed="0")):
        batch = batcher.lay_out(planned, flipped=False).to(torch.device(parallel.device))
        values, _ = learner(batch)
        if counts:
            scores[[int(row.target) for row in planned]] = values.float().cpu().numpy()
    return parallel.total(scores)
