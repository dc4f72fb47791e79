"""Decisions as output lines: plain text, TSV, JSONL."""

from __future__ import annotations

import json
import math
from typing import Any

from candidates.lists import CandidateList
from mbr.decide import Decision

TSV_HEADER = ("id", "rank", "text", "expected_utility", "position", "flags")


def header(format: str) -> bytes:
    return ("\t".join(TSV_HEADER) + "\n").encode() if format == "tsv" else b""


def render(decision: Decision, format: str, top: int) -> bytes:
    """The output of one segment. Text always has `top` lines a segment, so that it stays parallel to the sources."""
    if format == "jsonl":
        return (json.dumps(_record(decision, top), ensure_ascii=False, allow_nan=False) + "\n").encode()
    entries = _entries(decision, top)
    if format == "text":
        texts = [_one_line(entry["text"]) for entry in entries] + [""] * (top - len(entries))
        return "".join(text + "\n" for text in texts).encode()
    flags = ",".join([*decision.flags, *(["error"] if decision.error else [])])
    rows = entries or [{"text": "", "expected_utility": None, "position": ""}]
    lines = []
    for rank, row in enumerate(rows, 1):
        expected = "" if row["expected_utility"] is None else row["expected_utility"]
        cells = (decision.id, rank, row["text"], expected, row["position"], flags)
        lines.append("\t".join(_one_line(str(cell)).replace("\t", " ") for cell in cells) + "\n")
    return "".join(lines).encode()


def _one_line(text: str) -> str:
    """Only a fallback can hold a line break here: decided texts were checked with `unfit`."""
    return text.replace("\n", " ")


def unfit(item: CandidateList, format: str) -> str | None:
    """Why the chosen text might not fit the output format; checked before any scoring."""
    forbidden = {"text": "\n", "tsv": "\n\t"}.get(format, "")
    for place, text in enumerate(item.texts, 1):
        for character in forbidden:
            if character in text:
                return f"candidate {place} holds {character!r}, which {format} output cannot; use --format jsonl"
    if format == "tsv" and any(character in str(item.id) for character in forbidden):
        return f"the id {item.id!r} does not fit TSV; use --format jsonl"
    return None


def _record(decision: Decision, top: int) -> dict[str, Any]:
    item = decision.candidates
    entries = _entries(decision, top)
    best = entries[0] if entries else {"text": None, "expected_utility": None, "position": None}
    record: dict[str, Any] = {
        "id": decision.id,
        "source": item.source if item else decision.source,
        **{key: best[key] for key in ("text", "expected_utility", "position")},
        "margin": _rounded(decision.margin),
        "candidates": sum(item.counts) if item else 0,
        "unique": len(item) if item else 0,
        "passes": decision.passes,
        "estimated_regret": _rounded(decision.certainty.estimated_regret),
        "contenders": decision.certainty.contenders,
        "rho": _rounded(decision.certainty.rho),
        "tau": _rounded(decision.certainty.tau),
        "flags": list(decision.flags),
    }
    if decision.error:
        record["error"] = decision.error
    if top > 1:
        record["top"] = entries
    return record


def _rounded(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else round(value, 6)


def _entries(decision: Decision, top: int) -> list[dict[str, Any]]:
    item = decision.candidates
    if item is None:
        return []
    known = len(decision.expected) > 0
    return [
        {
            "text": item.texts[index],
            "expected_utility": round(float(decision.expected[index]), 6) if known else None,
            "position": item.positions[index][0],
            "count": item.counts[index],
        }
        for index in decision.ranking[:top]
    ]
