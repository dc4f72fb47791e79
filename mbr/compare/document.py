"""A comparison for programs: everything as one JSON document."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from candidates.common.version import __version__
from mbr.compare.comparison import Comparison, Row
from mbr.compare.study import Study
from mbr.compare.summary import summary
from mbr.evaluate.evaluation import reason_of


def as_json(done: Comparison) -> dict[str, Any]:
    """Everything but the matrices, as plain values."""
    evaluation, agreement = done.evaluation, done.agreement
    document: dict[str, Any] = plain(
        {
            "version": __version__,
            "segments": len(done.lists),
            "candidates": float(np.mean([len(item) for item in done.lists])),
            "origin": dict(done.origin),
            "baseline": done.baseline,
            "bootstrap": evaluation.draws,
            "trials": evaluation.trials,
            "seed": evaluation.seed,
            "summary": summary(done),
            "rows": [_row(done, row) for row in done.rows],
            "judges": [judge.description() for judge in evaluation.judges],
            "agreement": {
                "rows": agreement.rows,
                "settings": agreement.settings,
                "same_choice": agreement.same,
                "rank_correlation": agreement.correlation,
                "regret": agreement.regret,
            },
            "regret_against_passes": [_study(study) for study in done.studies],
            "left_out": [vars(segment) for segment in done.left_out],
            "choices": [
                {
                    "id": item.id,
                    "source": item.source,
                    "references": [texts[place] for texts in done.references],
                    "chosen": {row.label: row.texts[place] for row in done.rows if row.error is None},
                }
                for place, item in enumerate(done.lists)
            ],
        }
    )
    return document


def plain(value: Any) -> Any:
    """A value as JSON can hold it: arrays as lists, NaN and infinity as None."""
    if isinstance(value, dict):
        return {str(key): plain(member) for key, member in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(member) for member in value]
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, (float, np.floating)):
        return float(value) if math.isfinite(value) else None
    return value.item() if isinstance(value, np.generic) else value


def _row(done: Comparison, row: Row) -> dict[str, Any]:
    setting = None if row.decided is None else row.decided.setting
    return {
        "label": row.label,
        "kind": row.kind,
        "utility": None if setting is None else setting.recipe.utility,
        "strategy": None if setting is None else setting.recipe.strategy,
        "signature": row.signature,
        "passes": row.passes,
        "seconds": row.seconds,
        "device": row.device,
        "cost_ratio": row.cost_ratio,
        "error": None if row.error is None else reason_of(row.error),
        "fallbacks": {str(done.lists[place].id): reason for place, reason in row.fallbacks.items()},
        "scores": {
            judge.label: {**judge.scores[row.label].record(), "rank": done.ranks(place)[row.label]}
            for place, judge in enumerate(done.evaluation.judges)
            if row.label in judge.scores
        },
    }


def _study(study: Study) -> dict[str, Any]:
    return {
        "setting": study.setting.label,
        "segments": [portrait.item.id for portrait in study.portraits],
        "asymmetry": [portrait.asymmetry for portrait in study.portraits],
        "points": [vars(point) for point in study.points],
    }
