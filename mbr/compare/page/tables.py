"""The page's tables as HTML: scores and costs, agreement. All text is escaped here."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from html import escape

import numpy as np
from numpy.typing import NDArray

from mbr.compare.comparison import Comparison, Row
from mbr.compare.page.charts import mark, number_of
from mbr.compare.summary import difference, duration, gain
from mbr.evaluate import JudgeResult
from mbr.evaluate.evaluation import reason_of

WHAT = {
    "first": "the first or most likely candidate of the generator",
    "random": "a random candidate",
    "setting": "chosen by comparing candidates",
    "quality": "QE reranking: each candidate scored by itself",
    "oracle": "the best candidate by the references",
}

MOST_LEFT_OUT, MOST_FALLBACKS = 20, 5  # entries in the box of failures; fallbacks per row


def score_table(done: Comparison) -> str:
    judges = done.evaluation.judges
    unit = next((row.label for row in done.rows if row.cost_ratio == 1.0), None)
    seconds = "GPU or CPU s" if any(row.on_gpu for row in done.rows) else "CPU s"
    heads = [_head("row", "")]
    heads += [_head(judge.label + (" ↓" if judge.lower_is_better else ""), _about(judge)) for judge in judges]
    heads += [
        _head("passes per list", "pairs (or candidates) that the utility scored, on average"),
        _head(seconds, "seconds for all choices, as if this setting had run alone; generation is not included"),
        _head("cost", f"seconds over those of {unit}" if unit else "seconds over those of the first setting"),
    ]
    body = "".join(_score_row(done, row) for row in done.rows)
    segments = (
        f"{len(done.lists)} segments. In brackets: the middle 95 % of {done.evaluation.draws:,} bootstrap draws. "
        if done.evaluation.draws and judges
        else f"{len(done.lists)} segments. "
    )
    return (
        '<div class="wide" tabindex="0" role="region" aria-label="scores and costs">'
        '<table id="scores" aria-describedby="legend">'
        f"<thead><tr>{''.join(heads)}</tr></thead><tbody>{body}</tbody></table></div>"
        f'<p id="legend">{escape(segments + _legend(done))}</p>'
    )


def _legend(done: Comparison) -> str:
    judged = bool(done.evaluation.judges)
    sentences = ["The small number is the rank by that judge."] if judged else []
    if judged and done.evaluation.trials:
        sentences.append(
            f"† differs from {done.baseline}: p < .05, approximate randomisation with {done.evaluation.trials:,} trials"
            + (" and paired bootstrap" if done.evaluation.draws else "")
            + ", not corrected for the number of rows."
        )
    scores = [score for judge in done.evaluation.judges for score in judge.scores.values()]
    if any(score.same_family for score in scores):
        sentences.append("* chosen by a utility of the judge's family, which overrates it.")
    if any(judge.lower_is_better for judge in done.evaluation.judges):
        sentences.append("↓ lower is better.")
    return " ".join(sentences)


def _about(judge: JudgeResult) -> str:
    return f"failed: {reason_of(judge.error)}" if judge.error is not None else judge.identity


def _head(text: str, title: str) -> str:
    return f'<th scope="col" title="{escape(title)}"><button type="button">{escape(text)}</button></th>'


def _score_row(done: Comparison, row: Row) -> str:
    numbers = number_of(done)
    badge = ""
    if row.label in numbers:
        badge = f'<svg width="16" height="14" aria-hidden="true">{mark(numbers[row.label], 8, 7)}</svg> '
    tags = "".join(
        f' <span class="tag">{tag}</span>'
        for tag, there in {
            "baseline": row.label == done.baseline,
            "QE reranking": row.kind == "quality",
        }.items()
        if there
    )
    name = f'<th scope="row" title="{escape(row.signature or WHAT[row.kind])}">{badge}{escape(row.label)}{tags}</th>'
    if row.error is not None:
        columns = len(done.evaluation.judges) + 3
        reason = escape(reason_of(row.error))
        return f'<tr class="{row.kind} failed">{name}<td colspan="{columns}">failed: {reason}</td></tr>'
    cells = "".join(_score_cell(done, place, judge, row) for place, judge in enumerate(done.evaluation.judges))
    passes = "" if row.passes is None else f"{row.passes / len(done.lists):,.0f}"
    if row.fallbacks:
        first = escape(next(iter(row.fallbacks.values())))
        passes += f' <span class="tag bad" title="{first}">{len(row.fallbacks)} failed</span>'
    cells += _number_cell(None if row.passes is None else row.passes / len(done.lists), passes)
    cells += _number_cell(row.seconds, "" if row.seconds is None else escape(duration(row.seconds)))
    cells += _number_cell(row.cost_ratio, "" if row.cost_ratio is None else f"{row.cost_ratio:.3g}×")
    return f'<tr class="{row.kind}">{name}{cells}</tr>'


def _number_cell(value: float | None, text: str) -> str:
    return f'<td data-value="{"" if value is None else f"{value:.6g}"}">{text}</td>'


def _score_cell(done: Comparison, place: int, judge: JudgeResult, row: Row) -> str:
    if judge.error is not None:
        return f'<td class="failed" data-value="" title="{escape(reason_of(judge.error))}">failed</td>'
    score, digits = judge.scores[row.label], judge.digits
    shown = f"{score.score:.{digits}f}"
    marks = ("†" if score.significant else "") + ("*" if score.same_family else "")
    bounds = ""
    if score.low is not None and score.high is not None:
        bounds = f"<small>[{score.low:.{digits}f}, {score.high:.{digits}f}]</small>"
    rank = done.ranks(place)[row.label]
    title = "the baseline" if row.label == done.baseline else difference(done, judge, score)
    overrated = " overrated" if score.same_family else ""
    direction = ""
    if score.significant:
        direction = " better" if gain(judge, score) > 0 else " worse"
    return (
        f'<td class="score{overrated}{direction}" data-value="{score.score:.8g}" title="{escape(title)}">'
        f"<b>{shown}</b>{marks}<sub>{rank}</sub>{bounds}</td>"
    )


def failures(done: Comparison) -> str:
    """A box with everything that failed; empty where nothing did."""
    entries = [f"{row.label}: {reason_of(row.error)}" for row in done.rows if row.error is not None]
    if done.wanted_baseline is not None:
        entries.append(
            f"the baseline {done.wanted_baseline} failed: all rows are compared with {done.baseline} instead"
        )
    entries += [f"judge {j.label}: {reason_of(j.error)}" for j in done.evaluation.judges if j.error is not None]
    entries += [f"segment {left.id} is left out for all rows: {left.reason}" for left in done.left_out[:MOST_LEFT_OUT]]
    if len(done.left_out) > MOST_LEFT_OUT:
        entries.append(f"{len(done.left_out) - MOST_LEFT_OUT} more segments are left out")
    for row in done.rows:
        entries += [
            f"{row.label}, segment {done.lists[place].id}: the first candidate stands in; {reason}"
            for place, reason in list(row.fallbacks.items())[:MOST_FALLBACKS]
        ]
    if not entries:
        return ""
    items = "".join(f"<li>{escape(entry)}</li>" for entry in entries)
    return f'<section class="failures" role="alert"><h2>Something failed</h2><ul>{items}</ul></section>'


def agreement_tables(done: Comparison) -> str:
    agreement = done.agreement
    parts = [
        _square(
            "Same choice",
            "share of segments in which both chose the same text",
            agreement.rows,
            agreement.rows,
            agreement.same,
            lambda value: f"{100 * value:.0f}",
            unit="%",
        )
    ]
    if len(agreement.settings) > 1:
        parts.append(
            _square(
                "Rank correlation",
                "Spearman correlation of the scores of the candidates that both settings scored, mean over segments",
                agreement.settings,
                agreement.settings,
                agreement.correlation,
                lambda value: f"{value:.2f}",
            )
        )
    if agreement.settings:
        parts.append(
            _square(
                "Regret of one under another",
                "regret of the row's choice by the scores of the column, as a share of the column's own choice minus "
                "the mean: 0 is the column's own choice, 100 the average candidate; over segments where the column "
                "scored that choice",
                agreement.rows,
                agreement.settings,
                agreement.regret,
                lambda value: f"{100 * value:.1f}" if value < 0.0995 else f"{100 * value:.0f}",
                unit="%",
            )
        )
    return "".join(parts)


def _square(
    title: str,
    what: str,
    rows: Sequence[str],
    columns: Sequence[str],
    values: NDArray[np.float64],
    show: Callable[[float], str],
    *,
    unit: str = "",
) -> str:
    heads = "".join(f'<th scope="col"><span>{escape(name)}</span></th>' for name in columns)
    body = ""
    for name, line in zip(rows, values, strict=True):
        cells = "".join(
            "<td>–</td>"
            if not math.isfinite(value)
            else f'<td style="--v:{min(max(value, 0), 1):.3f}">{show(value)}</td>'
            for value in line
        )
        body += f'<tr><th scope="row">{escape(name)}</th>{cells}</tr>'
    caption = f"<b>{escape(title)}</b>{f' ({unit})' if unit else ''}: {escape(what)}"
    return (
        f'<div class="wide" tabindex="0" role="region" aria-label="{escape(title)}"><table class="square">'
        f'<caption>{caption}</caption><thead><tr><th scope="col"></th>{heads}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )
