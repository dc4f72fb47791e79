"""Score sets in, one table out: every metric's agreement with people, with ranks, beside sanity rows.

Several language pairs are averaged as WMT does: the mean of each statistic over language pairs, for metrics that all of
them have; pairwise accuracy counts the pairs of systems of all of them together. Where both SPA and acc_eq* are
requested, `average` is their mean ("Avg Corr"), by which metrics are ranked; over the language pairs of WMT24's or
WMT25's main result it is the official average.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from candidates.common.errors import InputError, UsageError
from mbr.metaeval.permutations import Progress
from mbr.metaeval.sanity import sanity_rows
from mbr.metaeval.signature import signature
from mbr.metaeval.significance import Comparison, combine, compare_metrics
from mbr.metaeval.spa import is_constant
from mbr.metaeval.statistics import STATISTICS, Gold, better, measure
from mbr.metaeval.values import SOURCE_ONLY, Floats, Kind, Scores, ScoreSet, check_metric, model_names, reference_names
from pear.data.test_sets import main_result

AVERAGE = "average"
Values = dict[str, float | None]


@dataclass(frozen=True)
class Row:
    """A metric in a table. `ranks` are clusters of significance where tests were run, and so is `rank`."""

    metric: str
    kind: Kind
    reference: str | None  # what it compares with: a reference, SOURCE_ONLY, or None where it is not known
    values: Values  # by statistic; also `epsilon` and `average`
    rank: int | None = None
    ranks: Mapping[str, int] = field(default_factory=dict)
    constant: bool = False  # it gives all systems the same scores, so its SPA is meaningless

    def record(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "metric": self.metric,
            "kind": self.kind,
            "reference": self.reference,
            **self.values,
            **({"spa_meaningless": True} if self.constant and "spa" in self.values else {}),
            "rank": self.rank,
            **({"ranks": dict(self.ranks)} if self.ranks else {}),
        }


@dataclass(frozen=True)
class Table:
    """Agreement of metrics with people, over one language pair or the mean of several."""

    test_set: str
    lps: tuple[str, ...]
    human: str
    systems: tuple[tuple[str, ...], ...]  # of each language pair
    segments: tuple[int, ...]  # annotated ones, of each language pair
    statistics: tuple[str, ...]
    ranked_by: str
    rows: tuple[Row, ...]
    symmetric: bool = False
    seed: int = 1  # of significance tests and the random row
    comparisons: Mapping[str, Comparison] = field(default_factory=dict)
    parts: tuple[Table, ...] = ()  # one for each language pair, if there are several
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    official: bool = False  # systems, references and gold are those of WMT's official results
    assumed: tuple[str, ...] = ()  # what was taken because no official results are known
    settings: Mapping[str, str] = field(default_factory=dict)  # what was made of the scores: domain, level, clip
    models: str = ""  # behind metrics of this package

    @property
    def is_main_result(self) -> bool:
        """Whether `average` is WMT's official main result: its language pairs, and SPA and acc_eq* of each."""
        pairs = main_result(self.test_set)
        complete = bool(pairs) and set(pairs) == set(self.lps) and AVERAGE in self.rows[0].values
        return self.official and complete and not self.symmetric

    def row(self, metric: str) -> Row:
        for row in self.rows:
            if row.metric == metric and row.kind != "sanity":
                return row
        raise UsageError(f"no row of {metric!r} in this table")

    def signature(self, task: str = "agreement") -> str:
        draws = next((len(comparison.draws) for comparison in self.comparisons.values()), None)
        random = self.comparisons or any(row.kind == "sanity" for row in self.rows)
        parts = self.parts or (self,)
        return signature(
            task,
            set=self.test_set,
            lp="+".join(filter(None, self.lps)),
            human=self.human,
            ref=_by_pair({part.lps[0]: reference_names(row.reference for row in part.rows) for part in parts}),
            systems="+".join(str(len(systems)) for systems in self.systems),
            segments="+".join(map(str, self.segments)),
            **self.settings,
            models=self.models,
            spa=("symmetric" if self.symmetric else "official,sorted") if "spa" in self.statistics else None,
            draws=draws,
            seed=self.seed if random else None,
        )

    def record(self, signature: str) -> dict[str, Any]:
        """For JSON, with the parts of each language pair where there are several."""
        several = len(self.lps) > 1
        record: dict[str, Any] = {
            "test_set": self.test_set,
            "lp": list(self.lps) if several else self.lps[0],
            "human": self.human,
            "systems": [list(systems) for systems in self.systems] if several else list(self.systems[0]),
            "segments": list(self.segments) if several else self.segments[0],
            "statistics": list(self.statistics),
            "spa_variant": "symmetric" if self.symmetric else "official, systems sorted by name",
            "ranked_by": self.ranked_by,
            "official": self.official,
            **({"main_result": True} if self.is_main_result else {}),
            **self.settings,
            **({"assumed": list(self.assumed)} if self.assumed else {}),
            "signature": signature,
            "rows": [row.record() for row in self.rows],
        }
        if self.comparisons:
            record["significance"] = {name: comparison.record() for name, comparison in self.comparisons.items()}
        if self.notes or self.warnings:
            record["notes"] = [*self.notes, *self.warnings]
        if several:
            record["language_pairs"] = [part.record(signature) for part in self.parts]
        return record


