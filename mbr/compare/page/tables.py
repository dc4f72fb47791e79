"""The page's tables as HTML: scores and costs, agreement. All text is escaped here."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

import numpy as np
from numpy.typing import NDArray

from mbr.compare.comparison import Comparison, Row
from mbr.compare.page.charts import mark, number_of
from mbr.compare.summary import duration
from mbr.evaluate import JudgeResult
from mbr.evaluate.evaluation import reason_of

WHAT = {
    "first": "what the generator likes best",
    "random": "any of the candidates",
    "setting": "chosen by comparing candidates",
    "quality": "QE reranking: each candidate rated by itself",
    "oracle": "the best there is, by the references",
}


def score_table(done: Comparison) -> str:
    judges = done.evaluation.judges
    unit = next((row.label for row in done.rows if row.cost_ratio == 1.0), None)
    seconds = "GPU or CPU s" if any(row.on_gpu for row in done.rows) else "CPU s"
    heads = [_head("row", "")]
    heads += [_head(judge.label + (" ↓" if judge.lower_is_better else ""), _about(judge)) for judge in judges]
    heads += [
        _head("passes a list", "pairs (or candidates) that the utility scored, on the average"),
        _head(seconds, "seconds in all that the choices took or would have taken alone, without making candidates"),
        _head("cost", f"seconds over those of {unit}" if unit else "seconds over those of the first setting"),
    ]
    body = "".join(_score_row(done, row) for row in done.rows)
    segments = (
        f"{len(done.lists)} segments. In brackets: the middle 95 % of {done.evaluation.draws:,} bootstrap draws. "
        if done.evaluation.draws
        else f"{len(done.lists)} segments. "
    )
    return (
        '<div class="wide" tabindex="0" role="region" aria-label="scores and costs">'
        '<table id="scores" aria-describedby="legend">'
        f"<thead><tr>{''.join(heads)}</tr></thead><tbody>{body}</tbody></table></div>"
        f'<p id="legend">{escape(segments + _legend(done))}</p>'
    )


def _legend(done: Comparison) -> str:
    said = ["The small number is the rank by that judge."]
    if done.evaluation.trials:
        said.append(
            f"† differs from {done.baseline}: p < .05, approximate randomisation with {done.evaluation.trials:,} trials"
            + (" and paired bootstrap" if done.evaluation.draws else "")
            + ", not corrected for the number of rows."
        )
    scores = [score for judge in done.evaluation.judges for score in judge.scores.values()]
    if any(score.same_family for score in scores):
        said.append("* chosen by a utility of the judge's family, which flatters it.")
    if any(judge.lower_is_better for judge in done.evaluation.judges):
        said.append("↓ lower is better.")
    return " ".join(said)


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
    title = [] if score.p_randomisation is None else [f"p = {score.p_randomisation:.3g} (randomisation)"]
    if score.difference is not None:
        title.insert(0, f"{score.difference:+.{digits}f} against {done.baseline}")
    flattered = " flattered" if score.same_family else ""
    sure = ""
    if score.significant:
        sure = " better" if (score.difference or 0) * (-1 if judge.lower_is_better else 1) > 0 else " worse"
    return (
        f'<td class="score{flattered}{sure}" data-value="{score.score:.8g}" title="{escape("; ".join(title))}">'
        f"<b>{shown}</b>{marks}<sub>{rank}</sub>{bounds}</td>"
    )


def failures(done: Comparison) -> str:
    """What went wrong, in a box of its own."""
    said = [f"{row.label}: {reason_of(row.error)}" for row in done.rows if row.error is not None]
    if done.wanted_baseline is not None:
        said.append(f"the baseline {done.wanted_baseline} failed: all are compared with {done.baseline} instead")
    said += [f"judge {j.label}: {reason_of(j.error)}" for j in done.evaluation.judges if j.error is not None]
    said += [f"segment {one.id} is left out for all rows: {one.reason}" for one in done.left_out[:20]]
    if len(done.left_out) > 20:
        said.append(f"{len(done.left_out) - 20} more segments are left out")
    for row in done.rows:
        said += [
            f"{row.label}, segment {done.lists[place].id}: the first candidate stands in; {reason}"
            for place, reason in list(row.fallbacks.items())[:5]
        ]
    if not said:
        return ""
    items = "".join(f"<li>{escape(one)}</li>" for one in said)
    return f'<section class="failures" role="alert"><h2>Something failed</h2><ul>{items}</ul></section>'


def agreement_tables(done: Comparison) -> str:
    found = done.agreement
    parts = [
        _square(
            "Same choice",
            "share of segments in which both chose the same text",
            found.rows,
            found.rows,
            found.same,
            lambda value: f"{100 * value:.0f}",
            strongest=1.0,
            unit="%",
        )
    ]
    if len(found.settings) > 1:
        parts.append(
            _square(
                "Rank correlation",
                "Spearman correlation of the expected utilities of the candidates that both have looked at, mean over "
                "segments",
                found.settings,
                found.settings,
                found.correlation,
                lambda value: f"{value:.2f}",
                strongest=1.0,
            )
        )
    if found.settings:
        parts.append(
            _square(
                "Regret of one under another",
                "what the choice of the row loses in the eyes of the column, as a share of its own choice minus the "
                "mean: 0 is the column's own choice, 100 no better than the average candidate; of segments where the "
                "column has looked at it",
                found.rows,
                found.settings,
                found.regret,
                lambda value: f"{100 * value:.1f}" if value < 0.0995 else f"{100 * value:.0f}",
                strongest=1.0,
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
    show: object,
    *,
    strongest: float,
    unit: str = "",
) -> str:
    assert callable(show)
    heads = "".join(f'<th scope="col"><span>{escape(name)}</span></th>' for name in columns)
    body = ""
    for name, line in zip(rows, values, strict=True):
        cells = "".join(
            "<td>–</td>"
            if not math.isfinite(value)
            else f'<td style="--v:{min(max(value, 0) / strongest, 1):.3f}">{show(value)}</td>'
            for value in line
        )
        body += f'<tr><th scope="row">{escape(name)}</th>{cells}</tr>'
    caption = f"<b>{escape(title)}</b>{f' ({unit})' if unit else ''}: {escape(what)}"
    return (
        f'<div class="wide" tabindex="0" role="region" aria-label="{escape(title)}"><table class="square">'
        f'<caption>{caption}</caption><thead><tr><th scope="col"></th>{heads}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )
