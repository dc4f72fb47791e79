"""Do metrics agree with people as well as people do? (Proietti et al. 2025)

One set of human scores is the gold; others are evaluators like the metrics, on the segments that all of them annotated.
For a fair comparison the people behind two columns must not be the same: `raters.py` makes such columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from candidates.common.errors import InputError, UsageError
from mbr.metaeval.agreement import Table, meta_evaluate
from mbr.metaeval.values import ScoreSet

STATISTICS = ("spa", "acc_eq")


def common_segments(scores: ScoreSet, humans: Sequence[str]) -> ScoreSet:
    """Marks these metrics as people and keeps the segments in which they and the gold judged every system.

    Metrics that lack a score there are left out with a note. Scores of whole systems, which are of other segments, are
    left out too.
    """
    for name in humans:
        if name == scores.human.name:
            raise UsageError(f"{name!r} is the gold; name other columns as people")
        scores.metric(name)
    people = [scores.human, *(one for one in scores.metrics if one.name in humans or one.kind == "human")]
    if len(people) < 2:
        raise UsageError("nobody but the gold: name the other human columns with --humans")
    judged = [one.segments for one in people if one.segments is not None]
    kept = np.flatnonzero(np.all([~np.isnan(one).any(axis=0) for one in judged], axis=0))
    if not len(kept):
        raise InputError(
            f"no segment was annotated by all of {', '.join(one.name for one in people)} for all of the "
            f"{len(scores.systems)} systems; leave out some of either"
        )
    chosen = scores.columns(kept)
    metrics, notes = [], list(scores.notes)
    for one in chosen.metrics:
        assert one.segments is not None
        missing = int(np.isnan(one.segments).sum())
        if missing:
            notes.append(f"{one.name} is left out: it has no score of {missing} translations in these segments")
        else:
            metrics.append(replace(one, kind="human" if one.name in humans else one.kind))
    return replace(chosen, metrics=tuple(metrics), notes=tuple(notes))


def human_parity(scores: ScoreSet, humans: Sequence[str] = (), **options: Any) -> Table:
    """The table of metrics and people: SPA and acc_eq* with ranks, unless options of `meta_evaluate` say otherwise."""
    settings = {"statistics": STATISTICS, "significance": True, **options}
    return meta_evaluate([common_segments(scores, humans)], **settings)
