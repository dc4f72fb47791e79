"""What a training set is made of: counts per language pair, and how scores and differences are spread.

`summary` gives the numbers for a model card, `describe` the same as text for people.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from pear.data.pairs import Group, Pair

BARS = 10
WIDTH = 40
COUNTS = ("groups", "judgments", "pairs", "ties")
SPREADS = ("scores", "differences")


def summary(groups: Iterable[Group], pairs: Iterable[Pair]) -> dict[str, Any]:
    """Counts per language pair and in total, and the spread of scores and of absolute differences.

    `judgments` counts the distinct translations of each group. A histogram lists `[from, to, count]` of bars of equal
    width; a bar holds its lower end, the last one both ends. The result is plain JSON.
    """
    pairs = list(pairs)
    counts: dict[str, dict[str, int]] = {}
    scores: list[float] = []
    for item in groups:
        row = counts.setdefault(item.lp, dict.fromkeys(COUNTS, 0))
        row["groups"] += 1
        row["judgments"] += len(item.candidates)
        scores += [candidate.score for candidate in item.candidates]
    for pair in pairs:
        row = counts.setdefault(pair.lp, dict.fromkeys(COUNTS, 0))
        row["pairs"] += 1
        row["ties"] += pair.difference == 0
    return {
        "language_pairs": dict(sorted(counts.items())),
        "total": {name: sum(row[name] for row in counts.values()) for name in COUNTS},
        "scores": _spread(scores),
        # Which text of a pair is `a` was tossed, so the sign has no meaning.
        "differences": _spread([abs(pair.difference) for pair in pairs]),
    }


def describe(groups: Iterable[Group], pairs: Iterable[Pair]) -> str:
    """The summary as a table and bars of text."""
    numbers = summary(groups, pairs)
    rows = [*numbers["language_pairs"].items(), ("total", numbers["total"])]
    parts = [_table([("language pair", *COUNTS), *[(lp or "?", *(row[name] for name in COUNTS)) for lp, row in rows]])]
    for name in SPREADS:
        if numbers[name]["count"]:
            parts.append(_bars(name if name == "scores" else "absolute differences", numbers[name]))
    return "\n\n".join(parts) + "\n"


def _spread(values: Sequence[float]) -> dict[str, Any]:
    if not values:
        return {"count": 0}
    mean = math.fsum(values) / len(values)
    variance = math.fsum((value - mean) ** 2 for value in values) / len(values)
    return {
        "count": len(values),
        "mean": mean,
        "deviation": math.sqrt(variance),
        "least": min(values),
        "largest": max(values),
        "histogram": _histogram(values),
    }


def _histogram(values: Sequence[float]) -> list[list[float]]:
    low, high = min(values), max(values)
    if low == high:
        return [[low, high, len(values)]]
    step = (high - low) / BARS
    counts = [0] * BARS
    for value in values:
        counts[min(BARS - 1, int((value - low) / step))] += 1
    return [[low + index * step, low + (index + 1) * step, count] for index, count in enumerate(counts)]


def _table(rows: Sequence[Sequence[object]]) -> str:
    texts = [[str(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*texts, strict=True)]
    lines = [
        "  ".join(
            [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))]
        )
        for row in texts
    ]
    return "\n".join(lines)


def _bars(title: str, spread: dict[str, Any]) -> str:
    head = f"{title}: mean {spread['mean']:.3g}, standard deviation {spread['deviation']:.3g}"
    largest = max(count for *_, count in spread["histogram"])
    lines = [
        f"{low:10.4g} to {high:<10.4g} {'#' * math.ceil(WIDTH * count / largest):{WIDTH}} {count}"
        for low, high, count in spread["histogram"]
    ]
    return "\n".join([head, *lines])
