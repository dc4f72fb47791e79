"""Which metric should one rerank with? People judge the translations that metrics choose among systems' outputs.

Agreement over all pairs is not what reranking needs: only the top counts. In each segment a metric chooses the output
it scores highest, and the human score of that output is what the choice is worth (`choice`). It runs from a random
choice to that of an oracle, and the bar to beat is the best single system: a metric below it is worse than no metric.
Intervals are those of a paired bootstrap over segments against that system; metrics are tested against each other by
randomisation over segments (`permutations.choice_draws`).

    >>> study = choice_study(read_folder("mt-metrics-eval-v2/wmt23", "en-de"))       # doctest: +SKIP
    >>> study.sentence                                                              # doctest: +SKIP
    'No metric without reference chooses better than always taking GPT4-5shot.'
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from candidates.common.errors import InputError
from mbr.drawing import Interval, interval_lines
from mbr.metaeval.permutations import Seed
from mbr.metaeval.sanity import lengths
from mbr.metaeval.signature import signature
from mbr.metaeval.significance import Comparison, compare_choices
from mbr.metaeval.statistics import Gold, choice_range, choices
from mbr.metaeval.values import SOURCE_ONLY, Floats, Kind, Scores, ScoreSet, check_metric, model_names, reference_names

ORACLE, RANDOM, LONGEST = "oracle", "random", "longest"
LEVEL = 0.95
BLOCK = 2**22  # counts of segments that are drawn at once
Ties = Literal["mean", "first"]


@dataclass(frozen=True)
class ChoiceRow:
    """What people think of the choices of one metric."""

    metric: str
    kind: Kind
    reference: str | None  # what it compares with: a reference, SOURCE_ONLY, or None where it is not known
    choice: float  # mean human score
    regret: float | None  # 0: as an oracle, 1: as a random choice; None where all translations are equally good
    rrp: float  # share of segments in which the choice has the best human score
    gain: float  # over the best single system, on the segments that people scored it in
    low: float  # interval of the gain
    high: float
    rank: int | None = None  # cluster of significance

    def record(self) -> dict[str, Any]:
        """For JSON."""
        values = asdict(self)
        values["choice_regret"] = values.pop("regret")
        values["gain_interval"] = [values.pop("low"), values.pop("high")]
        return values


@dataclass(frozen=True)
class ChoiceStudy:
    """All metrics of a language pair, best first, and the choices that need no metric."""

    test_set: str
    lp: str
    human: str
    systems: int
    segments: int
    best_system: str
    rows: tuple[ChoiceRow, ...]
    sanity: tuple[ChoiceRow, ...]  # oracle, best single system, random, longest
    comparison: Comparison | None
    ties: Ties
    draws: int
    seed: int
    official: bool = False
    assumed: tuple[str, ...] = ()
    settings: tuple[tuple[str, str], ...] = ()
    models: str = ""  # behind metrics of this package

    @property
    def title(self) -> str:
        where = " ".join(filter(None, (self.test_set, self.lp, *(f"{key} {value}" for key, value in self.settings))))
        return f"{where}: choices judged by {self.human}, {self.systems} systems, {self.segments} segments"

    @property
    def sentence(self) -> str:
        """The result in words."""
        return " ".join(self.sentences)

    @property
    def sentences(self) -> list[str]:
        """Which metrics choose better than always taking the best single system, a sentence for each group of them."""
        taking = f"than always taking {self.best_system}"
        free, compared, others = self._groups()
        which = "own " if all(row.kind == "own" for row in others) else "other "
        groups = (
            ("", " without reference", free),
            ("", " with a reference", compared),
            (which if free or compared else "", "", others),
        )
        return [
            _sentence(f"{before}metric{after}", f"{before}metrics{after}", rows, taking)
            for before, after, rows in groups
            if rows
        ]

    def _groups(self) -> tuple[list[ChoiceRow], list[ChoiceRow], list[ChoiceRow]]:
        """Metrics without reference, with one, and those whose files do not show what they compare with."""
        free = [row for row in self.rows if row.reference == SOURCE_ONLY]
        others = [row for row in self.rows if row.reference is None]
        return free, [row for row in self.rows if row.reference not in (None, SOURCE_ONLY)], others

    def signature(self) -> str:
        return signature(
            "choice",
            set=self.test_set,
            lp=self.lp,
            human=self.human,
            ref=reference_names(row.reference for row in self.rows),
            systems=self.systems,
            segments=self.segments,
            **dict(self.settings),
            models=self.models,
            ties=self.ties,
            draws=self.draws,
            seed=self.seed,
        )

    def record(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "test_set": self.test_set,
            "lp": self.lp,
            "human": self.human,
            "systems": self.systems,
            "segments": self.segments,
            "official": self.official,
            **({"assumed": list(self.assumed)} if self.assumed else {}),
            **dict(self.settings),
            "ties": self.ties,
            "best_system": self.best_system,
            "result": self.sentence,
            "signature": self.signature(),
            "rows": [row.record() for row in (*self.rows, *self.sanity)],
            **({} if self.comparison is None else {"significance": self.comparison.record()}),
        }

    def plot(self) -> str:
        """An SVG: metrics on a line from random to oracle. Intervals are drawn around the best single system."""
        marks = {row.metric: row.choice for row in self.sanity if row.metric != LONGEST}
        best = marks[self.best_system]
        longest = [row for row in self.sanity if row.metric == LONGEST]
        free, compared, others = self._groups()
        own = "own metric" if all(row.kind == "own" for row in others) else "reference not known"
        lines = [
            Interval(row.metric, row.choice, row.choice - row.gain + row.low, row.choice - row.gain + row.high, kind)
            for kind, rows in (
                ("compares with a reference", compared),
                ("no reference", free),
                (own, others),
                ("no metric", longest),
            )
            for row in rows
        ]
        lines.sort(key=lambda line: -line.value)
        note = (
            f"{LEVEL:.0%} intervals of the difference from {self.best_system} ({best:.2f}); no significant difference "
        )
        return interval_lines(
            self.title,
            lines,
            marks,
            f"mean {self.human} score of the chosen translations",
            note + "where an interval crosses its line",
        )


def choice_study(
    scores: ScoreSet, *, ties: Ties = "mean", draws: int = 1000, seed: int = 1, significance: bool = True
) -> ChoiceStudy:
    """What people think of the choices of every metric with scores of segments.

    Args:
        scores: of one language pair.
        ties: what counts where several outputs have the metric's highest score: their mean, or the first in the
            file of human scores.
        draws: of the bootstrap and of the tests.
        seed: of both.
        significance: whether to test all pairs of metrics by what they chose; ranks are clusters then.
    """
    for metric in scores.metrics:
        check_metric(metric, scores.gold)
    scores = scores.annotated_only()
    gold = Gold(scores.gold)
    if not len(gold.choosable):
        raise InputError(f"{scores.name} {scores.lp}: no segment has two translations that people scored; no choice")
    order = scores.file_order() if ties == "first" else None
    metrics = [metric for metric in scores.metrics if metric.segments is not None]
    chosen = [choices(gold, metric, order=order) for metric in metrics]
    best_system = _best_system(gold)
    own = gold.scores[best_system, gold.choosable]  # NaN where people did not score it
    plain = _without_metric(scores, gold, best_system, order)
    human = np.array([values for values, _ in (*chosen, *(row[1:] for row in plain))])
    intervals = paired_bootstrap(human - own, draws=draws, seed=seed)
    comparison = None
    if significance:
        units = [values for values, _ in chosen]
        comparison = compare_choices([metric.name for metric in metrics], units, draws=draws, seed=seed)
    ranks = {} if comparison is None else comparison.ranks()
    rows = [
        replace(_row(gold, metric.name, metric.kind, values, own, interval), reference=metric.reference)
        for metric, values, interval in zip(metrics, chosen, intervals, strict=False)
    ]
    sanity = [
        _row(gold, name, "sanity", (values, best), own, interval)
        for (name, values, best), interval in zip(plain, intervals[len(metrics) :], strict=True)
    ]
    rows = [replace(row, rank=ranks.get(row.metric)) for row in rows]
    return ChoiceStudy(
        test_set=scores.name,
        lp=scores.lp,
        human=scores.human.name,
        systems=len(scores.systems),
        segments=len(gold.choosable),
        best_system=scores.systems[best_system],
        rows=tuple(sorted(rows, key=lambda row: (-row.choice, row.metric))),
        sanity=tuple(sanity),
        comparison=comparison,
        ties=ties,
        draws=draws,
        seed=seed,
        official=scores.official,
        assumed=scores.assumed,
        settings=tuple(scores.settings.items()),
        models=model_names(metrics),
    )


def paired_bootstrap(differences: Floats, *, draws: int, seed: Seed) -> list[tuple[float, float]]:
    """Intervals of the means of differences [rows, segments] when segments are drawn with replacement.

    NaN in a segment stands for "not compared"; such segments take part in the drawing, as they would in another
    sample, and count for nothing. All rows share the draws. O(draws x rows x segments), as matrix products.
    """
    rows, segments = differences.shape
    compared = ~np.isnan(differences)
    values = np.where(compared, differences, 0.0)
    complete = bool(compared.all())
    random = np.random.default_rng(seed)
    means = np.empty((draws, rows))
    step = max(BLOCK // max(segments, 1), 1)
    for begin in range(0, draws, step):
        counts = random.multinomial(segments, np.full(segments, 1 / segments), min(step, draws - begin))
        weights = counts.astype(np.float64)
        sizes = segments if complete else np.maximum(weights @ compared.T.astype(np.float64), 1)
        means[begin : begin + len(counts)] = weights @ values.T / sizes
    tail = 100 * (1 - LEVEL) / 2
    low, high = np.percentile(means, [tail, 100 - tail], axis=0)
    return list(zip(low.tolist(), high.tolist(), strict=True))


def _best_system(gold: Gold) -> int:
    """The system with the highest mean human score; the first by name of several."""
    valid = gold.valid[:, gold.choosable]
    sums = np.where(valid, gold.scores[:, gold.choosable], 0.0).sum(axis=1)
    counts = valid.sum(axis=1)
    return int(np.where(counts > 0, sums / np.maximum(counts, 1), -np.inf).argmax())


def _without_metric(
    scores: ScoreSet, gold: Gold, best_system: int, order: NDArray[np.int64] | None
) -> list[tuple[str, Floats, Floats]]:
    """Name, human scores and shares of best choices [segments] of choices that need no metric."""
    own = gold.scores[best_system, gold.choosable]
    equal = Scores(RANDOM, np.zeros(gold.scores.shape))
    rows = [
        (ORACLE, gold.best, np.ones(len(gold.best))),
        (scores.systems[best_system], own, np.where(np.isnan(own), np.nan, own == gold.best)),
        (RANDOM, *choices(gold, equal)),
    ]
    if scores.texts is not None:
        rows.append((LONGEST, *choices(gold, Scores(LONGEST, lengths(scores.texts)), order=order)))
    return rows


def _row(
    gold: Gold, name: str, kind: Kind, chosen: tuple[Floats, Floats], own: Floats, interval: tuple[float, float]
) -> ChoiceRow:
    human, best = chosen
    compared: NDArray[np.bool_] = ~np.isnan(human)
    span = choice_range(gold)
    gain = human - own
    return ChoiceRow(
        metric=name,
        kind=kind,
        reference=None,
        choice=float(human[compared].mean()),
        regret=float((gold.best - human)[compared].mean() / span) if span > 0 else None,
        rrp=float(best[compared].mean()),
        gain=float(gain[~np.isnan(gain)].mean()),
        low=interval[0],
        high=interval[1],
    )


def _sentence(singular: str, plural: str, rows: Sequence[ChoiceRow], taking: str) -> str:
    better = [row.metric for row in rows if row.low > 0]
    if not better:
        return f"No {singular} chooses better {taking}."
    if len(rows) == 1:
        return f"The only {singular}, {better[0]}, chooses better {taking}."
    if len(better) == 1:
        return f"One of {len(rows)} {plural} chooses better {taking}: {better[0]}."
    return f"{len(better)} of {len(rows)} {plural} choose better {taking}: {', '.join(better)}."
