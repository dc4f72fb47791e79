"""The summary of a run: the cost of its decisions, their certainty, their flags."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from statistics import median

import numpy as np

from candidates.command.console import Console
from mbr.decide import Decision
from mbr.signature import Signature

LARGE_REGRET = 0.05  # segments above it are counted
SAMPLE = 4096  # numbers of which a median is taken


@dataclass
class Running:
    """Statistics of a stream of numbers in constant memory; the median is exact up to `SAMPLE` numbers."""

    count: int = 0
    total: float = 0.0
    squares: float = 0.0
    above: int = 0  # larger than LARGE_REGRET
    _sample: list[float] = field(default_factory=list)
    _random: Random = field(default_factory=lambda: Random(1))

    def add(self, value: float) -> None:
        self.count += 1
        self.total += value
        self.squares += value**2
        self.above += value > LARGE_REGRET
        if len(self._sample) < SAMPLE:
            self._sample.append(value)
        elif (place := self._random.randrange(self.count)) < SAMPLE:  # every number is as likely to be in the sample
            self._sample[place] = value

    @property
    def mean(self) -> float:
        return self.total / self.count

    @property
    def median(self) -> float:
        return median(self._sample)

    @property
    def root_mean_square(self) -> float:
        return float((self.squares / self.count) ** 0.5)


class Tally:
    """Totals of the run so far. `add` every window, then `report` once."""

    def __init__(self) -> None:
        self.segments = self.passes = self.failed = 0
        self.flags: Counter[str] = Counter()
        self._candidates = 0
        self._numbers = {name: Running() for name in ("estimated_regret", "contenders", "rho", "tau")}
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
                        numbers.add(value)

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
        regret, contenders, rho, tau = (
            self._numbers[name] for name in ("estimated_regret", "contenders", "rho", "tau")
        )
        summary: dict[str, float] = {}
        words = []
        if regret.count:
            summary |= {"estimated_regret": regret.mean, "above_5_percent": regret.above / regret.count}
            words.append(
                f"expected regret {100 * regret.mean:.2f} %, above 5 % in {regret.above} of {regret.count} segments"
            )
        if contenders.count:
            summary["contenders"] = contenders.mean
            words.append(f"{contenders.mean:.1f} contenders left")
        if rho.count:
            summary["rho"] = rho.median
            words.append(f"rho {rho.median:.2f}")
        if tau.count:
            summary["tau"] = tau.root_mean_square
            words.append(f"tau {tau.root_mean_square:.2f}")
        if words:
            console.info("; ".join(words), **{name: round(value, 6) for name, value in summary.items()})
