"""Evaluators that share no rater: which raters form which evaluator, so that most segments can be kept?

In annotation campaigns several raters judge each segment, but not the same ones everywhere. For k evaluators, raters
are put into k groups, none into two; a segment counts if every group has one of its raters; as many segments as
possible are kept (Proietti et al. 2025, appendix A). Segments with the same raters are one case. With few raters every
grouping is tried, with many it is a mixed integer program (HiGHS, through scipy). Of equally good groupings the one
with the fewest raters is taken.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from itertools import product
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from candidates.common.errors import InputError, UsageError
from mbr.metaeval.values import Floats, Scores, ScoreSet, Texts
from pear.data.judgments import Judgment

Segment = TypeVar("Segment", bound=Hashable)

MOST_GROUPINGS = 20_000  # to try all of them
SECONDS = 120.0


@dataclass(frozen=True)
class Grouping:
    """Disjoint groups of raters, and how many segments have a rater of each."""

    groups: tuple[frozenset[str], ...]
    segments: int
    proven: bool = True  # that no grouping keeps more


def disjoint_groups(raters: Mapping[Segment, Set[str]], groups: int) -> tuple[Grouping, list[Segment]]:
    """The best grouping of the raters of segments, and the segments that it keeps, in their order."""
    if groups < 2:
        raise UsageError(f"{groups} groups of raters; expected at least 2: one is the gold, the others are compared")
    cases = Counter(frozenset(names) for names in raters.values() if len(names) >= groups)
    everybody = sorted({rater for case in cases for rater in case})
    if len(everybody) < groups:
        raise InputError(f"no segment has {groups} raters, so that {groups} evaluators cannot be made of them")
    if (groups + 1) ** len(everybody) <= MOST_GROUPINGS:
        best = _tried(cases, everybody, groups)
    else:
        best = _solved(cases, everybody, groups)
    kept = [segment for segment, names in raters.items() if all(names & group for group in best.groups)]
    return best, kept


def read_evaluators(
    judgments: Sequence[Judgment],
    groups: int,
    *,
    name: str = "raters",
    only: Sequence[str] | None = None,
    without: Sequence[str] = (),
) -> ScoreSet:
    """Evaluators from judgments with raters: the first group is the gold, the others are metrics of the kind "human".

    They are called `name`-1, `name`-2 and so on. A rater counts for a segment if all systems there were judged by them.
    Where a group has several raters of a translation, their mean is its score.
    """
    scores: dict[tuple[str, str], dict[str, dict[str, list[float]]]] = {}  # segment -> rater -> system -> scores
    every_system = {row.system for row in judgments}
    for system in (*(only or ()), *without):
        if system not in every_system:
            raise UsageError(f"no system {system!r}; there are {', '.join(sorted(every_system))}")
    for row in judgments:
        if row.system not in without and (only is None or row.system in only):
            by_rater = scores.setdefault((row.document, row.segment), {})
            by_rater.setdefault(row.rater, {}).setdefault(row.system, []).append(row.score)
    systems = tuple(
        sorted({system for by_rater in scores.values() for by_system in by_rater.values() for system in by_system})
    )
    complete = {
        segment: {rater for rater, by_system in by_rater.items() if len(by_system) == len(systems)}
        for segment, by_rater in scores.items()
    }
    grouping, kept = disjoint_groups(complete, groups)

    def matrix(group: frozenset[str]) -> Floats:
        return np.array(
            [
                [
                    np.mean([np.mean(scores[segment][rater][system]) for rater in complete[segment] & group])
                    for segment in kept
                ]
                for system in systems
            ]
        )

    order = sorted(grouping.groups, key=lambda group: sorted(group))
    evaluators = [Scores(f"{name}-{number}", matrix(group), kind="human") for number, group in enumerate(order, 1)]
    return ScoreSet(
        name="ratings",
        lp=judgments[0].lp if judgments else "",
        human=evaluators[0],
        systems=systems,
        segments=tuple(":".join(filter(None, segment)) for segment in kept),
        metrics=tuple(evaluators[1:]),
        texts=_texts(judgments, kept, systems),
        documents=tuple(document for document, _ in kept),
        notes=(
            f"{len(kept)} of {len(scores)} segments have a rater of each of {groups} disjoint groups: "
            + ("" if grouping.proven else f"(the best found in {SECONDS:.0f} s, there may be a better one) ")
            + "; ".join(f"{name}-{number} is {', '.join(sorted(group))}" for number, group in enumerate(order, 1)),
        ),
    )


def _texts(judgments: Sequence[Judgment], segments: Sequence[tuple[str, str]], systems: Sequence[str]) -> Texts | None:
    """Sources and translations, where the judgments have them."""
    sources = {(row.document, row.segment): row.source for row in judgments}
    outputs = {(row.document, row.segment, row.system): row.translation for row in judgments}
    if not all(sources[segment] for segment in segments):
        return None
    return Texts(
        [sources[segment] for segment in segments],
        [[outputs[*segment, system] for segment in segments] for system in systems],
    )


def together(tables: Sequence[ScoreSet]) -> ScoreSet:
    """The evaluators of several tables, over the systems and segments that all of them have; the first is the gold."""
    first = tables[0]
    if len(tables) == 1:
        return first
    systems = [name for name in first.systems if all(name in other.systems for other in tables)]
    segments = [name for name in first.segments if all(name in other.segments for other in tables)]
    if len(systems) < 2 or not segments:
        raise InputError(
            f"the tables of ratings share {len(systems)} systems and {len(segments)} segments; expected at least 2 and "
            "1: are systems, documents and segments called the same in all?"
        )
    rows = []
    for other in tables:
        chosen = other.take(np.array([other.systems.index(name) for name in systems]))
        rows.append(chosen.columns(np.array([other.segments.index(name) for name in segments])))
    return replace(
        rows[0],
        metrics=(*rows[0].metrics, *(person for other in rows[1:] for person in (other.human, *other.metrics))),
        notes=(*(note for other in tables for note in other.notes), f"{len(segments)} segments are in all tables"),
    )


def beside_metrics(people: ScoreSet, scores: ScoreSet) -> ScoreSet:
    """Evaluators made of raters beside the metrics of a score set, over the systems that both have.

    Segments are matched by their source text, and where a text occurs several times by number; where no texts are
    known, by name.
    """
    systems = [name for name in people.systems if name in scores.systems]
    if len(systems) < 2:
        raise InputError(
            f"the ratings have the systems {', '.join(people.systems)}, the metrics {', '.join(scores.systems)}; "
            "expected at least two of the same name"
        )
    places = _matched(people, scores)
    kept = people.take(np.array([people.systems.index(name) for name in systems]))
    others = scores.take(np.array([scores.systems.index(name) for name in systems])).columns(places)
    left = [name for name in people.systems if name not in systems]
    notes = [f"rated, but without metrics: {', '.join(left)}"] if left else []
    return replace(
        others,
        human=kept.human,
        metrics=(*kept.metrics, *others.metrics),
        notes=(*people.notes, *notes),
        official=False,
    )


def _matched(people: ScoreSet, scores: ScoreSet) -> NDArray[np.int64]:
    """The place of every rated segment among those of the metrics."""
    by_name = {name: place for place, name in enumerate(scores.segments)}
    by_source: dict[str, list[int]] = {}
    for place, source in enumerate(scores.texts.sources if scores.texts is not None else ()):
        by_source.setdefault(source.strip(), []).append(place)
    places = []
    for number, name in enumerate(people.segments):
        source = "" if people.texts is None else people.texts.sources[number].strip()
        same = by_source.get(source, []) if source else []
        numbered = by_name.get(name.rpartition(":")[2], by_name.get(name))
        if by_source and source:
            match = same[0] if len(same) == 1 else numbered if numbered in same else None
        else:
            match = numbered
        if match is None:
            what = f"source {source!r:.60}" if by_source and source else f"segment {name!r}"
            raise InputError(f"ratings of {what} have no place among the metrics' {len(scores.segments)} segments")
        places.append(match)
    return np.array(places, np.int64)


def _tried(cases: Counter[frozenset[str]], everybody: Sequence[str], groups: int) -> Grouping:
    """Every rater in one of the groups or in none; the first of the best."""
    best, most = Grouping(tuple(frozenset() for _ in range(groups)), 0), (-1, 0)
    for places in product(range(groups + 1), repeat=len(everybody)):
        proposed = tuple(
            frozenset(rater for rater, place in zip(everybody, places, strict=True) if place == g)
            for g in range(groups)
        )
        # Groups that only change places are tried once: they appear in the order of their first raters.
        firsts = [min(group) if group else "" for group in proposed]
        if "" in firsts or firsts != sorted(firsts):
            continue
        kept = sum(count for case, count in cases.items() if all(case & group for group in proposed))
        if (kept, -sum(map(len, proposed))) > most:
            best, most = Grouping(proposed, kept), (kept, -sum(map(len, proposed)))
    return best


def _solved(cases: Counter[frozenset[str]], everybody: Sequence[str], groups: int) -> Grouping:
    """x[r, g]: rater r is in group g; y[c]: case c is kept, only if for every g some x[r, g] with r in c is 1."""
    from scipy.optimize import Bounds, LinearConstraint, milp
    from scipy.sparse import lil_array

    listed = list(cases.items())
    members = len(everybody) * groups
    number = {rater: place for place, rater in enumerate(everybody)}
    rows = lil_array((len(everybody) + len(listed) * groups, members + len(listed)))
    upper = np.zeros(rows.shape[0])
    for rater in range(len(everybody)):
        rows[rater, rater * groups : (rater + 1) * groups] = 1
        upper[rater] = 1
    for place, (case, _) in enumerate(listed):
        for group in range(groups):
            row = len(everybody) + place * groups + group
            rows[row, members + place] = 1
            for name in case:
                rows[row, number[name] * groups + group] = -1
    # All raters together cost less than one segment gains.
    gain = np.concatenate([np.full(members, 0.5 / members), [-float(count) for _, count in listed]])
    done = milp(
        gain,
        constraints=LinearConstraint(rows.tocsr(), -np.inf, upper),
        integrality=np.ones(len(gain)),
        bounds=Bounds(0, 1),
        options={"time_limit": SECONDS},
    )
    if done.x is None:
        raise InputError(f"no grouping of {len(everybody)} raters was found within {SECONDS:.0f} s: {done.message}")
    chosen = np.rint(done.x[:members]).reshape(len(everybody), groups) > 0
    grouped = tuple(frozenset(rater for rater in everybody if chosen[number[rater], g]) for g in range(groups))
    kept = sum(count for case, count in listed if all(case & group for group in grouped))
    return Grouping(grouped, kept, proven=done.status == 0)
