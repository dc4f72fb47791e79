"""A metric of `mbr.metrics` as a judge: a segment's statistics are its score and a 1, a system's score is the mean."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from candidates.errors import ModelError
from mbr.evaluate.judges import Floats, Judge, Judged, Row


class NeuralJudge(Judge):
    """Rows are (source, hypothesis, reference) or, with `texts` 2, (source, hypothesis). The first reference counts."""

    by_length = True
    columns = 2

    def __init__(self, name: str, *, texts: int, options: Mapping[str, Any]) -> None:
        from mbr import __version__
        from mbr.metrics import get_metric

        self._name, self._texts = name, texts
        self._metric = get_metric(name.removesuffix("-qe"), **options)
        settings = {
            **self._metric.settings(),
            "input": "source+hypothesis+reference" if texts == 3 else "source+hypothesis",
            "version": __version__,
        }
        self.identity = "|".join([name, *(f"{key}:{value}" for key, value in settings.items() if value is not None)])

    def rows(
        self, sources: Sequence[str] | None, outputs: Sequence[str], references: Sequence[Sequence[str]]
    ) -> list[Row]:
        given = [""] * len(outputs) if sources is None else sources
        first = references[:1] if self._texts == 3 else []
        return list(zip(given, outputs, *first, strict=True))

    def judge(self, rows: Sequence[Row]) -> Judged:
        scores = self._metric.score(rows).astype(np.float64)
        if not np.isfinite(scores).all():
            raise ModelError(f"{self._name} gave a score that is not a number; try --dtype float32")
        return Judged(np.stack([scores, np.ones(len(rows))], axis=1), self._metric.truncated(rows))

    def scores(self, sums: Floats) -> Floats:
        return np.asarray(sums[:, 0] / sums[:, 1])

    def system_score(self, statistics: Floats) -> float:
        return float(statistics[:, 0].mean())

    def segment_scores(self, statistics: Floats) -> Floats:
        return statistics[:, 0].copy()

    def notes(self) -> list[str]:
        return self._metric.notes()

    def close(self) -> None:
        self._metric.close()
