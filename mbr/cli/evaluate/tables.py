"""An `Evaluation` as a table for people, as TSV, and as JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from mbr.cli.common.layout import WIDTH, short_name, side_by_side, tsv
from mbr.cli.common.scores import judge_column, legend
from mbr.evaluate.checks import ALWAYS_SHOWN, FLAGS
from mbr.evaluate.evaluation import Evaluation, reason_of

TSV_HEADER = (
    "system",
    "judge",
    "score",
    "low",
    "high",
    "difference",
    "p_bootstrap",
    "p_randomisation",
    "significant",
    "same_family",
    "error",
)
HEADS = {"empty": "empty", "copied": "copied", "numbers": "numbers", "length": "odd length", "cut": "cut off"}


def render(
    evaluation: Evaluation, format: str, width: int = WIDTH, *, spans: Sequence[dict[str, Any]] | None = None
) -> str:
    """`width` is that of a table, in columns of a terminal; `spans` are errors to add to JSON."""
    if format == "json":
        record = {**evaluation.record(), **({} if spans is None else {"spans": spans})}
        return json.dumps(record, ensure_ascii=False, allow_nan=False, indent=1) + "\n"
    return _tsv(evaluation) if format == "tsv" else _table(evaluation, width)


def _tsv(evaluation: Evaluation) -> str:
    rows: list[Sequence[Any]] = [TSV_HEADER]
    for judge in evaluation.judges:
        for name in evaluation.ranking():
            score = judge.scores.get(name)
            cells = [getattr(score, field, None) for field in TSV_HEADER[2:-1]]
            rows.append((name, judge.label, *cells, None if judge.error is None else reason_of(judge.error)))
    return tsv(rows)


def _table(evaluation: Evaluation, width: int) -> str:
    parts = [
        _score_tables(evaluation, width),
        legend(evaluation, width),
        _check_table(evaluation, width),
        _identities(evaluation),
    ]
    return "\n".join(filter(None, parts))


def _score_tables(evaluation: Evaluation, width: int) -> str:
    """Systems as rows, judges as columns."""
    ranking = evaluation.ranking()
    names = ["system", *(short_name(name) + (" (baseline)" if name == evaluation.baseline else "") for name in ranking)]
    return side_by_side(names, [judge_column(judge, ranking) for judge in evaluation.judges], width)


def _check_table(evaluation: Evaluation, width: int) -> str:
    ranking = evaluation.ranking()
    checks = [evaluation.checks[name] for name in ranking]
    shown = [flag for flag in FLAGS if flag in ALWAYS_SHOWN or any(check.segments(flag) for check in checks)]
    columns = [
        ["length ratio", *(f"{check.length_ratio:.3f}" for check in checks)],
        *([HEADS.get(flag, flag), *(str(len(check.segments(flag))) for check in checks)] for flag in shown),
    ]
    for judge in evaluation.judges:
        counts = [int(judge.truncated[name].sum()) for name in ranking] if judge.error is None else []
        if any(counts):
            columns.append([f"too long for {short_name(judge.label, 24)}", *map(str, counts)])
    return side_by_side(["outputs to look at", *map(short_name, ranking)], columns, width)


def _identities(evaluation: Evaluation) -> str:
    judges = [judge for judge in evaluation.judges if judge.identity]
    width = max((len(judge.label) for judge in judges), default=0)
    return "".join(f"{judge.label.ljust(width)}  {judge.identity}\n" for judge in judges)
