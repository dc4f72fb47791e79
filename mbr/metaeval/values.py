"""The data of meta-evaluation: scores of systems' translations by people and by metrics.

Everything is a matrix of systems x segments. In human scores NaN stands for "not annotated"; a metric has a score
wherever people gave one. A pairwise metric such as PEAR has, for each segment, an antisymmetric matrix of systems x
systems instead: by how much one translation is better than another.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from candidates.common.errors import InputError, UsageError
from candidates.common.text import printable
from candidates.common.words import counted
from mbr.metaeval.signature import signature
from pear.data.record import finite

Floats = NDArray[np.float64]
SOURCE_ONLY = "src"  # in place of a reference: the metric compares with the source alone
LARGEST = 1e60  # of a score: products of four of them are still numbers
Kind = Literal["metric", "own", "human", "sanity"]


@dataclass(frozen=True)
class Scores:
    """The scores of translations by one metric or one annotator. Higher is better."""

    name: str
    segments: Floats | None  # [systems, segments]; None: only systems have scores
    systems: Floats | None = None  # [systems]; None: the means over all segments
    differences: Floats | None = None  # [systems, systems, segments] of a pairwise metric; NaN where not scored
    to_reference: Floats | None = None  # [systems, segments]: a pairwise metric with the reference as the other side
    kind: Kind = "metric"
    reference: str | None = None  # what it compares with: a reference, SOURCE_ONLY, or None where it is not known
    identity: str = ""  # of a judge or utility of this package: everything that may change its scores

    @classmethod
    def pairwise(cls, name: str, differences: Floats, to_reference: Floats | None = None) -> Scores:
        """From differences [systems, systems, segments]; both orders of a pair are averaged with opposite signs.

        The score of a translation is its mean difference to the others that it was compared with.
        """
        if differences.ndim != 3 or differences.shape[0] != differences.shape[1]:
            raise UsageError(f"{name}: differences of shape {differences.shape}; expected [systems, systems, segments]")
        averaged = (differences - differences.transpose(1, 0, 2)) / 2
        averaged[np.arange(len(averaged)), np.arange(len(averaged))] = 0.0
        compared = (~np.isnan(averaged)).sum(axis=1) - 1  # [systems, segments], itself not counted
        means = np.where(compared > 0, np.nansum(averaged, axis=1) / np.maximum(compared, 1), np.nan)
        return cls(name, means, differences=averaged, to_reference=to_reference, kind="own")

    def with_differences(self, differences: Floats, to_reference: Floats | None) -> Scores:
        """The same pairwise metric with other differences."""
        scores = Scores.pairwise(self.name, differences, to_reference)
        return replace(scores, kind=self.kind, reference=self.reference)

    def system_scores(self) -> Floats:
        """[systems]: the scores of whole systems if there are any, else the means over segments with a score."""
        if self.systems is not None:
            return self.systems
        assert self.segments is not None
        scored = ~np.isnan(self.segments)
        sums = np.where(scored, self.segments, 0).sum(axis=1)
        return np.asarray(sums / np.maximum(scored.sum(axis=1), 1))

    def take(self, systems: NDArray[np.int64]) -> Scores:
        """The scores of some of the systems."""
        if self.differences is not None:
            anchored = None if self.to_reference is None else self.to_reference[systems]
            return self.with_differences(self.differences[systems][:, systems], anchored)
        return replace(
            self,
            segments=None if self.segments is None else self.segments[systems],
            systems=None if self.systems is None else self.systems[systems],
        )

    def columns(self, segments: NDArray[np.int64]) -> Scores:
        """The scores of some of the segments; those of whole systems, which cover all segments, are dropped."""
        return replace(
            self,
            segments=None if self.segments is None else self.segments[:, segments],
            differences=None if self.differences is None else self.differences[:, :, segments],
            to_reference=None if self.to_reference is None else self.to_reference[:, segments],
            systems=None,
        )


@dataclass(frozen=True)
class Texts:
    """Sources, outputs and reference; every list has one text per segment."""

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
    dropped: tuple[str, ...] = ()  # systems that do not count: references, outliers, without a human score
    notes: tuple[str, ...] = ()  # for the user: what was left out, and why
    domains: tuple[str, ...] = ()  # of each segment; empty where they are not known
    documents: tuple[str, ...] = ()  # of each segment, likewise
    official: bool = False  # systems, reference and gold are those of WMT's official results
    assumed: tuple[str, ...] = ()  # for the user: what was taken because no official results are known
    listed: tuple[str, ...] = ()  # systems in the order of the file with human scores; empty: as `systems`
    settings: Mapping[str, str] = field(default_factory=dict)  # what was made of them: domain, level, clip

    def __post_init__(self) -> None:
        for name in (*self.systems, self.human.name, *(metric.name for metric in self.metrics)):
            if not printable(name):
                raise InputError(f"the name {name!r:.80} holds a control character; expected one that can be shown")

    @property
    def gold(self) -> Floats:
        """[systems, segments]; NaN where there is no annotation."""
        assert self.human.segments is not None
        return self.human.segments

    @property
    def annotated(self) -> int:
        """Number of segments with a human score."""
        return int((~np.isnan(self.gold)).any(axis=0).sum())

    def signature(self, task: str, **settings: Any) -> str:
        """Of a study of these scores; `settings` are the study's own."""
        return signature(
            task,
            set=self.name,
            lp=self.lp,
            human=self.human.name,
            systems=len(self.systems),
            segments=self.annotated,
            **self.settings,
            **settings,
        )

    def description(self) -> dict[str, Any]:
        """For JSON: what was scored, without the scores."""
        return {
            "test_set": self.name,
            "lp": self.lp,
            "human": self.human.name,
            "systems": list(self.systems),
            "segments": self.annotated,
            "official": self.official,
            **self.settings,
            **({"assumed": list(self.assumed)} if self.assumed else {}),
        }

    def changed(self, **settings: str) -> ScoreSet:
        """The same scores, with what was done to them; they are no longer those of the official results."""
        return replace(self, settings={**self.settings, **settings}, official=False)

    def file_order(self) -> NDArray[np.int64]:
        """The places of the systems in the order of the file with human scores."""
        places = [self.systems.index(name) for name in self.listed if name in self.systems]
        return np.array([*places, *(place for place in range(len(self.systems)) if place not in places)], np.int64)

    def metric(self, name: str) -> Scores:
        for metric in self.metrics:
            if metric.name == name:
                return metric
        names = ", ".join(metric.name for metric in self.metrics)
        raise UsageError(f"no metric {name!r}; there are {names or 'none'}")

    def take(self, systems: NDArray[np.int64]) -> ScoreSet:
        return replace(
            self,
            systems=tuple(self.systems[place] for place in systems),
            human=self.human.take(systems),
            metrics=tuple(metric.take(systems) for metric in self.metrics),
            texts=None if self.texts is None else self.texts.take(systems),
            official=False,
        )

    def columns(self, segments: NDArray[np.int64]) -> ScoreSet:
        return replace(
            self,
            segments=tuple(self.segments[place] for place in segments),
            human=self.human.columns(segments),
            metrics=tuple(metric.columns(segments) for metric in self.metrics if metric.segments is not None),
            texts=None if self.texts is None else self.texts.columns(segments),
            domains=tuple(self.domains[place] for place in segments) if self.domains else (),
            documents=tuple(self.documents[place] for place in segments) if self.documents else (),
        )

    def annotated_only(self) -> ScoreSet:
        """Without segments that have no annotation; scores of whole systems stay those of all segments."""
        places = np.flatnonzero((~np.isnan(self.gold)).any(axis=0))
        return replace(
            self.columns(places),
            human=_pinned(self.human, places),
            metrics=tuple(_pinned(metric, places) for metric in self.metrics),
        )

    def choose(self, only: Sequence[str] | None = None, without: Sequence[str] = ()) -> ScoreSet:
        """With some of the systems: only these, or all but those. An unknown name raises UsageError."""
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

    def with_gold(self, name: str) -> ScoreSet:
        """With another evaluator as the gold; the gold becomes one of the evaluators."""
        if name == self.human.name:
            return self
        gold = self.metric(name)
        others = (other for other in self.metrics if other.name != name)
        human = replace(self.human, kind="human")
        return replace(self, human=replace(gold, kind="human"), metrics=(human, *others), official=False)

    def complete(self, named: Sequence[str] = ()) -> ScoreSet:
        """Without metrics that lack a score of an annotated translation; a note replaces each.

        Raises:
            InputError: the user named such a metric.
        """
        kept, notes = [], list(self.notes)
        for metric in self.metrics:
            try:
                check_metric(metric, self.gold)
                kept.append(metric)
            except InputError as exc:
                if metric.name in named:
                    raise
                notes.append(f"{metric.name} is left out: {str(exc).removeprefix(f'{metric.name}: ')}")
        return replace(self, metrics=tuple(kept), notes=tuple(notes))

    def with_metrics(self, *added: Scores) -> ScoreSet:
        """With more metrics. Their names must be new, and they must score every annotated translation."""
        names = [scores.name for scores in (self.human, *self.metrics, *added)]
        for metric in added:
            if names.count(metric.name) > 1:
                raise UsageError(f"{metric.name!r} is the name of another metric or of the gold; give another name")
            check_metric(metric, self.gold)
        return replace(self, metrics=(*self.metrics, *added))


