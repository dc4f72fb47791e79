"""What is to be labelled: translations with their sources, from candidate lists or from files of judgments.

Files of judgments are as `pear-train` reads them (`pear.data.judgments`); their scores are left out, and in JSON
lines there need not be any.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from candidates.common.errors import InputError
from candidates.common.language_names import language_name
from candidates.formats import BadRecord, Record
from pear.data.jsonl import json_records, read_unscored
from pear.data.judgments import guess_format, read_judgments
from pear.data.record import Judgment, normal_lp


@dataclass(frozen=True, slots=True)
class Translation:
    """A translation to label, and where it stood."""

    source: str
    translation: str
    lp: str = ""
    system: str = ""
    document: str = ""
    segment: str = ""
    reference: str | None = None

    @classmethod
    def of(cls, row: Judgment) -> Translation:
        return cls(row.source, row.translation, row.lp, row.system, row.document, row.segment, row.reference)

    def names(self) -> dict[str, str]:
        """The fields of a label that say where it stood; empty ones are left out."""
        fields = {name: getattr(self, name) for name in ("lp", "system", "document", "segment", "reference")}
        return {name: value for name, value in fields.items() if value}

    def places(self) -> dict[str, str]:
        """Values for the places of a prompt."""
        source_code, _, target_code = self.lp.partition("-")
        return {
            "source": self.source,
            "translation": self.translation,
            "reference": self.reference or "",
            "src_lang": language_name(source_code) or "Source-language",
            "tgt_lang": language_name(target_code) or "Target-language",
        }


def from_judgments(path: str | Path, format: str | None, lp: str, where: dict[str, Any]) -> Iterator[Translation]:
    """The translations of a file that `pear-train` reads; `where` are further options of `read_judgments`."""
    if format in ("jsonl", "gemba") or (format is None and _is_json(path)):
        return map(Translation.of, read_unscored(path, normal_lp(lp)))
    return map(Translation.of, read_judgments(path, format, lp=lp or None, **where))


def from_lists(records: Iterator[Record], lp: str) -> Iterator[Translation]:
    """The distinct texts of candidate lists; the segment is the list's id."""
    for record in records:
        if isinstance(record, BadRecord):
            raise record.error
        if not record.source.strip():
            raise InputError(f"segment {record.id!r}: the source is empty; expected a text; leave out the list")
        reference = record.references[0] if record.references else None
        for text in record.texts:
            yield Translation(record.source, text, normal_lp(lp), segment=str(record.id), reference=reference)


def _is_json(path: str | Path) -> bool:
    if Path(path).name.removesuffix(".gz").endswith((".jsonl", ".json")):
        next(json_records(path))  # an error where its content does not match its name
        return True
    guess_format(path)
    return False