def parse_statistics(words: Sequence[str]) -> tuple[str, ...]:
    """The names of statistics, in the same order; hyphens may stand for underscores, as in options."""
    names = [word.strip().lower().replace("-", "_") for word in words]
    for name in names:
        if name not in STATISTICS:
            raise UsageError(f"statistic {name!r} is unknown; expected some of {', '.join(STATISTICS)}")
    if not names:
        raise UsageError("no statistic was named; expected some such as spa,acc_eq,pdp")
    return tuple(dict.fromkeys(names))


def meta_evaluate(
    sets: Sequence[ScoreSet],
    statistics: Sequence[str] = STATISTICS,
    *,
    rank_by: str | None = None,
    significance: bool = False,
    draws: int = 1000,
    seed: int = 1,
    symmetric: bool = False,
    sanity: bool = True,
    progress: Callable[[str], Progress] = lambda what: lambda steps: steps,
) -> Table:
    """Agreement of all metrics of one or several score sets with people.

    Args:
        sets: one score set per language pair.
        statistics: names of `STATISTICS`.
        rank_by: statistic that ranks metrics; by default the average of SPA and acc_eq*, else the first statistic.
        significance: whether to test all pairs of metrics; ranks become clusters.
        draws: of significance tests; SPA itself has the draws of the official toolkit.
        seed: of significance tests and the random row.
        symmetric: take the SPA that does not depend on the order of systems.
        sanity: whether to add rows without knowledge of translation.
        progress: from the label of a test to a function that wraps its steps, such as a progress bar.
    """
    statistics = parse_statistics(statistics)
    leading = _leading(statistics, rank_by)
    tables = []
    for scores in sets:
        if not scores.metrics:
            raise InputError(
                f"{scores.name} {scores.lp}: no metric to compare with people; give one with --own or --score"
            )
        tables.append(
            _table(
                scores,
                statistics,
                leading,
                significance=significance,
                draws=draws,
                seed=seed,
                symmetric=symmetric,
                sanity=sanity,
                progress=progress,
            )
        )
    if not tables:
        raise UsageError("no score set; give at least one")
    return tables[0] if len(tables) == 1 else _mean_table(tables)


def _leading(statistics: tuple[str, ...], rank_by: str | None) -> str:
    """The statistic that ranks metrics."""
    choices = (*statistics, AVERAGE) if {"spa", "acc_eq"} <= set(statistics) else statistics
    if rank_by is None:
        return AVERAGE if AVERAGE in choices else statistics[0]
    name = rank_by.strip().lower().replace("-", "_")
    if name not in choices:
        raise UsageError(f"cannot rank by {rank_by!r}; expected one of {', '.join(choices)}")
    return name


def _table(
    scores: ScoreSet,
    statistics: tuple[str, ...],
    leading: str,
    *,
    significance: bool,
    draws: int,
    seed: int,
    symmetric: bool,
    sanity: bool,
    progress: Callable[[str], Progress],
) -> Table:
    for metric in scores.metrics:
        check_metric(metric, scores.gold)
    scores = scores.annotated_only()
    gold = Gold(scores.gold, scores.human.systems, symmetric=symmetric)
    rows = [_row(gold, metric, statistics) for metric in scores.metrics]
    notes, warnings = list(scores.notes), []
    if constant := [row.metric for row in rows if row.constant and "spa" in statistics]:
        warnings.append(f"{', '.join(constant)}: all systems have the same scores, so that SPA is meaningless")
    if "spa" in statistics and 0 < len(gold.shared) < int((gold.counts > 0).sum()):
        notes.append(f"SPA uses the {len(gold.shared)} segments in which every system was annotated")
    comparisons = {}
    if significance:
        for name in statistics:
            bar = progress(f"{scores.lp or scores.name} {name}")
            # Independent draws, so that chance does not repeat itself where language pairs are averaged.
            own_seed = [seed, zlib.crc32(scores.lp.encode()), zlib.crc32(name.encode())]
            comparisons[name] = compare_metrics(gold, scores.metrics, name, draws=draws, seed=own_seed, progress=bar)
        comparisons = _with_average(comparisons)
    added = [_row(gold, metric, statistics) for metric in sanity_rows(scores, seed)] if sanity else []
    return Table(
        test_set=scores.name,
        lps=(scores.lp,),
        human=scores.human.name,
        systems=(scores.systems,),
        segments=(scores.annotated,),
        statistics=statistics,
        ranked_by=leading,
        rows=(*_ranked(rows, leading, comparisons), *added),
        symmetric=symmetric,
        seed=seed,
        comparisons=comparisons,
        notes=tuple(notes),
        warnings=tuple(warnings),
        official=scores.official,
        assumed=scores.assumed,
        settings=scores.settings,
        models=model_names(scores.metrics),
    )


def _row(gold: Gold, metric: Scores, statistics: tuple[str, ...]) -> Row:
    values = _with_mean(measure(gold, metric, statistics))
    constant = metric.segments is not None and is_constant(metric)
    return Row(metric.name, metric.kind, metric.reference, values, constant=constant)


def _with_mean(values: Values) -> Values:
    if "spa" in values and "acc_eq" in values:
        spa, accuracy = values["spa"], values["acc_eq"]
        values[AVERAGE] = None if spa is None or accuracy is None else (spa + accuracy) / 2
    return values


def _with_average(comparisons: dict[str, Comparison]) -> dict[str, Comparison]:
    if "spa" in comparisons and "acc_eq" in comparisons:
        comparisons[AVERAGE] = combine([comparisons["spa"], comparisons["acc_eq"]])
    return comparisons


def _ranked(rows: Sequence[Row], leading: str, comparisons: Mapping[str, Comparison]) -> list[Row]:
    """Best first, those without a value last; with clusters of significance if there are comparisons."""
    clusters = {name: comparison.ranks() for name, comparison in comparisons.items()}
    numbers = [better(leading, row.values[leading]) for row in rows if row.values.get(leading) is not None]
    ranked = []
    for row in rows:
        value = row.values.get(leading)
        rank = None if value is None else 1 + sum(other > better(leading, value) for other in numbers)
        if leading in clusters:
            rank = clusters[leading].get(row.metric)
        ranks = {name: places[row.metric] for name, places in clusters.items() if row.metric in places}
        ranked.append(replace(row, rank=rank, ranks=ranks))

    def order(row: Row) -> tuple[bool, float, str]:
        value = row.values.get(leading)
        return (value is None, 0.0 if value is None else -better(leading, value), row.metric)

    return sorted(ranked, key=order)


def _mean_table(tables: Sequence[Table]) -> Table:
    first = tables[0]
    pairs = np.array([len(table.systems[0]) * (len(table.systems[0]) - 1) / 2 for table in tables])
    rows: list[Row] = []
    added: list[Row] = []
    for row in first.rows:
        same = [match for table in tables if (match := _find(table, row)) is not None]
        if len(same) < len(tables):
            continue
        values = {name: _mean([match.values.get(name) for match in same], pairs, name) for name in row.values}
        compared = {table.lps[0]: match.reference or "" for table, match in zip(tables, same, strict=True)}
        mean = Row(row.metric, row.kind, _by_pair(compared) or None, values, constant=row.constant)
        (added if row.kind == "sanity" else rows).append(mean)
    if not rows:
        raise InputError(f"no metric scored all of {', '.join(table.lps[0] for table in tables)}")
    comparisons = {
        name: combine([table.comparisons[name] for table in tables], pairs if name == "pairwise_accuracy" else None)
        for name in first.comparisons
    }
    return Table(
        test_set=first.test_set,
        lps=tuple(table.lps[0] for table in tables),
        human="+".join(dict.fromkeys(table.human for table in tables)),
        systems=tuple(table.systems[0] for table in tables),
        segments=tuple(table.segments[0] for table in tables),
        statistics=first.statistics,
        ranked_by=first.ranked_by,
        rows=(*_ranked(rows, first.ranked_by, comparisons), *added),
        symmetric=first.symmetric,
        seed=first.seed,
        comparisons=comparisons,
        parts=tuple(tables),
        notes=(*_incomplete(tables, rows), *(f"{table.lps[0]}: {note}" for table in tables for note in table.notes)),
        warnings=tuple(f"{table.lps[0]}: {warning}" for table in tables for warning in table.warnings),
        official=all(table.official for table in tables),
        assumed=tuple(dict.fromkeys(sentence for table in tables for sentence in table.assumed)),
        settings=first.settings,
        models=first.models,
    )


def _incomplete(tables: Sequence[Table], complete: Sequence[Row]) -> list[str]:
    """A note on metrics that only some language pairs have."""
    shared = {row.metric for row in complete}
    every = dict.fromkeys(row.metric for table in tables for row in table.rows if row.kind != "sanity")
    some = [name for name in every if name not in shared]
    return [f"not in all language pairs, and not in the mean: {', '.join(some)}"] if some else []


def _find(table: Table, like: Row) -> Row | None:
    """The row of the same metric; with a reference and without one it is not the same."""
    key = _key(like)
    return next((row for row in table.rows if _key(row) == key), None)


def _key(row: Row) -> tuple[str, bool, bool]:
    return row.metric, row.kind == "sanity", row.reference == SOURCE_ONLY


def _by_pair(compared: Mapping[str, str]) -> str:
    """What all language pairs compare with, or `LP=NAME` of each, as `--reference` takes them."""
    if len(set(compared.values())) < 2:
        return next(iter(compared.values()))
    return ",".join(f"{lp}={name}" for lp, name in compared.items() if name)


def _mean(values: Sequence[float | None], pairs: Floats, name: str) -> float | None:
    if name == "epsilon" or any(value is None for value in values):
        return None
    weights = pairs if name == "pairwise_accuracy" and pairs.any() else None
    return float(np.average(np.array(values, np.float64), weights=weights))
