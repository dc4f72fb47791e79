"""XCOMET: a score, and the spans of the hypothesis that hold errors, minor, major or critical.

With a reference the network reads (hypothesis, source), (hypothesis, reference) and all three; the score is
.12 / .33 / .33 of their three estimates, none above 1, plus .22 of what the spans leave of a perfect MQM score. Their
first input does not depend on the reference: N candidates as each other's references take N + 2 N^2 passes, not 3 N^2.
Without a reference it is .78 of the first estimate plus .22 of the spans' score.

    with XComet(model="xcomet-folder") as xcomet:
        xcomet.score([("A dog.", "Ein Hund.", "Der Hund.")])
        xcomet.spans([("A dog.", "Ein Hund.", "Der Hund.")])
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np
from numpy.typing import NDArray

from mbr.metrics.base import NeuralMetric, Row
from pear.runtime.options import ModelOptions

if TYPE_CHECKING:
    from mbr.metrics.joint import Passed

SCORE_WEIGHTS = (0.12, 0.33, 0.33)  # of the inputs with source, with reference, with both
SPANS_WEIGHT = 0.22
TAG_WEIGHTS = (0.1667, 0.3333, 0.5)
SEVERITIES = ("minor", "major", "critical")
PENALTIES = np.array([0.0, 1.0, 5.0, 10.0])  # of no error and of each severity
WORST = 25.0


@dataclass(frozen=True)
class Span:
    """An error in the hypothesis, from character `start` to `end`."""

    start: int
    end: int
    severity: str
    confidence: float
    text: str


class XComet(NeuralMetric):
    """An XCOMET checkpoint. Options: `ModelOptions`."""

    name = "xcomet"
    default = "xcomet-xl"
    summary = "XCOMET: learned, with the errors it finds, with or without reference"
    family = "comet"
    needs = "a checkpoint (--model); else Unbabel/XCOMET-XL from the hub (not for commercial use)"
    takes = (2, 3)

    def __init__(self, **options: Unpack[ModelOptions]) -> None:
        from mbr.metrics.comet_network import load_comet
        from mbr.metrics.joint import JointEncoder, JointRows

        checkpoint = load_comet(self.name, {"xcomet_metric": 1}, self.default, **options)
        self._tokenizer = checkpoint.tokenizer
        self._joint = JointEncoder(checkpoint, options)
        self._rows = JointRows(self._joint)
        self._hold(checkpoint.name, checkpoint.files, self._joint.runner, self._joint.max_tokens)

    def score(self, rows: Sequence[Row], *, progress: bool = False) -> NDArray[np.float32]:
        scores = [_score(passed) for passed in self._passes(rows, progress=progress)]
        return np.array(scores, np.float32)

    def spans(self, rows: Sequence[Row], *, progress: bool = False) -> list[list[Span]]:
        """The errors of each row's hypothesis."""
        return self.score_with_spans(rows, progress=progress)[1]

    def score_with_spans(
        self, rows: Sequence[Row], *, progress: bool = False
    ) -> tuple[NDArray[np.float32], list[list[Span]]]:
        """Scores [rows], and the errors of each row's hypothesis, from the same passes."""
        scores, spans = [], []
        for row, passed in zip(rows, self._passes(rows, progress=progress), strict=True):
            scores.append(_score(passed))
            tags = _tags(passed)
            encoded = self._tokenizer(row[1], truncation=True, max_length=len(tags), return_offsets_mapping=True)
            offsets, ids = encoded["offset_mapping"], encoded["input_ids"]
            spans.append(
                [
                    Span(
                        offsets[begin][0],
                        offsets[end - 1][1],
                        SEVERITIES[int(tags[begin].argmax()) - 1],
                        float(tags[begin:end].max(axis=1).mean()),
                        self._tokenizer.decode(ids[begin:end]),
                    )
                    for begin, end in zip(*_span_edges(tags), strict=True)
                ]
            )
        return np.array(scores, np.float32), spans

    def truncated(self, rows: Sequence[Row]) -> NDArray[np.bool_]:
        return self._rows.truncated(rows)

    def tokens(self, rows: Sequence[Row]) -> int:
        return self._rows.tokens(rows)

    def close(self) -> None:
        self._rows.clear()
        super().close()

    def _passes(self, rows: Sequence[Row], *, progress: bool) -> Iterator[list[Passed]]:
        """The results for each row's inputs: one without a reference, three with."""
        if rows:
            self.texts_per_row(rows)
        return self._rows.run(rows, label="XCOMET" if progress else None)


def _score(passed: Sequence[Passed]) -> float:
    estimates = [min(each.score, 1.0) for each in passed]
    if len(passed) == 1:
        regression = sum(SCORE_WEIGHTS) * estimates[0]
    else:
        regression = sum(weight * estimate for weight, estimate in zip(SCORE_WEIGHTS, estimates, strict=True))
    return regression + SPANS_WEIGHT * _spans_score(_tags(passed))


def _tags(passed: Sequence[Passed]) -> NDArray[np.float32]:
    """Label probabilities [tokens, labels], the weighted mean over the inputs."""
    if len(passed) == 1:
        return _present(passed[0])
    tags: Any = sum(np.float32(weight) * _present(each) for weight, each in zip(TAG_WEIGHTS, passed, strict=True))
    return np.asarray(tags, np.float32)


def _present(passed: Passed) -> NDArray[np.float32]:
    assert passed.tags is not None  # of every XCOMET
    return passed.tags


def _span_edges(tags: NDArray[np.float32]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Where runs of tokens with an error begin and end; one that reaches the end is dropped, as in XCOMET."""
    wrong = np.concatenate([[False], tags.argmax(axis=1) > 0])
    begins = np.flatnonzero(wrong[1:] & ~wrong[:-1])
    ends = np.flatnonzero(~wrong[1:] & wrong[:-1])
    return begins[: len(ends)], ends


def _spans_score(tags: NDArray[np.float32]) -> float:
    """1 without errors, 0 from 25 points on; a run of tokens counts as severe as its first."""
    begins, _ = _span_edges(tags)
    points = PENALTIES[tags[begins].argmax(axis=1)].sum()
    return float((WORST - min(points, WORST)) / WORST)
