"""The run report of mbr-decode as JSON: versions, recipe, counts, time per stage and price.

Stages: `input`, reading lists or generating them, waiting for lines included; `terms`, the first stage and the terms;
`scoring`, pairs and the rest of deciding; `writing`, lines, files and commits.
"""

from __future__ import annotations

import json
import platform
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, TypeVar

from candidates.common.text import atomic_output
from candidates.common.version import __version__
from candidates.formats import Record
from mbr.decide import Decision
from mbr.pipeline import Decoder, ListConversation
from mbr.recipe import recipe_mapping
from mbr.signature import Signature

PACKAGES = ("torch", "transformers", "ctranslate2", "numpy", "sacrebleu", "sentencepiece")
MILLION = 1_000_000
Item = TypeVar("Item")


class Clock:
    """Seconds per stage; a stage inside another counts for itself alone."""

    def __init__(self) -> None:
        self.began = time.monotonic()
        self.seconds: Counter[str] = Counter()
        self._inner = [0.0]

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        began = time.monotonic()
        self._inner.append(0.0)
        try:
            yield
        finally:
            taken = time.monotonic() - began
            self.seconds[name] += taken - self._inner.pop()  # type: ignore[assignment]  # of floats
            self._inner[-1] += taken

    def items(self, name: str, items: Iterable[Item]) -> Iterator[Item]:
        """The items; the time to get each counts for the stage."""
        stream = iter(items)
        while True:
            with self.stage(name):
                try:
                    item = next(stream)
                except StopIteration:
                    return
            yield item


@dataclass(frozen=True)
class TimedDecoder(Decoder):
    """A decoder that puts its time on a clock."""

    clock: Clock = field(default_factory=Clock)

    def start(self, records: Sequence[Record]) -> list[Decision | ListConversation]:
        with self.clock.stage("terms"):
            return super().start(records)

    def decide(self, window: Sequence[Record]) -> list[Decision]:
        with self.clock.stage("scoring"):
            return super().decide(window)


def timed(decoder: Decoder, clock: Clock) -> TimedDecoder:
    return TimedDecoder(**{part.name: getattr(decoder, part.name) for part in fields(Decoder)}, clock=clock)


@dataclass
class RunReport:
    """What a run did so far, and what it took. `add` every window; `write` at the end."""

    clock: Clock = field(default_factory=Clock)
    segments: Counter[str] = field(default_factory=Counter)
    flags: Counter[str] = field(default_factory=Counter)
    characters: Counter[str] = field(default_factory=Counter)
    passes: int = 0
    dropped: int = 0
    dropped_by: Counter[str] = field(default_factory=Counter)

    def add(self, window: Sequence[Decision]) -> None:
        for decision in window:
            source = decision.candidates.source if decision.candidates else decision.source
            self.segments.update(decided=decision.error is None, failed=decision.error is not None)
            self.characters.update(source=len(source), chosen=len(decision.text))
            self.flags.update(decision.flags)
            self.passes += decision.passes
            self.dropped += decision.dropped
            self.dropped_by.update(decision.dropped_by)

    def content(
        self, decoder: Decoder, signature: Signature, more: dict[str, int], price_per_hour: float | None
    ) -> dict[str, Any]:
        """The report as a JSON object; `more`: further numbers of segments by name."""
        total = time.monotonic() - self.clock.began
        stages = {name: round(self.clock.seconds[name], 3) for name in ("input", "terms", "scoring", "writing")}
        guards = {flag: count for flag, count in sorted(self.flags.items()) if flag.startswith("guard:")}
        report: dict[str, Any] = {
            "command": "mbr-decode",
            "versions": {"mbr-decode": __version__, "python": platform.python_version(), **_versions()},
            "signature": str(signature),
            "recipe": recipe_mapping(decoder.recipe),
            "segments": {"decided": 0, "failed": 0, **self.segments, **more},
            "flags": {flag: count for flag, count in sorted(self.flags.items()) if flag not in guards},
            "guards": {flag.removeprefix("guard:"): count for flag, count in guards.items()},
            "dropped": self.dropped,
            "dropped_by": dict(self.dropped_by.most_common()),
            "passes": self.passes,
            "characters": {"source": 0, "chosen": 0, **self.characters},
            "seconds": {"total": round(total, 3), **stages},
        }
        if numbers := {name: value for _, numbers in decoder.reports() for name, value in numbers.items()}:
            report["utility"] = numbers
        if price_per_hour is not None:
            price = price_per_hour * total / 3600
            source = self.characters["source"]
            report["price"] = {
                "per_hour": price_per_hour,
                "total": round(price, 6),
                "per_million_characters": round(price / source * MILLION, 6) if source else None,
            }
        return report


def write_report(path: Path, content: dict[str, Any]) -> None:
    with atomic_output(path, force=True) as stream:
        stream.write(json.dumps(content, indent=1, ensure_ascii=False).encode() + b"\n")


def _versions() -> dict[str, str]:
    """Of the libraries that compute, where they are installed."""
    versions = {}
    for package in PACKAGES:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            continue
    return versions
