"""A comparison as a table in a terminal, as TSV, and as JSON text."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Sequence
from typing import Any

from mbr.cli.common.layout import short_name, side_by_side, tsv
from mbr.cli.common.scores import judge_column, legend
from mbr.compare import Comparison
from mbr.compare.comparison import Row
from mbr.compare.document import as_json
from mbr.compare.summary import same_as_baseline, summary
from mbr.evaluate.evaluation import reason_of

TSV_SCORES = ("score", "low", "high", "difference", "p_bootstrap", "p_randomisation", "significant", "same_family")
TSV_HEADER = (
    "row",
    "kind",
    "judge",
    *TSV_SCORES,
    "rank",
    "passes",
    "seconds",
    "device",
    "cost_ratio",
    "signature",
    "error",
)


def json_text(done: Comparison) -> str:
    return json.dumps(as_json(done), ensure_ascii=False, allow_nan=False, indent=1) + "\n"


def tsv_text(done: Comparison) -> str:
    """A line for each row and judge, or for each row where there is no judge; the reason where one failed."""
    lines: list[Sequence[Any]] = [TSV_HEADER]
    for row in done.rows:
        cost = (row.passes, row.seconds, row.device, row.cost_ratio, row.signature)
        if not done.evaluation.judges:
            error = None if row.error is None else reason_of(row.error)
            lines.append((row.label, row.kind, *(None for _ in ("judge", *TSV_SCORES, "rank")), *cost, error))
        for place, judge in enumerate(done.evaluation.judges):
            score = judge.scores.get(row.label)
            cells = [getattr(score, name, None) for name in TSV_SCORES]
            rank = None if score is None else done.ranks(place)[row.label]
            failure = row.error or judge.error
            error = None if failure is None else reason_of(failure)
            lines.append((row.label, row.kind, judge.label, *cells, rank, *cost, error))
    return tsv(lines)


def text_table(done: Comparison, width: int) -> str:
    """Rows with their scores and costs, the legend, and the summary."""
    standing = [row.label for row in done.rows if row.error is None]
    failed = [row.label for row in done.rows if row.error is not None]
    order = [*standing, *failed]
    rows = [done.row(label) for label in order]
    names = ["", *(short_name(label) + (" (baseline)" if label == done.baseline else "") for label in order)]
    columns = [[*judge_column(judge, standing), *("failed" for _ in failed)] for judge in done.evaluation.judges]
    if not columns:
        same = [f"{100 * same_as_baseline(done, label):.0f} %" for label in standing]
        columns = [["same as baseline", *same, *("failed" for _ in failed)]]
    gpu = any(row.on_gpu for row in rows)
    columns += [
        ["passes per list", *(_passes(row, len(done.lists)) for row in rows)],
        ["seconds" if gpu else "CPU s", *("" if row.seconds is None else f"{row.seconds:.3g}" for row in rows)],
        ["cost", *("" if row.cost_ratio is None else f"{row.cost_ratio:.3g}x" for row in rows)],
    ]
    sentences = "".join(textwrap.fill(f"- {line}", width, subsequent_indent="  ") + "\n" for line in summary(done))
    return "\n".join(filter(None, [side_by_side(names, columns, width), legend(done.evaluation, width), sentences]))


def _passes(row: Row, segments: int) -> str:
    failed = f" ({len(row.fallbacks)} failed)" if row.fallbacks else ""
    return "" if row.passes is None else f"{row.passes / segments:,.0f}{failed}"