def reference_names(compared: Iterable[str | None]) -> str:
    """The references among what metrics compare with, each once, for a signature."""
    return "+".join(dict.fromkeys(name for name in compared if name not in (None, SOURCE_ONLY)))


def model_names(metrics: Iterable[Scores]) -> str:
    """The models behind metrics of this package, with fingerprint and precision, each once, for a signature."""
    names = []
    for metric in metrics:
        settings = [entry.partition(":") for entry in metric.identity.split("|")]
        for place, (key, _, model) in enumerate(settings):
            if key == "model" or key.endswith(".model"):
                dtype = f"{key.removesuffix('model')}dtype"
                names.append(",".join([model, *(value for name, _, value in settings[place:] if name == dtype)][:2]))
    return "+".join(dict.fromkeys(names))


def _pinned(scores: Scores, segments: NDArray[np.int64]) -> Scores:
    return replace(scores.columns(segments), systems=scores.system_scores())


def check_metric(metric: Scores, gold: Floats) -> None:
    """Refuse a metric of another shape, or without a score of an annotated translation."""
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
        missing, what = int(pairs.sum()) // 2, ("pair of translations", "pairs of translations")
    else:
        missing, what = int((~np.isfinite(metric.segments) & judged).sum()), ("translation", "translations")
    if missing:
        verb = "has" if missing == 1 else "have"
        raise InputError(
            f"{metric.name}: {counted(missing, *what)} that people scored {verb} no score; expected a number"
        )


def score_of(value: object, where: str, name: str) -> float:
    """A score from a file; NaN where there is none (`None`, `null`, an empty cell)."""
    if value is None or (isinstance(value, str) and value in ("", "None", "none", "null")):
        return float("nan")
    score = finite(value, where, name)
    if abs(score) > LARGEST:
        raise InputError(f"{where}: {name} {value!r:.40} is too large; expected a score below {LARGEST:g} in size")
    return score
