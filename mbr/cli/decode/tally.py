"""The summary of a run: the cost of its decisions, their certainty, their flags."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from statistics import fmean, median

import numpy as np

from candidates.command.console import Console
from mbr.decide import Decision
from mbr.signature import Signature

LARGE_REGRET = 0.05  # segments above it are counted


class Tally:
    """Totals of the run so far. `add` every window, then `report` once."""

    def __init__(self) -> None:
        self.segments = self.passes = self.failed = 0
        self.flags: Counter[str] = Counter()
        self._candidates = 0
        self._numbers: dict[str, list[float]] = {"estimated_regret": [], "contenders": [], "rho": [], "tau": []}
        self._began = time.monotonic()

    def add(self, window: Sequence[Decision], console: Console) -> None:
        for decision in window:
            self.segments += 1
            self.passes += decision.passes
            self.flags.update(decision.flags)
            if decision.error:
                self.failed += 1
                console.warn(decision.error)
            elif decision.passes:
                self._candidates += int(np.isfinite(decision.expected).sum())
                for name, numbers in self._numbers.items():
                    if (value := getattr(decision.certainty, name)) is not None:
                        numbers.append(value)

    def report(self, console: Console, signature: Signature) -> None:
        seconds = time.monotonic() - self._began
        each = f" ({self.passes / self._candidates:.1f} per candidate)" if self._candidates else ""
        flags = "".join(f", {count} {flag}" for flag, count in sorted(self.flags.items()))
        failed = f", {self.failed} failed" if self.failed else ""
        console.info(
            f"{self.segments} segments, {self.passes} pairs scored{each} in {seconds:.1f} s{flags}{failed}",
            segments=self.segments,
            passes=self.passes,
            seconds=round(seconds, 3),
            failed=self.failed,
            flags=dict(self.flags),
        )
        self._report_certainty(console)
        console.info(str(signature))

    def _report_certainty(self, console: Console) -> None:
        """Means of regret and contenders, median of rho, root mean square of tau, where decisions have them.

        tau rests on few pairs of each list, so a median of it would be too small.
        """
        summary: dict[str, float] = {}
        words = []
        if regrets := self._numbers["estimated_regret"]:
            above = sum(regret > LARGE_REGRET for regret in regrets)
            summary |= {"estimated_regret": fmean(regrets), "above_5_percent": above / len(regrets)}
            words.append(
                f"expected regret {100 * fmean(regrets):.2f} %, above 5 % in {above} of {len(regrets)} segments"
            )
        if contenders := self._numbers["contenders"]:
            summary["contenders"] = fmean(contenders)
            words.append(f"{fmean(contenders):.1f} contenders left")
        if values := self._numbers["rho"]:
            summary["rho"] = median(values)
            words.append(f"rho {summary['rho']:.2f}")
        if values := self._numbers["tau"]:
            summary["tau"] = fmean(value**2 for value in values) ** 0.5
            words.append(f"tau {summary['tau']:.2f}")
        if words:
            console.info("; ".join(words), **{name: round(value, 6) for name, value in summary.items()})
