"""Small pictures as SVG text: charts in panels, ranks, intervals and heat maps, without a plotting library.

Colours are distinguishable by colour-blind readers, and lines have different marks too. Ground and ink follow the
reader's light or dark mode (`candidates.common.pictures`).
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape

from candidates.common.pictures import GRID, INK, PAPER, QUIET, SHADES, picture_head

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#000000")
MARKS = ("circle", "square", "diamond", "triangle")
CHARACTER = 6.4  # width of a letter at 12 pixels, about


@dataclass(frozen=True)
class Panel:
    """One chart: lines of (x, y) points by name. The x positions are equally far apart and labelled."""

    title: str
    x_label: str
    x: Sequence[float]
    lines: Mapping[str, Sequence[float]]


def line_panels(
    title: str, panels: Sequence[Panel], y_label: str, *, columns: int = 2, own_scales: bool = False
) -> str:
    """Charts beside and below each other, with one legend and one scale of y from 0; or each with its own scale."""
    width, height, left, top, gap = 330, 200, 52, 116, 78
    values = [value for panel in panels for line in panel.lines.values() for value in line]
    levels, low, high = _scale([0.0, *values])
    rows = -(-len(panels) // columns)
    columns = min(columns, len(panels))
    total_width = left + columns * (width + gap) - gap // 2
    total_height = top + rows * (height + gap) - 24
    parts = [picture_head(total_width, total_height), _text(20, 30, title, size=16, bold=True)]
    parts.append(_text(20, 52, y_label, colour=QUIET))
    names = list(dict.fromkeys(name for panel in panels for name in panel.lines))
    at = 20.0
    for number, name in enumerate(names):
        parts += [_mark(number, at + 6, 74), _text(at + 18, 78, name)]
        at += 34 + CHARACTER * len(name)
    for place, panel in enumerate(panels):
        x0 = left + (place % columns) * (width + gap)
        y0 = top + (place // columns) * (height + gap)
        if own_scales:
            levels, low, high = _scale([value for line in panel.lines.values() for value in line])

        def across(number: int, count: int, x0: int = x0) -> float:
            return x0 + (width * (number + 0.5) / count)

        def down(value: float, y0: int = y0, low: float = low, high: float = high) -> float:
            return y0 + height * (high - value) / (high - low)

        parts.append(_text(x0, y0 - 8, panel.title, bold=True))
        for tick in levels:
            y = down(tick)
            parts.append(f'<line x1="{x0}" y1="{y:.1f}" x2="{x0 + width}" y2="{y:.1f}" stroke="{GRID}"/>')
            parts.append(_text(x0 - 6, y + 4, f"{tick:g}", anchor="end", size=11, colour=QUIET))
        for number, level in enumerate(panel.x):
            x = across(number, len(panel.x))
            parts.append(_text(x, y0 + height + 16, f"{level:g}", anchor="middle", size=11, colour=QUIET))
        parts.append(_text(x0 + width / 2, y0 + height + 34, panel.x_label, anchor="middle", size=11, colour=QUIET))
        for name, line in panel.lines.items():
            number = names.index(name)
            points = [(across(n, len(panel.x)), down(value)) for n, value in enumerate(line)]
            path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
            colour = COLOURS[number % len(COLOURS)]
            parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
            parts += [_mark(number, x, y) for x, y in points]
    return "\n".join([*parts, "</svg>"]) + "\n"


@dataclass(frozen=True)
class Cloud:
    """One chart of points by name, joined where there are several; `levels` are horizontal lines, `bars` intervals."""

    title: str
    points: Mapping[str, Sequence[tuple[float, float]]]
    levels: Mapping[str, float] = field(default_factory=dict)
    bars: Mapping[str, tuple[float, float]] = field(default_factory=dict)


def cloud_panels(
    title: str, panels: Sequence[Cloud], x_label: str, y_label: str, *, columns: int = 2, log_y: str = ""
) -> str:
    """Charts on a logarithmic axis of x, with one legend.

    Args:
        title, x_label, y_label: above all charts, below each, above all.
        panels: the charts; each has its own axis of y.
        columns: charts beside each other.
        log_y: the unit behind the labels of a logarithmic axis of y; empty for a plain axis.
    """
    width, height, left, gap = 330, 220, 52, 78
    names = list(dict.fromkeys(name for panel in panels for name in panel.points))
    columns = min(columns, len(panels))
    total_width = left + columns * (width + gap) - gap // 2
    legend, rows = _legend(names, total_width - 20)
    top = 94 + 20 * rows
    total_height = top + -(-len(panels) // columns) * (height + gap) - 24
    parts = [picture_head(total_width, total_height), _text(20, 30, title, size=16, bold=True)]
    parts += [_text(20, 52, y_label, colour=QUIET), *legend]
    for place, panel in enumerate(panels):
        at = (left + (place % columns) * (width + gap), top + (place // columns) * (height + gap))
        parts += _cloud(panel, names, at, (width, height), x_label, log_y)
    return "\n".join([*parts, "</svg>"]) + "\n"


def _legend(names: Sequence[str], width: float) -> tuple[list[str], int]:
    """Marks with their names in rows of a width, and the number of rows."""
    parts, x, row = [], 20.0, 0
    for number, name in enumerate(names):
        needed = 34 + CHARACTER * len(name)
        if x > 20 and x + needed > width:
            x, row = 20.0, row + 1
        parts += [_mark(number, x + 6, 74 + 20 * row), _text(x + 18, 78 + 20 * row, name)]
        x += needed
    return parts, row + 1


def _cloud(
    panel: Cloud, names: Sequence[str], at: tuple[int, int], size: tuple[int, int], x_label: str, log_y: str
) -> list[str]:
    (x0, y0), (width, height) = at, size
    every = [point for line in panel.points.values() for point in line]
    heights = [y for _, y in every] + [end for bar in panel.bars.values() for end in bar] + [*panel.levels.values()]
    x_levels = log_ticks([x for x, _ in every])
    y_levels = log_ticks(heights) if log_y else _scale(heights)[0]

    def across(value: float) -> float:
        return x0 + width * math.log(value / x_levels[0]) / math.log(x_levels[-1] / x_levels[0])

    def down(value: float) -> float:
        low, high, value = (math.log(v) if log_y else v for v in (y_levels[0], y_levels[-1], value))
        return y0 + height * (high - value) / (high - low)

    parts = [_text(x0, y0 - 8, panel.title, bold=True)]
    for level in y_levels:
        parts.append(f'<path d="M{x0} {down(level):.1f}h{width}" stroke="{GRID}"/>')
        parts.append(_text(x0 - 6, down(level) + 4, f"{level:g}{log_y}", anchor="end", size=11, colour=QUIET))
    for level in x_levels:
        parts.append(_text(across(level), y0 + height + 16, f"{level:g}", anchor="middle", size=11, colour=QUIET))
    parts.append(_text(x0 + width / 2, y0 + height + 34, x_label, anchor="middle", size=11, colour=QUIET))
    for name, level in panel.levels.items():
        parts.append(f'<path d="M{x0} {down(level):.1f}h{width}" stroke="{INK}" stroke-dasharray="4 3"/>')
        parts.append(_text(x0 + width, down(level) - 4, f"{name} {level:g}", anchor="end", size=11))
    for name, line in panel.points.items():
        number = names.index(name)
        colour = COLOURS[number % len(COLOURS)]
        places = [(across(x), down(y)) for x, y in sorted(line)]
        if name in panel.bars:
            low, high = (down(end) for end in panel.bars[name])
            parts.append(f'<path d="M{places[0][0]:.1f} {low:.1f}V{high:.1f}" stroke="{colour}" stroke-width="2"/>')
        if len(places) > 1:
            path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
            parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.5"/>')
        parts += [_mark(number, x, y) for x, y in places]
    return parts


def log_ticks(values: Sequence[float]) -> list[float]:
    """Round numbers that span positive values on a logarithmic axis: 1, 2 and 5 times powers of ten, or the powers."""
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    steps = (1, 2, 5) if high - low <= 3 else (1,)
    levels = [float(f"{step}e{power}") for power in range(low, high + 1) for step in steps]
    below = [level for level in levels if level <= min(values)] or levels[:1]
    above = [level for level in levels if level >= max(values)] or levels[-1:]
    span = [level for level in levels if below[-1] <= level <= above[0]]
    return span if len(span) > 1 else [span[0] / 2, span[0] * 2]


def _scale(values: Sequence[float]) -> tuple[list[float], float, float]:
    """Round levels that span the values, and the ends of the axis."""
    low, high = min(values), max(values)
    if low == high:
        high = low + (abs(low) or 1.0)
    levels = ticks(low, high)
    return levels, min(low, levels[0]), max(high, levels[-1])


@dataclass(frozen=True)
class Interval:
    """A value with an interval around it; `kind` chooses colour and mark."""

    name: str
    value: float
    low: float
    high: float
    kind: str


def interval_lines(
    title: str, lines: Sequence[Interval], marks: Mapping[str, float], x_label: str, note: str = ""
) -> str:
    """One line per value on a common scale, below upright lines at named positions."""
    width, row, top = 520, 19, 150
    left = 30 + CHARACTER * max((len(line.name) for line in lines), default=0)
    ends = [*marks.values(), *(end for line in lines for end in (line.value, line.low, line.high))]
    margin = 0.03 * (max(ends) - min(ends)) or 1.0
    low, high = min(ends) - margin, max(ends) + margin
    levels = [level for level in ticks(low, high) if low <= level <= high]
    bottom = top + row * len(lines) + 8
    parts = [picture_head(left + width + 84, bottom + 52), _text(20, 30, title, size=16, bold=True)]
    parts.append(_text(20, 52, note, colour=QUIET))
    kinds = list(dict.fromkeys(line.kind for line in lines))
    at = 20.0
    for number, kind in enumerate(kinds):
        parts += [_mark(number, at + 6, 74), _text(at + 18, 78, kind)]
        at += 34 + CHARACTER * len(kind)

    def across(value: float) -> float:
        return left + width * (value - low) / (high - low)

    for level in levels:
        x = across(level)
        parts.append(f'<line x1="{x:.1f}" y1="{top - 8}" x2="{x:.1f}" y2="{bottom}" stroke="{GRID}"/>')
        parts.append(_text(x, bottom + 18, f"{level:g}", anchor="middle", size=11, colour=QUIET))
    parts.append(_text(left + width / 2, bottom + 38, x_label, anchor="middle", size=11, colour=QUIET))
    for place, (name, value) in enumerate(sorted(marks.items(), key=lambda mark: mark[1])):
        x, up = across(value), top - 18 - 16 * (place % 2)
        parts.append(
            f'<line x1="{x:.1f}" y1="{up + 4}" x2="{x:.1f}" y2="{bottom}" stroke="{INK}" stroke-dasharray="4 3"/>'
        )
        parts.append(_text(x, up, f"{name} {value:.2f}", anchor="middle", size=11, bold=True))
    for place, line in enumerate(lines):
        number, y = kinds.index(line.kind), top + row * (place + 0.5)
        colour = COLOURS[number % len(COLOURS)]
        ends_of = f'x1="{across(line.low):.1f}" y1="{y:.1f}" x2="{across(line.high):.1f}" y2="{y:.1f}"'
        parts.append(_text(left - 10, y + 4, line.name, anchor="end"))
        parts.append(f'<line {ends_of} stroke="{colour}" stroke-width="2" stroke-opacity="0.55"/>')
        parts.append(_mark(number, across(line.value), y))
        parts.append(_text(left + width + 12, y + 4, f"{line.value:.2f}", size=11, colour=QUIET))
    return "\n".join([*parts, "</svg>"]) + "\n"


def rank_lines(title: str, places: Sequence[str], lines: Mapping[str, Sequence[int]], note: str = "") -> str:
    """Ranks at named places, one line per name; rank 1 is at the top."""
    worst = max((rank for line in lines.values() for rank in line), default=1)
    step, row, left, top = 84, max(min(26, 420 // (worst + 1)), 9), 70, 104
    slanted = CHARACTER * max(map(len, places), default=0) * 0.72
    bottom = top + row * worst
    width = left + step * len(places)
    drawn_width = max(width, 40 + CHARACTER * max(len(note), 1.65 * len(title)))
    parts = [picture_head(drawn_width + 30, bottom + slanted + 44), _text(20, 30, title, size=16, bold=True)]
    parts.append(_text(20, 52, note, colour=QUIET))
    at = 20.0
    for number, name in enumerate(lines):
        parts += [_mark(number, at + 6, 74), _text(at + 18, 78, name)]
        at += 34 + CHARACTER * len(name)
    for rank in range(1, worst + 1):
        y = top + row * (rank - 0.5)
        if rank == 1 or rank % (1 if row >= 16 else 5) == 0:
            parts.append(f'<line x1="{left}" y1="{y:.1f}" x2="{width}" y2="{y:.1f}" stroke="{GRID}"/>')
            parts.append(_text(left - 8, y + 4, str(rank), anchor="end", size=11, colour=QUIET))
    for number, place in enumerate(places):
        x, y = left + step * (number + 0.5), bottom + 18
        parts.append(
            f'<text x="{x:.0f}" y="{y:.0f}" font-size="12" text-anchor="end" fill="{INK}" '
            f'transform="rotate(-45 {x:.0f} {y:.0f})">{escape(place)}</text>'
        )
    for number, ranks in enumerate(lines.values()):
        points = [(left + step * (n + 0.5), top + row * (rank - 0.5)) for n, rank in enumerate(ranks)]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        colour = COLOURS[number % len(COLOURS)]
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts += [_mark(number, x, y) for x, y in points]
    return "\n".join([*parts, "</svg>"]) + "\n"


def stacked(pictures: Sequence[str]) -> str:
    """Pictures of this module below each other, as one."""
    sizes = [tuple(map(int, re.findall(r'\b(?:width|height)="(\d+)"', picture)[:2])) for picture in pictures]
    parts = [picture_head(max(width for width, _ in sizes), sum(height for _, height in sizes))]
    down = 0
    for picture, (_, height) in zip(pictures, sizes, strict=True):
        parts.append(picture.replace("<svg ", f'<svg y="{down}" ', 1).rstrip("\n"))
        down += height
    return "\n".join([*parts, "</svg>"]) + "\n"


def heat_map(title: str, names: Sequence[str], values: Sequence[Sequence[float]], note: str = "") -> str:
    """A square table of numbers from -1 to 1 with their colours: blue above 0, orange below."""
    cell = 34
    label = 24 + CHARACTER * max(map(len, names), default=0)
    top = 74 + CHARACTER * 0.75 * max(map(len, names), default=0)
    width, height = label + cell * len(names) + 40 + top * 0.5, top + cell * len(names) + 30
    parts = [picture_head(width, height), _text(20, 30, title, size=16, bold=True), _text(20, 52, note, colour=QUIET)]
    for row, name in enumerate(names):
        y = top + row * cell
        parts.append(_text(label - 8, y + cell / 2 + 4, name, anchor="end"))
        x = label + row * cell + cell / 2
        parts.append(
            f'<text x="{x:.0f}" y="{top - 8:.0f}" font-size="12" fill="{INK}" '
            f'transform="rotate(-45 {x:.0f} {top - 8:.0f})">{escape(name)}</text>'
        )
        for column, value in enumerate(values[row]):
            strong = min(abs(value), 1.0)
            fill = f'fill="{SHADES[0 if value >= 0 else 1]}" fill-opacity="{0.04 + 0.9 * strong:.2f}"'
            x = label + column * cell
            parts.append(f'<rect x="{x:.0f}" y="{y:.0f}" width="{cell - 1}" height="{cell - 1}" {fill}/>')
            shown = f"{value:.2f}".replace("0.", ".", 1) if abs(value) < 0.995 else f"{value:.0f}"
            ink = PAPER if strong > 0.55 else INK
            parts.append(_text(x + cell / 2 - 0.5, y + cell / 2 + 4, shown, anchor="middle", size=11, colour=ink))
    return "\n".join([*parts, "</svg>"]) + "\n"


def _text(
    x: float, y: float, text: str, *, size: int = 12, anchor: str = "start", colour: str = INK, bold: bool = False
) -> str:
    weight = ' font-weight="bold"' if bold else ""
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}" fill="{colour}"{weight}>'
        f"{escape(text)}</text>"
    )


def _mark(number: int, x: float, y: float) -> str:
    colour = COLOURS[number % len(COLOURS)]
    kind = MARKS[number % len(MARKS)]
    if kind == "circle":
        return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{colour}"/>'
    shape = {
        "square": ((-3.5, -3.5), (3.5, -3.5), (3.5, 3.5), (-3.5, 3.5)),
        "diamond": ((0, -5), (5, 0), (0, 5), (-5, 0)),
        "triangle": ((0, -5), (5, 4), (-5, 4)),
    }[kind]
    points = " ".join(f"{x + dx:.1f},{y + dy:.1f}" for dx, dy in shape)
    return f'<polygon points="{points}" fill="{colour}"/>'


def ticks(low: float, high: float) -> list[float]:
    """About five round numbers that span the values."""
    rough = (high - low) / 5 or 1.0
    power = 10.0 ** len(str(int(1 / rough))) if rough < 1 else 0.1 ** (len(str(int(rough))) - 1)
    step = next(factor / power for factor in (1, 2, 5, 10, 20, 50) if factor / power >= rough - 1e-12)
    first = int(low // step)
    last = int(-(-high // step))
    return [round(number * step, 10) for number in range(first, last + 1)]
