"""Decisions as output lines: plain text, TSV, JSONL."""

from __future__ import annotations

import json

from candidates.lists import CandidateList
from mbr.decide import Decision

TSV_HEADER = ("id", "rank", "text", "score", "expected_utility", "position", "flags")


def header(format: str) -> bytes:
    return ("\t".join(TSV_HEADER) + "\n").encode() if format == "tsv" else b""


def render(decision: Decision, format: str, top: int) -> bytes:
    """The output of one segment. Text always has `top` lines per segment, so that it stays parallel to the sources."""
    if format == "jsonl":
        return (json.dumps(decision.record(top), ensure_ascii=False, allow_nan=False) + "\n").encode()
    entries = decision.entries(top)
    if format == "text":
        texts = [_one_line(entry["text"]) for entry in entries] + [""] * (top - len(entries))
        return "".join(text + "\n" for text in texts).encode()
    flags = ",".join([*decision.flags, *(["error"] if decision.error else [])])
    rows = entries or [{"text": "", "score": None, "expected_utility": None, "position": ""}]
    lines = []
    for rank, row in enumerate(rows, 1):
        numbers = ["" if row[key] is None else row[key] for key in ("score", "expected_utility")]
        cells = (decision.id, rank, row["text"], *numbers, row["position"], flags)
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
