"""Texts, systems and a metric for tests of judging: small, and nothing to load."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from mbr.metrics.base import Metric, Row


def read(path: Path) -> list[str]:
    return path.read_bytes().decode().split("\n")[:-1]


class Count(Metric):
    """Scores the share of words that hypothesis and reference (or source) have in common. Tells what is done to it."""

    name = "count"
    summary = "words in common"
    family = "counting"
    takes = (2, 3)
    events: ClassVar[list[str]] = []
    rows_scored: ClassVar[int] = 0

    def __init__(self, *, model: str = "small", **options: Any) -> None:
        self._model = model
        self.events.append(f"open {model}")

    def score(self, rows: Sequence[Row], *, progress: bool = False) -> NDArray[np.float32]:
        self.texts_per_row(rows)
        Count.rows_scored += len(rows)
        self.events.append(f"score {self._model}")
        if self._model == "broken":
            raise MemoryError
        if self._model == "nan":
            return np.full(len(rows), np.nan, np.float32)
        return np.array([_share(row[1], row[-1 if len(row) == 3 else 0]) for row in rows], np.float32)

    def settings(self) -> dict[str, object]:
        return {"model": self._model}

    def truncated(self, rows: Sequence[Row]) -> NDArray[np.bool_]:
        return np.array([len(row[1]) > 40 for row in rows])

    def close(self) -> None:
        self.events.append(f"close {self._model}")


class Errors(Count):
    name = "errors"
    takes = (3,)
    lower_is_better = True

    def score(self, rows: Sequence[Row], *, progress: bool = False) -> NDArray[np.float32]:
        return 1 - super().score(rows)


def _share(one: str, two: str) -> float:
    ours, theirs = set(one.split()), set(two.split())
    return len(ours & theirs) / max(len(ours | theirs), 1)


SOURCES = [
    "A dog runs.",
    "It costs 1,000 euros today.",
    "The sun is shining.",
    "We saw two birds there.",
    "Good night!",
]
REFERENCES = [
    "Ein Hund läuft.",
    "Es kostet heute 1.000 Euro.",
    "Die Sonne scheint.",
    "Wir sahen dort zwei Vögel.",
    "Gute Nacht!",
]
SYSTEMS = {
    "good": ["Ein Hund läuft.", "Es kostet heute 1000 Euro.", "Die Sonne scheint hell.", "Wir sahen da zwei Vögel.", "Gute Nacht!"],  # noqa: E501
    "poor": ["Hund rennt.", "Es kostet heute 100 Euro.", "Sonne.", "We saw two birds there.", ""],
    "middle": ["Ein Hund rennt.", "Es kostet 1.000 Euro.", "Die Sonne scheint.", "Wir sahen Vögel.", "Gute Nacht."],
}  # fmt: skip

# Words of mbr-evaluate for the files of the fixture `files`, and few draws.
ALL = ("--sources", "src.txt", "--references", "ref.txt", "--systems", "poor.txt", "good.txt", "mid=middle.txt")
FAST = ("--bootstrap", "100", "--trials", "100")
