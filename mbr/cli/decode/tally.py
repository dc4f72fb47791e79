"""The summary of a run: the cost of its decisions, their certainty, their flags."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from statistics import median
from typing import Any

import numpy as np

from candidates.command.console import Console
from candidates.common.words import counted
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


# What a flag means, for a number of lists.
FLAGS = {
    "tie": "in {lists} the second candidate is exactly as good",
    "single": "{lists} had one candidate to choose from",
    "truncated": "in {lists} a text is longer than the model takes",
    "unseen": "in {lists} the budget did not suffice to compare all candidates",
    "fallback": "for {lists} the first candidate stands in",
}


class Tally:
    """Totals of the run so far. `add` every window, then `report` once."""

    def __init__(self) -> None:
        self.segments = self.passes = self.failed = 0
        self.flags: Counter[str] = Counter()
        self._chosen = self._listed = self._compared = self._unknown = 0
        self.dropped = 0
        self.dropped_by: Counter[str] = Counter()
        self._numbers = {name: Running() for name in ("estimated_regret", "contenders", "rho", "tau")}
        self._began = time.monotonic()

    def add(self, window: Sequence[Decision], console: Console) -> None:
        for decision in window:
            self.segments += 1
            self.passes += decision.passes
            self.flags.update(decision.flags)
            self.dropped += decision.dropped
            self.dropped_by.update(decision.dropped_by)
            self._chosen += bool(decision.ranking)
            self._listed += len(decision.candidates) if decision.candidates else 0
            if decision.error:
                self.failed += 1
                console.warn(decision.error)
            elif decision.passes:
                self._compared += int(np.isfinite(decision.expected).sum())
                self._unknown += decision.certainty.estimated_regret is None
                for name, numbers in self._numbers.items():
                    if (value := getattr(decision.certainty, name)) is not None:
                        numbers.add(value)

    def report(
        self,
        console: Console,
        signature: Signature,
        *,
        done_before: int = 0,
        reports: Sequence[tuple[str, dict[str, Any]]] = (),
    ) -> None:
        """Print what was chosen, how sure it is and what it cost; details with --verbose, then the signature.

        `reports` are those of the utility (`Utility.report`).
        """
        seconds = time.monotonic() - self._began
        console.info(
            self._outcome(seconds, done_before),
            segments=self.segments,
            passes=self.passes,
            seconds=round(seconds, 3),
            failed=self.failed,
            flags=dict(self.flags),
            **({"dropped": self.dropped, "dropped_by": dict(self.dropped_by)} if self.dropped else {}),
        )
        if loss := self._loss():
            console.info(loss)
        self._details(console)
        for sentence, numbers in reports:
            console.info(sentence, **numbers)
        console.info(str(signature))

    def _outcome(self, seconds: float, done_before: int) -> str:
        words = [
            f"{counted(self._chosen, 'translation')} chosen from {counted(self._listed, 'distinct candidate')} "
            f"in {seconds:.1f} s"
        ]
        if self.passes:
            each = f" ({self.passes / self._compared:.1f} per candidate)" if self._compared else ""
            words.append(f"{counted(self.passes, 'pair')} scored{each}")
        if self.dropped:
            rules = ", ".join(f"{name} {count:,}" for name, count in self.dropped_by.most_common())
            words.append(f"{counted(self.dropped, 'candidate')} dropped by guards ({rules})")
        words += [_meaning(flag).format(lists=counted(count, "list")) for flag, count in sorted(self.flags.items())]
        if self.failed:
            words.append(f"{counted(self.failed, 'segment')} failed")
        if done_before:
            words.append(f"{counted(done_before, 'segment')} done before")
        return "; ".join(words)

    def _loss(self) -> str:
        """What the choices may lose for pairs that were not scored; empty where that is nothing."""
        regret = self._numbers["estimated_regret"]
        what = "expected loss against scoring every pair"
        unknown = f"not known for {counted(self._unknown, 'segment')}" if self._unknown else ""
        if not regret.total:
            return f"{what}: {unknown}" if unknown else ""
        large = f"{counted(regret.above, 'segment') if regret.above else 'no segment'} above 5 %"
        return "; ".join(filter(None, [f"{what}: {_percent(regret.mean)} on average", large, unknown]))

    def _details(self, console: Console) -> None:
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
            console.detail("; ".join(words), **{name: round(value, 6) for name, value in summary.items()})


def _meaning(flag: str) -> str:
    """What a flag means, for a number of {lists}."""
    guard = flag.removeprefix("guard:")
    if guard != flag:
        return f"in {{lists}} no candidate keeps all rules, and the chosen one breaks {guard}"
    return FLAGS.get(flag, f"{flag}: {{lists}}")


def _percent(share: float) -> str:
    """A share in words: two digits, and never a zero for what is more than nothing."""
    return f"{100 * share:.1f} %" if share >= 0.001 else "below 0.1 %"
