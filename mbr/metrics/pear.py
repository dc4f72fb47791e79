"""PEAR as a metric: by how much the second text of a row is a better translation of the first than the third is.

The third text is what a translation is compared with: a reference, or the output of another system. By default both
orders are scored and the score is half of their difference, so that swapping the two negates it; equal texts score 0
without a pass (PEAR paper, sections 3.5 and 5.3).

    with Pear(model="en-de") as pear:
        pear.score([("A dog.", "Ein Hund.", "Eine Katze.")])      # positive: "Ein Hund." is better
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Unpack

import numpy as np
from numpy.typing import NDArray

from candidates.common.errors import UsageError
from mbr.metrics.base import Metric, Row
from pear.runtime.options import ModelOptions
from pear.scorer import Scorer
from pear.shipped import RELEASED, shipped_models

if TYPE_CHECKING:
    from pear.runtime.choice import PrecisionChoice

Orders = Literal["both", "single"]
ORDERS: tuple[Orders, ...] = ("both", "single")


class ScorerMetric(Metric):
    """A metric that is a `pear.scorer.Scorer`: PEAR, or one of its relatives."""

    takes = (3,)
    scorer: ClassVar[type[Scorer]] = Scorer

    def __init__(self, options: Mapping[str, Any]) -> None:
        self._check_named(options)
        running: Any = {key: value for key, value in options.items() if key != "model"}
        self._scorer = self.scorer.load(options["model"], **running)
        self._engine = self._scorer.engine

    @classmethod
    def stamp(cls, options: Mapping[str, Any]) -> str | None:
        from mbr.metrics.released import stamp_files

        cls._check_named(options)
        if options.get("dtype") == "auto":  # the precision is known once the model is loaded
            return None
        stamp = stamp_files(options["model"], cls.name, options)
        extra = {"mode": options.get("mode")}
        return None if stamp is None else f"{stamp}\n{extra}"

    @classmethod
    def check_found(cls, options: Mapping[str, Any]) -> None:
        from mbr.metrics.released import check_model_found

        cls._check_named(options)
        check_model_found(options["model"], cls.name, options)

    @classmethod
    def _check_named(cls, options: Mapping[str, Any]) -> None:
        """Raises UsageError where no model is named."""
        if options.get("model") is None:
            raise UsageError(f"{cls.name} has no default model here; {cls.needs}")

    def settings(self) -> dict[str, object]:
        return {
            "model": self._scorer.name,
            "dtype": self._scorer.precision,
            "trunc": self._engine.layout.max_tokens,
        }

    def notes(self) -> list[str]:
        choice = self.precision_choice
        return [] if choice is None else choice.notes()

    @property
    def precision_choice(self) -> PrecisionChoice | None:
        return self._engine.runner.choice

    def truncated(self, rows: Sequence[Row]) -> NDArray[np.bool_]:
        return self._engine.truncated(rows)

    @property
    def on_gpu(self) -> bool:
        return self._engine.on_gpu

    def tokens(self, rows: Sequence[Row]) -> int:
        return self._engine.tokens(rows)

    def memory_bytes(self) -> int:
        return self._engine.memory_bytes()

    def close(self) -> None:
        self._scorer.close()


class Pear(ScorerMetric):
    """A PEAR checkpoint. Options: `ModelOptions`, and `mode`: both orders, or a single one for half of the passes."""

    name = "pear"
    summary = "PEAR: learned, by how much a translation is better than another"
    family = "pear"
    needs = (
        f"name a model: {', '.join(shipped_models())} (bundled, for its language pair), {RELEASED} (released), FOLDER"
    )

    def __init__(self, *, mode: Orders = "both", **options: Unpack[ModelOptions]) -> None:
        if mode not in ORDERS:
            raise UsageError(f"pear: mode {mode!r} is unknown; expected one of {', '.join(ORDERS)}")
        self._both = mode == "both"
        self._shipped = str(options.get("model")) in shipped_models()
        super().__init__(options)

    def score(self, rows: Sequence[Row], *, progress: bool = False) -> NDArray[np.float32]:
        scores = np.zeros(len(rows), np.float32)
        if rows:
            self.texts_per_row(rows)
        places = [place for place, (_, first, second) in enumerate(rows) if first != second]
        forward = [rows[place] for place in places]
        reverse = [(source, second, first) for source, first, second in forward] if self._both else []
        passed = self._engine.score([*forward, *reverse], progress=progress)
        ahead = passed[: len(forward)]
        scores[places] = (ahead - passed[len(forward) :]) / 2 if self._both else ahead
        return scores

    def notes(self) -> list[str]:
        note = (
            "judging with the bundled en-de PEAR, a small model for everyday sentences (pear/bundled/en-de/README.md); "
            f"--judge pear={RELEASED} is the released one"
        )
        return [*([note] if self._shipped else []), *super().notes()]

    def settings(self) -> dict[str, object]:
        return {**super().settings(), "orders": "both" if self._both else "single"}
