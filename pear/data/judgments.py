"""Human judgments of translations, from the files that annotation campaigns publish.

| format | file |
| --- | --- |
| `csv` | WMT's DA or MQM scores: `src`, `mt`, `score`; maybe `ref`, `system`, `doc`, `seg_id`, `lp`, `rater` |
| `mqm` | Google's MQM tables, a row per marked error (`mqm.py`) |
| `sxs` | the same, two translations judged beside each other |
| `mt-metrics-eval` | a folder `<root>/<test set>` (`folders.py`) |
| `da` | MLQE-PE's direct assessments, `*.df.short.tsv` |
| `jsonl` | JSON lines: one translation or one list of candidates per line (`jsonl.py`) |
| `gemba` | JSON lines with marked errors, as GEMBA-MQM distils them |

All may be gzipped; a TSV may be the one table inside a `.tar.gz`.

    >>> rows = read_judgments("en-de-mqm.2021.csv")        # doctest: +SKIP
    >>> pairs = sample_pairs(group(average_raters(rows)), per_source=10, seed=1)    # doctest: +SKIP
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from candidates.common.errors import InputError, UsageError
from candidates.common.text import check_present
from pear.data.folders import is_test_set, read_test_set
from pear.data.jsonl import json_records, read_gemba, read_jsonl
from pear.data.mqm import read_mqm, read_side_by_side
from pear.data.pairs import merged
from pear.data.record import Judgment, judgment, normal_lp
from pear.data.tables import (
    column,
    csv_rows,
    is_archive,
    lp_from_name,
    member,
    members,
    optional,
    table_lines,
    tsv_rows,
)

__all__ = ["FORMATS", "Judgment", "average_raters", "guess_format", "read_judgments"]

FORMATS = ("csv", "mqm", "sxs", "mt-metrics-eval", "da", "jsonl", "gemba")
DA_TABLE = ".df.short.tsv"


def read_judgments(
    path: str | Path,
    format: str | None = None,
    *,
    lp: str | None = None,
    score: str | None = None,
    human: str | None = None,
    reference: str | None = None,
    reference_systems: bool = False,
) -> Iterator[Judgment]:
    """Stream the judgments of a file or folder; the first unusable row raises `InputError`.

    `format` is guessed from the name and the header where it is not given. `lp` is the language pair of rows that
    name none; elsewhere the file's name is asked, and the last resort is "". `score` names the column to take from
    `csv` ("score") and `da` ("mean", or "z_mean"). `human` ("mqm"), `reference` and `reference_systems` choose
    inside an mt-metrics-eval folder.
    """
    format = format or guess_format(path)
    if format not in FORMATS:
        raise UsageError(f"unknown format {format!r}; expected one of {', '.join(FORMATS)}")
    if score is not None and format not in ("csv", "da"):
        raise UsageError(f"score={score!r} names a column of csv and da; {format} has one score")
    if format != "mt-metrics-eval" and (human is not None or reference is not None or reference_systems):
        raise UsageError(f"human, reference and reference_systems choose inside mt-metrics-eval, not in {format}")
    pair = normal_lp(lp or "")
    match format:
        case "csv":
            return _read_csv(path, pair, score or "score")
        case "mqm":
            return read_mqm(path, pair)
        case "sxs":
            return read_side_by_side(path, pair)
        case "da":
            return _read_da(path, pair, score or "mean")
        case "jsonl":
            return read_jsonl(path, pair)
        case "gemba":
            return read_gemba(path, pair)
    return read_test_set(path, lp=pair, human=human or "mqm", reference=reference, reference_systems=reference_systems)


def guess_format(path: str | Path) -> str:
    """The format that a name and the first line promise; an error that asks for it where they do not."""
    check_present(path)
    if Path(path).is_dir():
        if is_test_set(path):
            return "mt-metrics-eval"
        raise InputError(f"{path}: a folder without sources/ and human-scores/; name a test set's folder or a file")
    name = Path(path).name.removesuffix(".gz")
    if name.endswith(".csv"):
        return "csv"
    if name.endswith((".jsonl", ".json")):
        _, record = next(json_records(path))
        return "gemba" if "errors" in record and "score" not in record else "jsonl"
    if name.endswith(DA_TABLE) or (is_archive(path) and any(n.endswith(DA_TABLE) for n in members(Path(path)))):
        return "da"
    if name.endswith((".tsv", ".tar", ".tgz")):
        first = next(table_lines(path), None)
        if first is None:
            raise InputError(f"{path}: empty; expected a header and at least one row")
        header = set(first[1].split("\t"))
        if {"category", "severity"} <= header:
            return "sxs" if "sxs" in name.lower() else "mqm"
        if {"original", "translation", "mean"} <= header:
            return "da"
    raise InputError(
        f"{path}: neither name nor header show the format; expected one of {', '.join(FORMATS)} (name it with "
        "--data-format, in Python format=)"
    )


def average_raters(judgments: Iterable[Judgment]) -> list[Judgment]:
    """Rows that differ in nothing but the rater become one with the mean score and rater "", in order of first sight.

    "Nothing" means language pair, source, document, segment, system and translation. `words` and the reference
    come from the first row that has them.
    """
    gathered: dict[tuple[str, ...], list[Judgment]] = {}
    for row in judgments:
        key = (row.lp, row.source, row.document, row.segment, row.system, row.translation)
        gathered.setdefault(key, []).append(row)
    return [replace(merged(rows), rater="") for rows in gathered.values()]


def _read_csv(path: str | Path, lp: str, score: str) -> Iterator[Judgment]:
    default = lp or lp_from_name(str(path))
    for where, cells in csv_rows(path):
        yield judgment(
            where,
            column(cells, ("src",), where),
            column(cells, ("mt",), where),
            column(cells, (score,), where),
            lp=normal_lp(optional(cells, ("lp",))) or default,
            system=optional(cells, ("system",)),
            document=optional(cells, ("doc",)),
            segment=optional(cells, ("seg_id",)),
            rater=optional(cells, ("rater", "annotator")),
            reference=cells.get("ref"),
        )


def _read_da(path: str | Path, lp: str, score: str) -> Iterator[Judgment]:
    suffix = DA_TABLE if is_archive(path) else ".tsv"
    named = member(Path(path), suffix) if is_archive(path) else str(path)
    default = lp or lp_from_name(named) or lp_from_name(str(path))
    for where, cells in tsv_rows(path, suffix):
        yield judgment(
            where,
            column(cells, ("original",), where),
            column(cells, ("translation",), where),
            column(cells, (score,), where),
            lp=default,
            segment=optional(cells, ("index",)),
        )
