"""Files of texts, one per segment: lines, or the decisions that mbr-decode wrote as JSONL."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from candidates.common.errors import InputError
from candidates.common.text import lines


@dataclass(frozen=True)
class Texts:
    """The texts of one file."""

    path: str
    texts: list[str]

    @property
    def has_byte_order_mark(self) -> bool:
        return bool(self.texts) and self.texts[0].startswith("\ufeff")


def read_texts(path: str) -> Texts:
    """The texts of a file. A byte order mark is kept, as in sacrebleu and in WMT's published scores."""
    if Path(path).is_dir():
        raise InputError(f"{path} is a folder; expected a file of lines")
    return Texts(path, _decisions(path) if _is_jsonl(path) else [text for _, text in lines(path, keep_bom=True)])


def _is_jsonl(path: str) -> bool:
    return path.removesuffix(".gz").endswith(".jsonl")


def _decisions(path: str) -> list[str]:
    """The field `text` of each record; empty for a segment that mbr-decode could not decide."""
    texts = []
    for number, line in lines(path):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as exc:
            raise InputError(f"{path}, line {number}: not valid JSON: {exc}") from exc
        text = record.get("text", 0) if isinstance(record, dict) else 0
        if text is not None and not isinstance(text, str):
            raise InputError(
                f'{path}, line {number}: expected an object like {{"text": ...}}, as mbr-decode writes them'
            )
        texts.append(text or "")
    return texts
