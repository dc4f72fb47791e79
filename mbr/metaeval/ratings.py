"""Tables of ratings with raters: who gave which score to which system's translation of which segment.

| table | score |
| --- | --- |
| Google's MQM tables, with `category` and `severity`: a row per marked error | minus the sum of the weights |
| any TSV, CSV or JSON lines with system, segment, rater and score (pSQM, ESA, DA) | as it is; higher is better |

Columns of the second kind go by the names that campaigns use (`NAMES`). A rater may score a translation several times;
the mean counts.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from candidates.common.errors import InputError
from pear.data import read_judgments
from pear.data.jsonl import json_records
from pear.data.judgments import Judgment
from pear.data.record import finite
from pear.data.tables import csv_rows, lp_from_name, table_lines, tsv_rows

NAMES = {
    "system": ("system", "system_id", "systemID"),
    "segment": ("segment", "seg_id", "globalSegId", "segment_id", "segmentID", "line_id"),
    "rater": ("rater", "annotator", "rater_id", "annotator_id", "user", "login"),
    "score": ("score", "overall", "rating"),
}
OPTIONAL = {
    "document": ("document", "doc", "doc_id", "documentID", "document_id"),
    "source": ("source", "src", "source_segment"),
    "translation": ("target", "translation", "mt", "target_segment"),
}


def read_rating_table(path: str | Path, lp: str | None = None) -> Iterator[Judgment]:
    """The judgments of a table of either kind; a row without a score (`None`, empty) is skipped."""
    name = str(path).removesuffix(".gz")
    if name.endswith((".jsonl", ".json")):
        rows = ((where, dict(record)) for where, record in json_records(path))
    elif name.endswith(".csv"):
        rows = ((where, dict(cells)) for where, cells in csv_rows(path))
    else:
        first = next(table_lines(path), None)
        if first is not None and {"category", "severity"} <= set(first[1].split("\t")):
            # Judgments of pairs shown side by side are read as single ones.
            yield from read_judgments(path, "mqm", lp=lp)
            return
        rows = ((where, dict(cells)) for where, cells in tsv_rows(path))
    pair = lp or lp_from_name(str(path))
    for where, row in rows:
        cells = {key: _cell(row, names, where) for key, names in NAMES.items()}
        if cells["score"] in ("", "None", "null"):
            continue
        others = {key: str(next((row[name] for name in names if name in row), "")) for key, names in OPTIONAL.items()}
        yield Judgment(
            source=others["source"],
            translation=others["translation"],
            score=finite(cells["score"], where, "score"),
            lp=pair,
            system=cells["system"],
            document=others["document"],
            segment=cells["segment"],
            rater=cells["rater"],
        )


def _cell(row: dict[str, object], names: tuple[str, ...], where: str) -> str:
    for name in names:
        if name in row:
            value = row[name]
            if isinstance(value, (dict, list, bool)):
                raise InputError(f"{where}: {name} is {value!r:.40}; expected a text or a number")
            return "" if value is None else str(value)
    raise InputError(
        f"{where}: no column {' or '.join(names)} among {', '.join(row)!r:.200}; a table of ratings has system, "
        "segment, rater and score, or marked errors with category and severity"
    )
