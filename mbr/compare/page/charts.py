"""The page's charts as SVG: quality against cost, regret against passes. Colours are the style sheet's."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

from mbr.compare.comparison import Comparison, Row
from mbr.compare.study import Study
from mbr.drawing import MARKS, ticks
from mbr.evaluate import JudgeResult

WIDTH, HEIGHT = 360, 240
LEFT, RIGHT, TOP, BOTTOM = 52, 14, 14, 44
COLOURS = 7  # of the style sheet: s0, s1, ...
LEAST_REGRET = 1e-4  # smaller ones are drawn here: a logarithmic scale has no zero


def number_of(done: Comparison) -> dict[str, int]:
    """Numbers of the settings, for their colours and marks."""
    labels = [row.label for row in done.rows if row.kind in ("setting", "quality")]
    return {label: number for number, label in enumerate(labels)}


def mark(number: int, x: float, y: float, title: str = "") -> str:
    """A point; settings differ in colour and shape."""
    kind = MARKS[number % len(MARKS)]
    hint = f"<title>{escape(title)}</title>" if title else ""
    place = f'class="s{number % COLOURS}" transform="translate({x:.1f} {y:.1f})"'
    if kind == "circle":
        return f'<circle {place} r="5">{hint}</circle>'
    points = {
        "square": "-4.5,-4.5 4.5,-4.5 4.5,4.5 -4.5,4.5",
        "diamond": "0,-6 6,0 0,6 -6,0",
        "triangle": "0,-6 6,5 -6,5",
    }[kind]
    return f'<polygon {place} points="{points}">{hint}</polygon>'


def scatter(done: Comparison, judge: JudgeResult) -> str:
    """Settings by cost and score; rows without a cost are horizontal lines."""
    numbers = number_of(done)
    segments = len(done.lists)
    settings = [row for row in done.rows if row.label in numbers and row.label in judge.scores and row.seconds]
    if not settings:
        return ""
    costs = {row.label: (row.seconds or 0.0) / segments for row in settings}
    lines = [row for row in done.rows if row.label in judge.scores and row.kind in ("first", "random", "oracle")]
    shown = [*settings, *(row for row in lines if row.kind == "first")]
    y = _Scale(_bounds(judge, shown), HEIGHT - BOTTOM, TOP, flipped=judge.lower_is_better)
    x = _LogScale(list(costs.values()), LEFT, WIDTH - RIGHT)
    digits = judge.digits
    parts, names = [*_grid(y, x, "seconds per segment (log scale)")], []
    for row in lines:
        level = judge.scores[row.label].score
        inside = y.low <= level <= y.high
        at = y(level) if inside else (TOP if y.better_than_shown(level) else HEIGHT - BOTTOM)
        kind = "" if inside else " outside"
        arrow = "" if inside else (" ↑" if at == TOP else " ↓")
        parts.append(f'<line class="level{kind}" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{at:.1f}" y2="{at:.1f}"/>')
        names.append(
            f'<text class="level" x="{WIDTH - RIGHT}" y="{at - 4 if at > TOP + 12 else at + 12:.1f}" '
            f'text-anchor="end">{escape(row.label)} {level:.{digits}f}{arrow}</text>'
        )
    for row in settings:
        score, at = judge.scores[row.label], x(costs[row.label])
        number = numbers[row.label]
        if score.low is not None and score.high is not None:
            parts.append(
                f'<line class="s{number % COLOURS} bar" x1="{at:.1f}" x2="{at:.1f}" '
                f'y1="{y(score.low):.1f}" y2="{y(score.high):.1f}"/>'
            )
        title = f"{row.label}: {score.score:.{digits}f}, {costs[row.label]:.3g} s per segment"
        parts.append(mark(number, at, y(score.score), title))
    name = f"{judge.label} against cost: " + ", ".join(
        f"{r.label} {judge.scores[r.label].score:.{digits}f}" for r in settings
    )
    return _svg(name, parts)


def regret_chart(study: Study) -> str:
    """Strategies replayed on complete matrices: regret against passes."""
    if not study.points:
        return ""
    x = _LogScale([point.passes for point in study.points], LEFT, WIDTH - RIGHT)
    y = _LogScale([max(point.regret, LEAST_REGRET) for point in study.points], HEIGHT - BOTTOM, TOP)
    parts = [*_grid(y, x, "passes per list (log scale)", percent=True)]
    names = list(dict.fromkeys(point.strategy for point in study.points))
    for number, name in enumerate(names):
        points = sorted((p for p in study.points if p.strategy == name), key=lambda point: point.passes)
        places = [(x(point.passes), y(max(point.regret, LEAST_REGRET))) for point in points]
        path = " ".join(f"{a:.1f},{b:.1f}" for a, b in places)
        parts.append(f'<polyline class="s{number % COLOURS} line" points="{path}"/>')
        for (a, b), point in zip(places, points, strict=True):
            title = f"{point.strategy} {point.number}: {100 * point.regret:.2f} % with {point.passes:.0f} passes"
            parts.append(mark(number, a, b, title))
    values = "; ".join(f"{p.strategy} {p.number}".strip() + f" {100 * p.regret:.2f} %" for p in study.points)
    return _svg(f"regret against passes: {values}", parts) + _legend(names)


def _legend(names: Sequence[str]) -> str:
    items = "".join(
        f'<li><svg width="16" height="14" aria-hidden="true">{mark(number, 8, 7)}</svg> {escape(name)}</li>'
        for number, name in enumerate(names)
    )
    return f'<ul class="legend">{items}</ul>'


def settings_legend(done: Comparison) -> str:
    return _legend(list(number_of(done)))


def _svg(name: str, parts: Sequence[str]) -> str:
    inside = "".join(parts)
    return f'<svg class="chart" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(name)}">{inside}</svg>'


def _bounds(judge: JudgeResult, rows: Sequence[Row]) -> list[float]:
    scores = [judge.scores[row.label] for row in rows]
    return [value for score in scores for value in (score.score, score.low, score.high) if value is not None]


def _grid(y: _Scale | _LogScale, x: _LogScale, label: str, *, percent: bool = False) -> list[str]:
    parts = []
    for tick in y.ticks():
        at = y(tick)
        text = f"{100 * tick:g} %" if percent else f"{tick:g}"
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{at:.1f}" y2="{at:.1f}"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{at + 4:.1f}" text-anchor="end">{text}</text>')
    for tick in x.ticks():
        at = x(tick)
        parts.append(f'<line class="grid" x1="{at:.1f}" x2="{at:.1f}" y1="{TOP}" y2="{HEIGHT - BOTTOM}"/>')
        parts.append(f'<text x="{at:.1f}" y="{HEIGHT - BOTTOM + 16}" text-anchor="middle">{tick:g}</text>')
    middle = (LEFT + WIDTH - RIGHT) / 2
    parts.append(f'<text x="{middle}" y="{HEIGHT - 8}" text-anchor="middle">{label}</text>')
    return parts


class _Scale:
    """Values to pixels, with a margin; `flipped` where lower is better, so that up is always better."""

    def __init__(self, values: Sequence[float], begin: float, end: float, *, flipped: bool) -> None:
        low, high = min(values), max(values)
        margin = 0.08 * (high - low) or abs(high) * 0.05 or 1.0
        self.low, self.high = low - margin, high + margin
        self._begin, self._end, self._flipped = begin, end, flipped

    def __call__(self, value: float) -> float:
        share = (value - self.low) / (self.high - self.low)
        return self._begin + (self._end - self._begin) * (1 - share if self._flipped else share)

    def better_than_shown(self, value: float) -> bool:
        return value < self.low if self._flipped else value > self.high

    def ticks(self) -> list[float]:
        return [tick for tick in ticks(self.low, self.high) if self.low <= tick <= self.high]


class _LogScale:
    """Positive values to pixels by their logarithms."""

    def __init__(self, values: Sequence[float], begin: float, end: float) -> None:
        low, high = math.log10(min(values)), math.log10(max(values))
        margin = max(0.06 * (high - low), 0.15)
        self._low, self._high, self._begin, self._end = low - margin, high + margin, begin, end

    def __call__(self, value: float) -> float:
        share = (math.log10(value) - self._low) / (self._high - self._low)
        return self._begin + (self._end - self._begin) * share

    def ticks(self) -> list[float]:
        """Powers of ten; also 2 and 5 times them on a short scale."""
        steps = (1, 2, 5) if self._high - self._low < 1.6 else (1,)
        powers = range(math.floor(self._low), math.ceil(self._high) + 1)
        candidates = [round(step * 10.0**power, 12) for power in powers for step in steps]
        return [tick for tick in candidates if self._low <= math.log10(tick) <= self._high]
