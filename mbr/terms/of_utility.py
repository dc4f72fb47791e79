"""Any utility as a term: a quality as it is, a comparison as the expected utility against the list.

`chrf` as a term is consensus: how much a candidate agrees with the others, what chrF-MBR would rank by. A utility that
scores pairs one by one (`resume-metric`, `bleurt`) takes N * N passes per list, since terms are exact.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any, cast

import numpy as np

from candidates.common.errors import MbrError, ModelError
from candidates.lists import CandidateList
from mbr.decide import ReferenceWeights
from mbr.terms.base import Term, Values, joined
from mbr.utilities import MatrixUtility, PairUtility, QualityUtility, Utility


class OfUtility(Term):
    """A loaded utility as a term. Closing it closes the utility."""

    def __init__(self, utility: Utility) -> None:
        self.utility = utility
        self.name = utility.name
        self.family = utility.family

    def settings(self) -> dict[str, object]:
        return self.utility.settings()

    def notes(self) -> list[str]:
        return self.utility.notes()

    @property
    def on_gpu(self) -> bool:
        return self.utility.on_gpu

    def close(self) -> None:
        self.utility.close()

    def values(self, lists: Sequence[CandidateList], references: ReferenceWeights) -> list[Values | MbrError]:
        self.utility.progress = self.progress
        if isinstance(self.utility, QualityUtility):
            scores = self._scores(_each(lists), self.utility.score_each)
            return list(_split(scores, [len(item) for item in lists]))
        matrices = self._pairs(lists) if isinstance(self.utility, PairUtility) else self._matrices(lists)
        return [_expected(matrix, item, references) for matrix, item in zip(matrices, lists, strict=True)]

    def in_portions(
        self, item: CandidateList, references: ReferenceWeights, most: int
    ) -> Generator[int, None, Values | MbrError]:
        self.utility.progress = False
        rows: list[Any]
        compute: Any
        if isinstance(self.utility, QualityUtility):
            rows, compute, batches = _each([item]), self.utility.score_each, None
        elif isinstance(self.utility, PairUtility):
            rows, compute = _all_pairs([item]), self.utility.score_pairs
            batches = self.utility.batches(rows)
        else:  # all pairs of a list are computed at once
            return (yield from super().in_portions(item, references, most))
        scores = np.empty(len(rows))
        singly = [[place] for place in range(len(rows))]
        for places in joined(singly if batches is None else [batch.tolist() for batch in batches], most):
            scores[places] = self._scores([rows[place] for place in places], compute)
            yield len(places)
        if isinstance(self.utility, QualityUtility):
            return scores
        return _expected(scores.reshape(len(item), -1), item, references)

    def passes(self, size: int) -> int:
        return size**2 if isinstance(self.utility, PairUtility) else size

    def cost(self, lists: Sequence[CandidateList]) -> dict[str, Any]:
        if isinstance(self.utility, QualityUtility):
            return self.utility.cost(_each(lists))
        if isinstance(self.utility, PairUtility):
            return self.utility.cost(_all_pairs(lists))
        costs = [cast(MatrixUtility, self.utility).cost(item.source, item.texts, item.texts) for item in lists]
        return {key: sum(c[key] for c in costs) if key == "tokens" else costs[0][key] for key in (costs or [{}])[0]}

    def _matrices(self, lists: Sequence[CandidateList]) -> list[Values]:
        utility = cast(MatrixUtility, self.utility)

        def compute(places: Sequence[int]) -> list[Any]:
            some = [lists[place] for place in places]
            utility.prepare([(item.source, item.texts) for item in some])
            return [utility.matrix(item.source, item.texts, item.texts) for item in some]

        if self.memory is None:
            return compute(range(len(lists)))
        return cast(list[Values], self.memory.blocks([[item.source, *item.texts] for item in lists], compute))

    def _pairs(self, lists: Sequence[CandidateList]) -> list[Values]:
        scores = self._scores(_all_pairs(lists), cast(PairUtility, self.utility).score_pairs)
        parts = _split(scores, [len(item) ** 2 for item in lists])
        return [part.reshape(len(item), -1) for part, item in zip(parts, lists, strict=True)]

    def _scores(self, rows: list[Any], compute: Any) -> Values:
        if not rows:
            return np.empty(0)
        scores = np.asarray(compute(rows) if self.memory is None else self.memory.score(rows, compute), np.float64)
        if scores.shape != (len(rows),):
            raise ModelError(f"utility {self.utility.name!r} returned scores {scores.shape} for {len(rows)} rows")
        return scores


def _each(lists: Sequence[CandidateList]) -> list[tuple[str, str]]:
    return [(item.source, text) for item in lists for text in item.texts]


def _all_pairs(lists: Sequence[CandidateList]) -> list[tuple[str, str, str]]:
    """Both orders of every pair, and each text against itself."""
    return [(item.source, first, second) for item in lists for first in item.texts for second in item.texts]


def _split(scores: Values, sizes: Sequence[int]) -> list[Values]:
    return np.split(scores, np.cumsum(sizes)[:-1]) if sizes else []


def _expected(matrix: Values, item: CandidateList, references: ReferenceWeights) -> Values | MbrError:
    try:
        return references.expected(np.asarray(matrix, np.float64), item)
    except MbrError as exc:
        return exc
