"""Do metrics agree with people as well as people do? (Proietti et al. 2025)

One set of human scores is the gold; others are evaluators like the metrics, on the segments that all of them annotated.
For a fair comparison the people behind two columns must not be the same: `raters.py` makes such columns. Each of the
people may be the gold in turn, on the same segments (appendix F).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from candidates.common.errors import InputError, UsageError
from candidates.common.words import counted
from mbr.metaeval.agreement import Table, meta_evaluate
from mbr.metaeval.values import ScoreSet

STATISTICS = ("spa", "acc_eq")


def common_segments(scores: ScoreSet, humans: Sequence[str]) -> ScoreSet:
    """Mark these metrics as human and keep the segments in which they and the gold scored every system.

    Metrics that lack a score there are left out with a note. Scores of whole systems, which cover other segments, are
    dropped.
    """
    for name in humans:
        if name == scores.human.name:
            raise UsageError(f"{name!r} is the gold; name other columns as people")
        scores.metric(name)
    people = [scores.human, *(other for other in scores.metrics if other.name in humans or other.kind == "human")]
    if len(people) < 2:
        raise UsageError("there are no human scores but the gold; name other human columns with --humans")
    annotated = [person.segments for person in people if person.segments is not None]
    kept = np.flatnonzero(np.all([~np.isnan(values).any(axis=0) for values in annotated], axis=0))
    if not len(kept):
        raise InputError(
            f"no segment was annotated by all of {', '.join(person.name for person in people)} for all of the "
            f"{len(scores.systems)} systems; leave out some of either"
        )
    chosen = scores.columns(kept)
    metrics, notes = [], list(scores.notes)
    for metric in chosen.metrics:
        assert metric.segments is not None
        missing = int(np.isnan(metric.segments).sum())
        if missing:
            notes.append(
                f"{metric.name} is left out: it has no score of {counted(missing, 'translation')} in these segments"
            )
        else:
            metrics.append(replace(metric, kind="human" if metric.name in humans else metric.kind))
    return replace(chosen, metrics=tuple(metrics), notes=tuple(notes))


def human_parity(scores: ScoreSet, humans: Sequence[str] = (), *, gold: str | None = None, **options: Any) -> Table:
    """The table of metrics and people: SPA and acc_eq* with significance; `options` are those of `meta_evaluate`.

    `gold` is one of the people, in place of the gold of `scores`, which then is one of the evaluators.
    """
    settings = {"statistics": STATISTICS, "significance": True, **options}
    common = common_segments(scores, humans)
    return meta_evaluate([common if gold is None else common.with_gold(gold)], **settings)
