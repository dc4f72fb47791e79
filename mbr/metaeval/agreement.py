"""Score sets in, one table out: every metric's agreement with people, with ranks, beside rows for sanity.

Several language pairs are averaged as WMT does: the mean of each statistic over language pairs, for metrics that all of
them have; pairwise accuracy counts the pairs of systems of all of them together. Where SPA and acc_eq* are both asked
for, `average` is their mean ("Avg Corr"), by which metrics are ranked.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from candidates.common.errors import InputError, UsageError
from mbr.metaeval.permutations import Progress
from mbr.metaeval.sanity import sanity_rows
from mbr.metaeval.significance import Comparison, combine, compare_metrics
from mbr.metaeval.spa import is_constant
from mbr.metaeval.statistics import STATISTICS, Gold, measure
from mbr.metaeval.values import Floats, Kind, Scores, ScoreSet, check_metric

AVERAGE = "average"
Values = dict[str, float | None]


@dataclass(frozen=True)
class Row:
    """A metric in a table. `ranks` are clusters of significance, and so is `rank`, if they were asked for."""

    metric: str
    kind: Kind
    reference: str | None
    values: Values  # by statistic; also `epsilon` and `average`
    rank: int | None = None
    ranks: Mapping[str, int] = field(default_factory=dict)
    constant: bool = False  # it cannot tell two systems apart, so that its SPA means nothing


@dataclass(frozen=True)
class Table:
    test_set: str
    lps: tuple[str, ...]
    human: str
    systems: tuple[tuple[str, ...], ...]  # of each language pair
    segments: tuple[int, ...]  # annotated ones, of each language pair
    statistics: tuple[str, ...]
    ranked_by: str
    rows: tuple[Row, ...]
    symmetric: bool = False
    comparisons: Mapping[str, Comparison] = field(default_factory=dict)
    parts: tuple[Table, ...] = ()  # one for each language pair, if there are several
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    def row(self, metric: str) -> Row:
        for row in self.rows:
            if row.metric == metric and row.kind != "sanity":
                return row
        raise UsageError(f"no row of {metric!r} in this table")


def parse_statistics(words: Sequence[str]) -> tuple[str, ...]:
    """Names with hyphens or underscores, in the order given."""
    found = [word.strip().lower().replace("-", "_") for word in words]
    for name in found:
        if name not in STATISTICS:
            known = ", ".join(one.replace("_", "-") for one in STATISTICS)
            raise UsageError(f"statistic {name!r} is unknown; expected some of {known}")
    if not found:
        raise UsageError("no statistic was named")
    return tuple(dict.fromkeys(found))


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

    `symmetric` takes the SPA that does not depend on the order of systems. `draws` and `seed` are those of significance
    tests (and of the random row); SPA itself has the draws of the official toolkit. `progress` is told what takes long.
    """
    statistics = parse_statistics(statistics)
    leading = _leading(statistics, rank_by)
    tables = []
    for scores in sets:
        if not scores.metrics:
            raise InputError(f"{scores.name} {scores.lp}: there is no metric to compare with people")
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
        raise UsageError("there is nothing to compare: no score set")
    return tables[0] if len(tables) == 1 else _mean_table(tables)


def _leading(statistics: tuple[str, ...], rank_by: str | None) -> str:
    """What metrics are ranked by."""
    known = (*statistics, AVERAGE) if {"spa", "acc_eq"} <= set(statistics) else statistics
    if rank_by is None:
        return AVERAGE if AVERAGE in known else statistics[0]
    wanted = rank_by.strip().lower().replace("-", "_")
    if wanted not in known:
        raise UsageError(f"cannot rank by {rank_by!r}; expected one of {', '.join(known)}")
    return wanted


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
        warnings.append(f"{', '.join(constant)}: all systems have the same scores, so that SPA means nothing")
    if "spa" in statistics and 0 < len(gold.shared) < int((gold.counts > 0).sum()):
        notes.append(f"SPA uses the {len(gold.shared)} segments in which every system was annotated")
    comparisons = {}
    if significance:
        for name in statistics:
            told = progress(f"{scores.lp or scores.name} {name}")
            # Draws of their own, so that chance does not repeat itself where language pairs are averaged.
            coins = [seed, zlib.crc32(scores.lp.encode()), zlib.crc32(name.encode())]
            comparisons[name] = compare_metrics(gold, scores.metrics, name, draws=draws, seed=coins, progress=told)
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
        comparisons=comparisons,
        notes=tuple(notes),
        warnings=tuple(warnings),
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
    numbers = [value for row in rows if (value := row.values.get(leading)) is not None]
    found = []
    for row in rows:
        value = row.values.get(leading)
        rank = None if value is None else 1 + sum(other > value for other in numbers)
        if leading in clusters:
            rank = clusters[leading].get(row.metric)
        ranks = {name: places[row.metric] for name, places in clusters.items() if row.metric in places}
        found.append(replace(row, rank=rank, ranks=ranks))

    def place(row: Row) -> tuple[bool, float, str]:
        value = row.values.get(leading)
        return (value is None, 0.0 if value is None else -value, row.metric)

    return sorted(found, key=place)


def _mean_table(tables: Sequence[Table]) -> Table:
    first = tables[0]
    pairs = np.array([len(table.systems[0]) * (len(table.systems[0]) - 1) / 2 for table in tables])
    rows: list[Row] = []
    added: list[Row] = []
    for row in first.rows:
        same = [_find(table, row) for table in tables]
        if None in same:
            continue
        values = {
            name: _mean([one.values.get(name) for one in same if one is not None], pairs, name) for name in row.values
        }
        compared = dict.fromkeys(one.reference for one in same if one is not None and one.reference is not None)
        reference = "+".join(compared) or None
        mean = Row(row.metric, row.kind, reference, values, constant=row.constant)
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
        human=first.human,
        systems=tuple(table.systems[0] for table in tables),
        segments=tuple(table.segments[0] for table in tables),
        statistics=first.statistics,
        ranked_by=first.ranked_by,
        rows=(*_ranked(rows, first.ranked_by, comparisons), *added),
        symmetric=first.symmetric,
        comparisons=comparisons,
        parts=tuple(tables),
        notes=(*_somewhere(tables, rows), *(f"{table.lps[0]}: {note}" for table in tables for note in table.notes)),
        warnings=tuple(f"{table.lps[0]}: {warning}" for table in tables for warning in table.warnings),
    )


def _somewhere(tables: Sequence[Table], everywhere: Sequence[Row]) -> list[str]:
    """A note on metrics that only some language pairs have."""
    shared = {row.metric for row in everywhere}
    every = dict.fromkeys(row.metric for table in tables for row in table.rows if row.kind != "sanity")
    some = [name for name in every if name not in shared]
    return [f"not in all language pairs, and not in the mean: {', '.join(some)}"] if some else []


def _find(table: Table, like: Row) -> Row | None:
    sanity = like.kind == "sanity"
    return next((row for row in table.rows if row.metric == like.metric and (row.kind == "sanity") == sanity), None)


def _mean(values: Sequence[float | None], pairs: Floats, name: str) -> float | None:
    if name == "epsilon" or any(value is None for value in values):
        return None
    weights = pairs if name == "pairwise_accuracy" and pairs.any() else None
    return float(np.average(np.array(values, np.float64), weights=weights))
