"""What meta-evaluation works on: scores of systems' translations by people and by metrics.

Everything is a matrix of systems x segments. In human scores NaN stands for "not annotated"; a metric has a score
wherever people gave one. A pairwise metric such as PEAR has, for each segment, an antisymmetric matrix of systems x
systems instead: by how much one translation is better than another.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from candidates.common.errors import InputError, UsageError
from candidates.common.text import printable
from pear.data.record import finite

Floats = NDArray[np.float64]
LARGEST = 1e60  # of a score: products of four of them are still numbers
Kind = Literal["metric", "own", "human", "sanity"]


@dataclass(frozen=True)
class Scores:
    """What one metric, or one person, says of the translations. Higher is better."""

    name: str
    segments: Floats | None  # [systems, segments]; None: known for systems only
    systems: Floats | None = None  # [systems]; None: the means over all segments
    differences: Floats | None = None  # [systems, systems, segments]; a pairwise metric's, NaN where it was not asked
    to_reference: Floats | None = None  # [systems, segments]: a pairwise metric with the reference as the other side
    kind: Kind = "metric"
    reference: str | None = None  # what it compares with: a reference, or None

    @classmethod
    def pairwise(cls, name: str, differences: Floats, to_reference: Floats | None = None) -> Scores:
        """Of differences [systems, systems, segments]; both orders of a pair are averaged with opposite signs.

        A translation's own score is its mean difference to the others that it was compared with.
        """
        if differences.ndim != 3 or differences.shape[0] != differences.shape[1]:
            raise UsageError(f"{name}: differences of shape {differences.shape}; expected [systems, systems, segments]")
        averaged = (differences - differences.transpose(1, 0, 2)) / 2
        averaged[np.arange(len(averaged)), np.arange(len(averaged))] = 0.0
        compared = (~np.isnan(averaged)).sum(axis=1) - 1  # [systems, segments], itself not counted
        means = np.where(compared > 0, np.nansum(averaged, axis=1) / np.maximum(compared, 1), np.nan)
        return cls(name, means, differences=averaged, to_reference=to_reference, kind="own")

    def system_scores(self) -> Floats:
        """[systems]: as they were given, else the means over the segments that have a score."""
        if self.systems is not None:
            return self.systems
        assert self.segments is not None
        known = ~np.isnan(self.segments)
        sums = np.where(known, self.segments, 0).sum(axis=1)
        return np.asarray(sums / np.maximum(known.sum(axis=1), 1))

    def take(self, systems: NDArray[np.int64]) -> Scores:
        """The same of some of the systems."""
        if self.differences is not None:
            anchored = None if self.to_reference is None else self.to_reference[systems]
            return replace(Scores.pairwise(self.name, self.differences[systems][:, systems], anchored), kind=self.kind)
        return replace(
            self,
            segments=None if self.segments is None else self.segments[systems],
            systems=None if self.systems is None else self.systems[systems],
        )

    def columns(self, segments: NDArray[np.int64]) -> Scores:
        """The same of some of the segments; a score of a whole system, which is of all of them, is given up."""
        return replace(
            self,
            segments=None if self.segments is None else self.segments[:, segments],
            differences=None if self.differences is None else self.differences[:, :, segments],
            to_reference=None if self.to_reference is None else self.to_reference[:, segments],
            systems=None,
        )


@dataclass(frozen=True)
class Texts:
    """What was translated, and how; all lists have one text per segment."""

    sources: Sequence[str]
    outputs: Sequence[Sequence[str]]  # of each system
    reference: Sequence[str] | None = None

    def take(self, systems: NDArray[np.int64]) -> Texts:
        return replace(self, outputs=[self.outputs[place] for place in systems])

    def columns(self, segments: NDArray[np.int64]) -> Texts:
        return Texts(
            [self.sources[place] for place in segments],
            [[texts[place] for place in segments] for texts in self.outputs],
            None if self.reference is None else [self.reference[place] for place in segments],
        )


@dataclass(frozen=True)
class ScoreSet:
    """Human and metric scores of one language pair of a test set, all over the same systems and segments."""

    name: str
    lp: str
    human: Scores  # the gold; its `name` is that of the annotation
    systems: tuple[str, ...]
    segments: tuple[str, ...]  # their names; in a test set their numbers from 1
    metrics: tuple[Scores, ...] = ()
    texts: Texts | None = None
    reference: str | None = None  # the name of the one that metrics compare with
    dropped: tuple[str, ...] = ()  # systems that are known but do not count: references, outliers, without a score
    notes: tuple[str, ...] = ()  # what a user should know: who was left out, and why

    def __post_init__(self) -> None:
        for name in (*self.systems, self.human.name, *(one.name for one in self.metrics)):
            if not printable(name):
                raise InputError(f"the name {name!r:.80} holds a control character; expected one that can be shown")

    @property
    def gold(self) -> Floats:
        """[systems, segments]; NaN where nobody annotated."""
        assert self.human.segments is not None
        return self.human.segments

    @property
    def annotated(self) -> int:
        """How many segments have a human score."""
        return int((~np.isnan(self.gold)).any(axis=0).sum())

    def metric(self, name: str) -> Scores:
        for one in self.metrics:
            if one.name == name:
                return one
        raise UsageError(f"no metric {name!r}; there are {', '.join(one.name for one in self.metrics) or 'none'}")

    def take(self, systems: NDArray[np.int64]) -> ScoreSet:
        return replace(
            self,
            systems=tuple(self.systems[place] for place in systems),
            human=self.human.take(systems),
            metrics=tuple(one.take(systems) for one in self.metrics),
            texts=None if self.texts is None else self.texts.take(systems),
        )

    def columns(self, segments: NDArray[np.int64]) -> ScoreSet:
        return replace(
            self,
            segments=tuple(self.segments[place] for place in segments),
            human=self.human.columns(segments),
            metrics=tuple(one.columns(segments) for one in self.metrics if one.segments is not None),
            texts=None if self.texts is None else self.texts.columns(segments),
        )

    def annotated_only(self) -> ScoreSet:
        """Without the segments that nobody annotated; scores of whole systems stay those of all segments."""
        places = np.flatnonzero((~np.isnan(self.gold)).any(axis=0))
        return replace(
            self.columns(places),
            human=_pinned(self.human, places),
            metrics=tuple(_pinned(one, places) for one in self.metrics),
        )

    def choose(self, only: Sequence[str] | None = None, without: Sequence[str] = ()) -> ScoreSet:
        """The same with some systems: only these, or all but those. An unknown name is an error."""
        for name in only or ():
            if name in self.dropped:
                raise UsageError(
                    f"{name!r} is a reference, an outlier, or was not scored by people; it cannot be chosen"
                )
        for name in (*(only or ()), *without):
            if name not in (*self.systems, *self.dropped):
                raise UsageError(f"no system {name!r}; there are {', '.join(self.systems)}")
        kept = [
            place for place, name in enumerate(self.systems) if (only is None or name in only) and name not in without
        ]
        if len(kept) == len(self.systems):
            return self
        if not kept:
            raise UsageError("no system is left; leave out fewer")
        return self.take(np.array(kept))

    def complete(self, named: Sequence[str] = ()) -> ScoreSet:
        """Without metrics that lack a score of an annotated translation, with a note; one that was named raises."""
        kept, notes = [], list(self.notes)
        for one in self.metrics:
            try:
                check_metric(one, self.gold)
                kept.append(one)
            except InputError as exc:
                if one.name in named:
                    raise
                notes.append(f"{one.name} is left out: {str(exc).removeprefix(f'{one.name}: ')}")
        return replace(self, metrics=tuple(kept), notes=tuple(notes))

    def with_metrics(self, *added: Scores) -> ScoreSet:
        """With more metrics, whose names must be new and whose scores must be there for all annotated translations."""
        names = [one.name for one in (self.human, *self.metrics, *added)]
        for one in added:
            if names.count(one.name) > 1:
                raise UsageError(f"{one.name!r} is the name of another metric or of the gold; give another name")
            check_metric(one, self.gold)
        return replace(self, metrics=(*self.metrics, *added))


def _pinned(scores: Scores, segments: NDArray[np.int64]) -> Scores:
    return replace(scores.columns(segments), systems=scores.system_scores())


def check_metric(metric: Scores, gold: Floats) -> None:
    """Refuse a metric whose shape is another, or without a number for what people annotated."""
    if metric.systems is not None and not np.isfinite(metric.systems).all():
        raise InputError(f"{metric.name}: a system's score is not a number")
    if metric.segments is None:
        return
    shape = (metric.segments if metric.differences is None else metric.differences).shape[-2:]
    if shape != gold.shape:
        raise InputError(
            f"{metric.name}: scores of {shape[0]} systems and {shape[1]} segments, but people scored "
            f"{gold.shape[0]} and {gold.shape[1]}; expected the same"
        )
    judged = ~np.isnan(gold)
    if metric.differences is not None:
        pairs = ~np.isfinite(metric.differences) & judged[:, None] & judged[None]
        missing, what = int(pairs.sum()) // 2, "pairs of translations"
    else:
        missing, what = int((~np.isfinite(metric.segments) & judged).sum()), "translations"
    if missing:
        raise InputError(f"{metric.name}: {missing} {what} that people scored have no score; expected a number")


def score_of(value: object, where: str, name: str) -> float:
    """A score from a file; NaN where there is none (`None`, `null`, an empty cell)."""
    if value is None or (isinstance(value, str) and value in ("", "None", "none", "null")):
        return float("nan")
    found = finite(value, where, name)
    if abs(found) > LARGEST:
        raise InputError(f"{where}: {name} {value!r:.40} is too large; expected a score below {LARGEST:g} in size")
    return found
