"""Decisions as JSON: numbers in full, so that they have the bits of the library; null where there is none."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from candidates.lists import CandidateList
from mbr.decide import Decision
from mbr.matrix import UtilityMatrix
from mbr.serve.jobs import Answer


def decision_body(
    answer: Answer,
    *,
    id: str | int | None,
    recipe: str,
    top: int = 1,
    systems: Mapping[int, str] | None = None,
    matrix: bool = False,
) -> dict[str, Any]:
    """The answer of /v1/decode. `systems` by position are echoed."""
    decision = answer.decision
    assert decision is not None
    assert decision.candidates is not None
    ranking = [_ranked(decision, index, systems or {}) for index in decision.ranking[:top]]
    chosen = {key: value for key, value in ranking[0].items() if key != "count"}
    body: dict[str, Any] = {
        "id": id,
        **chosen,
        "margin": number(decision.margin),
        "estimated_regret": number(decision.estimated_regret),
        "contenders": decision.certainty.contenders,
        "ranking": ranking,
        "partial": answer.partial,
        "flags": list(decision.flags),
        "usage": {"passes": decision.passes, "tokens": answer.tokens, "unique": len(decision.candidates)},
        "recipe": recipe,
        "signature": answer.signature,
    }
    if decision.dropped:
        body |= decision.dropped_record()
    if decision.error is not None:
        body["error"] = decision.error
    if matrix and decision.matrix is not None:
        body["matrix"] = _matrix(decision.matrix, decision.candidates)
    return body


def number(value: float | np.floating | None) -> float | None:
    """A number for JSON; None where it is not finite."""
    return None if value is None or not math.isfinite(value) else float(value)


def candidates_body(item: CandidateList) -> list[dict[str, Any]]:
    """A list as it was made, duplicates included."""
    return [{"text": entry.text, "logprob": entry.logprob, "count": entry.count} for entry in item.listed()]


def _ranked(decision: Decision, index: int, systems: Mapping[int, str]) -> dict[str, Any]:
    assert decision.candidates is not None
    position = decision.candidates.positions[index][0]
    scored = bool(len(decision.scores))
    entry = {
        "text": decision.candidates.texts[index],
        "position": position,
        "count": decision.candidates.counts[index],
        "score": number(decision.scores[index]) if scored else None,
        "expected_utility": number(decision.expected[index]) if scored else None,
        "terms": {name: number(values[index]) for name, values in decision.terms.items()},
    }
    if position in systems:
        entry["system"] = systems[position]
    return entry


def _matrix(matrix: UtilityMatrix, item: CandidateList) -> dict[str, Any]:
    place = {text: positions[0] for text, positions in zip(item.texts, item.positions, strict=True)}
    scored = matrix.scored | (matrix.scored.T if matrix.relation == "antisymmetric" else False)
    values = np.where(scored & np.isfinite(matrix.values), matrix.values, np.nan).astype(np.float64)
    return {
        "texts": list(matrix.texts),
        "positions": [place[text] for text in matrix.texts],
        "values": [[number(value) for value in row] for row in values.tolist()],
        "scored": matrix.scored.tolist(),
        "utility": matrix.utility,
        "relation": matrix.relation,
    }
