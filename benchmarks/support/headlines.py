"""The main results of a benchmark, one per line: printed after its table, gathered by `benchmarks.results`.

headline(f"pear-mt over ours: {spread([9.1, 9.3, 9.9])}")    # => pear-mt over ours: 9.3 (9.1 to 9.9)
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence

MARK = "=> "


def headline(text: str) -> None:
    print(f"{MARK}{text}", flush=True)


def spread(ratios: Sequence[float]) -> str:
    """The median of ratios measured in turn, and their range."""
    return f"{_short(statistics.median(ratios))} ({_short(min(ratios))} to {_short(max(ratios))})"


def _short(value: float) -> str:
    """Three digits, all of them before the point if there are more."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
