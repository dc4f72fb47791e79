"""Scores of domains and of whole documents, from `documents/<lp>.docs` of a test set.

`in_domain` keeps the segments of a domain. `by_document` makes a document what a segment is elsewhere: its scores are
those of `.doc.score` files where the data has them, else the means over those of its segments that people scored.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from candidates.common.errors import InputError, UsageError
from mbr.metaeval.values import Floats, Scores, ScoreSet

LEVELS = ("segment", "document")


def domain_names(sets: Sequence[ScoreSet]) -> list[str]:
    """The domains of annotated segments, in order of their first segment."""
    names: dict[str, None] = {}
    for scores in sets:
        annotated = np.flatnonzero((~np.isnan(scores.gold)).any(axis=0)).tolist()
        names |= dict.fromkeys(scores.domains[place] for place in annotated if scores.domains and scores.domains[place])
    return list(names)


def in_domains(scores: ScoreSet, names: Sequence[str]) -> ScoreSet:
    """The segments of these domains. Scores of whole systems, which cover all segments, are dropped.

    Raises:
        InputError: the domains of segments are not known.
        UsageError: there is no such domain.
    """
    if not scores.domains:
        raise InputError(
            f"{scores.name} {scores.lp}: the domains of segments are not known; expected documents/<lp>.docs"
        )
    present = domain_names([scores])
    for name in names:
        if name not in present:
            raise UsageError(f"no domain {name!r} in {scores.lp}; there are {', '.join(present)}")
    places = np.array([place for place, domain in enumerate(scores.domains) if domain in names], np.int64)
    return scores.columns(places).changed(domain="+".join(names))


def by_document(scores: ScoreSet, human: Floats | None = None, metrics: Mapping[str, Floats] | None = None) -> ScoreSet:
    """The same scores with documents in place of segments. O(N M).

    Args:
        scores: of segments, with their documents.
        human: official scores of documents [systems, documents], in order of their first segment.
        metrics: the same of some metrics.
    """
    if not scores.documents:
        raise InputError(
            f"{scores.name} {scores.lp}: the documents of segments are not known; expected documents/<lp>.docs"
        )
    names = document_names(scores)
    number = {name: place for place, name in enumerate(names)}
    member = np.zeros((len(scores.segments), len(names)))
    member[np.arange(len(scores.segments)), [number[name] for name in scores.documents]] = 1.0
    # Where people scored documents, all segments count; else a metric is averaged over what people scored.
    judged = ~np.isnan(scores.gold) if human is None else np.ones(scores.gold.shape, np.bool_)
    first = [scores.documents.index(name) for name in names]
    scored = [metric for metric in scores.metrics if metric.segments is not None]
    return replace(
        scores,
        human=replace(scores.human, segments=_means(scores.gold, judged, member) if human is None else human),
        segments=names,
        metrics=tuple(_of_documents(metric, judged, member, (metrics or {}).get(metric.name)) for metric in scored),
        texts=None,
        domains=tuple(scores.domains[place] for place in first) if scores.domains else (),
        documents=names,
    ).changed(level="document")


def document_names(scores: ScoreSet) -> tuple[str, ...]:
    """In order of their first segment."""
    return tuple(dict.fromkeys(scores.documents))


def _of_documents(metric: Scores, judged: NDArray[np.bool_], member: Floats, official: Floats | None) -> Scores:
    if metric.differences is not None:
        both = judged[:, None] & judged[None]
        anchored = None if metric.to_reference is None else _means(metric.to_reference, judged, member)
        return metric.with_differences(_means(metric.differences, both, member), anchored)
    assert metric.segments is not None
    values = _means(metric.segments, judged, member) if official is None else official
    return replace(metric, segments=values)


def _means(values: Floats, counted: NDArray[np.bool_], member: Floats) -> Floats:
    """[..., documents]: means of values [..., segments] over the counted ones; NaN where there are none."""
    counted = counted & ~np.isnan(values)
    sizes = counted.astype(np.float64) @ member
    sums = np.where(counted, values, 0.0) @ member
    return np.asarray(np.divide(sums, sizes, out=np.full(sums.shape, np.nan), where=sizes > 0))
