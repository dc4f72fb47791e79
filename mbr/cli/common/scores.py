"""Scores of judges in tables of text: a column per judge, and the legend below."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from mbr.cli.common.layout import short_name
from mbr.evaluate.evaluation import Evaluation, JudgeResult, SystemScore, reason_of

SIGNIFICANT, SAME_FAMILY = "†", "*"


def judge_column(judge: JudgeResult, ranking: Sequence[str]) -> list[str]:
    """The cells of one judge, aligned and all of one width; of a pairwise judge with their signs."""
    head = short_name(judge.label, 24) + (" ↓" if judge.lower_is_better else "")
    if judge.better_than is not None:
        head += f": better than {short_name(judge.better_than, 20)} by"
    sign = "+" if judge.better_than is not None else ""
    if judge.error is not None:
        cells = ["failed"] * len(ranking)
    else:
        scores = [judge.scores[name] for name in ranking]
        digits = judge.digits
        plain = [f"{score.score:{sign}.{digits}f}" for score in scores]
        halves = ["" if half is None else f" ±{half:.{digits}f}" for half in map(_half_interval, scores)]
        marks = [(SIGNIFICANT if s.significant else "") + (SAME_FAMILY if s.same_family else "") for s in scores]
        rests = [half + mark for half, mark in zip(halves, marks, strict=True)]
        cells = [
            first.rjust(max(map(len, plain))) + rest.ljust(max(map(len, rests)))
            for first, rest in zip(plain, rests, strict=True)
        ]
    return [head, *cells]


def _half_interval(score: SystemScore) -> float | None:
    return None if score.low is None or score.high is None else (score.high - score.low) / 2


def legend(evaluation: Evaluation, width: int) -> str:
    scores = [score for judge in evaluation.judges for score in judge.scores.values()]
    entries = []
    if evaluation.draws and scores:
        entries.append(f"± half of the 95 % interval ({evaluation.draws:,} bootstrap draws, seed {evaluation.seed})")
    tests = [
        *(["paired bootstrap"] if evaluation.draws else []),
        *([f"approximate randomisation ({evaluation.trials:,} trials)"] if evaluation.trials else []),
    ]
    if any(score.significant for score in scores):
        entries.append(f"{SIGNIFICANT} differs from {evaluation.baseline}: p < .05 by {' and '.join(tests)}")
    elif evaluation.baseline is not None and scores and not evaluation.trials:
        entries.append(f"no {SIGNIFICANT}: differences are tested by randomisation, which was left out (--trials 0)")
    if any(judge.lower_is_better for judge in evaluation.judges):
        entries.append("↓ lower is better")
    for judge in evaluation.judges:
        if judge.better_than is not None and judge.error is None:
            entries.append(f"{judge.label}: + is better than {judge.better_than}, - is worse; mean over segments")
    if any(score.same_family for score in scores):
        entries.append(f"{SAME_FAMILY} chosen by a utility of the judge's family: overrated")
    lines = [
        textwrap.fill(entry, width, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)
        for entry in entries
    ]
    for judge in evaluation.judges:
        if judge.error is not None:
            lines.append(f"{judge.label} failed: {reason_of(judge.error)}")
    return "".join(line + "\n" for line in lines)
