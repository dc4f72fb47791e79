"""A metric of `mbr.metrics` as a judge: a segment's statistics are its score and a 1, a system's score is the mean."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from candidates.common.errors import ModelError
from candidates.common.store import key_of
from candidates.common.version import __version__
from mbr.cache.judgements import Cache
from mbr.evaluate.base import Floats, Judge, Judged, Row
from mbr.metrics import metric_behind
from mbr.metrics.base import Metric

if TYPE_CHECKING:
    from mbr.metrics.xcomet import Span, XComet


class NeuralJudge(Judge):
    """Rows are (source, hypothesis, reference) or, with `texts` 2, (source, hypothesis). The first reference counts.

    `compared` is what stands in the place of the reference: `anchor` for a pairwise metric.

    If the cache holds this judge's identity, the model is loaded when there is a row to score, not before.
    """

    by_length = True
    columns = 2

    def __init__(
        self,
        name: str,
        *,
        texts: int,
        options: Mapping[str, Any],
        cache: Cache | None = None,
        spans: bool = False,
        compared: str = "reference",
    ) -> None:
        """With `spans`, the errors that the metric finds are kept for `spans`."""
        from mbr.metrics import metric_class

        self._name, self._texts, self._options = name, texts, options
        self._input = "+".join(("source", "hypothesis", compared)[:texts])
        self._spans: dict[Row, list[Span]] | None = {} if spans else None
        self._loaded: Metric | None = None
        stamp = None if cache is None else metric_class(self._metric_name).stamp(options)
        if cache is None or stamp is None:
            self.identity = self._identify()
            return
        key = key_of("identity", (stamp, *self._described()))
        identity = cache.identity(key)
        self.identity = identity or self._identify()
        if identity is None:
            cache.keep_identity(key, self.identity)

    @property
    def _metric_name(self) -> str:
        return metric_behind(self._name)

    @property
    def _metric(self) -> Metric:
        from mbr.metrics import get_metric

        if self._loaded is None:
            self._loaded = get_metric(self._metric_name, **self._options)
        return self._loaded

    def _described(self) -> tuple[str, str, str]:
        return self._name, self._input, __version__

    def _identify(self) -> str:
        name, texts, version = self._described()
        settings = {**self._metric.settings(), "input": texts, "version": version}
        return "|".join([name, *(f"{key}:{value}" for key, value in settings.items() if value is not None)])

    def rows(
        self, sources: Sequence[str] | None, outputs: Sequence[str], references: Sequence[Sequence[str]]
    ) -> list[Row]:
        read = [""] * len(outputs) if sources is None else sources
        first = references[:1] if self._texts == 3 else []
        return list(zip(read, outputs, *first, strict=True))

    def judge(self, rows: Sequence[Row]) -> Judged:
        scores = self._scored(rows).astype(np.float64)
        if not np.isfinite(scores).all():
            raise ModelError(f"{self._name} returned a score that is not a number; try --dtype float32")
        return Judged(np.stack([scores, np.ones(len(rows))], axis=1), self._metric.truncated(rows))

    def _scored(self, rows: Sequence[Row]) -> NDArray[np.float32]:
        if self._spans is None:
            return self._metric.score(rows)
        scores, spans = cast("XComet", self._metric).score_with_spans(rows)
        self._spans.update(zip(rows, spans, strict=True))
        return scores

    @property
    def finds_spans(self) -> bool:
        """Whether it was opened to keep the errors it finds."""
        return self._spans is not None

    def spans(self, rows: Sequence[Row]) -> list[list[Span]]:
        """The errors in each row's output. Rows whose scores came from the cache are computed now."""
        kept = {} if self._spans is None else self._spans
        missing = list(dict.fromkeys(row for row in rows if row not in kept))
        if missing:
            kept |= dict(zip(missing, cast("XComet", self._metric).spans(missing), strict=True))
        return [kept[row] for row in rows]

    def scores(self, sums: Floats) -> Floats:
        return np.asarray(sums[:, 0] / sums[:, 1])

    def system_score(self, statistics: Floats) -> float:
        return float(statistics[:, 0].mean())

    def segment_scores(self, statistics: Floats) -> Floats:
        return statistics[:, 0].copy()

    def notes(self) -> list[str]:
        return [] if self._loaded is None else self._loaded.notes()

    def close(self) -> None:
        if self._loaded is not None:
            self._loaded.close()
