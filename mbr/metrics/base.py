"""The interface of metrics: translations in, scores out, on the metric's own scale.

A row is (source, hypothesis, reference), or (source, hypothesis) for metrics that need no reference; PEAR takes any
other translation in the place of the reference. The same loaded metric is a utility (`mbr.utilities`, where other
candidates are the references) and a judge (`mbr.evaluate`).

    with get_metric("comet", model="wmt22-comet-da") as metric:
        metric.score([("A dog.", "Ein Hund.", "Der Hund.")])
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from candidates.common.closing import Closing
from candidates.common.errors import UsageError

if TYPE_CHECKING:
    from mbr.metrics.released import ModelFiles
    from pear.runtime.choice import PrecisionChoice
    from pear.runtime.probes import Triple
    from pear.runtime.runner import Runner

Row = tuple[str, ...]


class Metric(Closing, ABC):
    """Scores rows; every distinct row is computed once, and the order of rows changes nothing."""

    name: ClassVar[str]
    summary: ClassVar[str]
    # Metrics of one family were trained on similar data and overrate each other's choices.
    family: ClassVar[str]
    # What must be installed or downloaded, for the user.
    needs: ClassVar[str] = "nothing"
    # Number of texts in a row: 3 with a reference, 2 without.
    takes: ClassVar[tuple[int, ...]] = (3,)
    lower_is_better: ClassVar[bool] = False
    reads_source: ClassVar[bool] = True  # if not, the source of a row of 3 changes nothing

    @classmethod
    def stamp(cls, options: Mapping[str, Any]) -> str | None:
        """A text that changes whenever the files behind these options do, made without reading them.

        As long as it is the same, `settings` are. None where there is no such text.
        """
        return None

    @classmethod
    def check_found(cls, options: Mapping[str, Any]) -> None:
        """Refuse a model that cannot be found now, before anything heavy is imported; downloads nothing."""

    @abstractmethod
    def score(self, rows: Sequence[Row], *, progress: bool = False) -> NDArray[np.float32]:
        """Scores [rows]. All rows hold the same number of texts, one of `takes`."""

    def settings(self) -> dict[str, object]:
        """Everything that may change a score: the model with its revision, precision, longest input."""
        return {}

    def notes(self) -> list[str]:
        """Notes for the user once it is loaded, such as the licence of weights that are not free for all uses."""
        return []

    def truncated(self, rows: Sequence[Row]) -> NDArray[np.bool_]:
        """Which rows [rows] are longer than the metric's input, and so are cut off."""
        return np.zeros(len(rows), np.bool_)

    @property
    def on_gpu(self) -> bool:
        """Whether a device other than the CPU computes."""
        return False

    @property
    def precision_choice(self) -> PrecisionChoice | None:
        """What chose the precision of its network, where that was left to dtype `auto`."""
        return None

    def tokens(self, rows: Sequence[Row]) -> int:
        """Tokens that scoring these rows would cost."""
        return 0

    def memory_bytes(self) -> int:
        """Estimate of the memory that scoring takes at its peak."""
        return 0

    def texts_per_row(self, rows: Sequence[Row]) -> int:
        """The number of texts in each of these rows.

        Raises:
            UsageError: rows differ in size, or the metric does not take rows of this size.
        """
        sizes = {len(row) for row in rows}
        if len(sizes) != 1 or not sizes <= set(self.takes):
            shapes = " or ".join(
                {2: "(source, hypothesis)", 3: "(source, hypothesis, reference)"}[size] for size in self.takes
            )
            raise UsageError(f"{self.name} takes rows of {shapes}; got rows of {sorted(sizes)} texts")
        return sizes.pop()


class NeuralMetric(Metric):
    """A metric that is a network on a `pear.runtime.runner.Runner`; its constructor calls `_hold` once it is loaded."""

    default: ClassVar[str]  # the release to load where no model is named
    never: ClassVar[tuple[str, ...]] = ()  # precisions that the network cannot run in

    @classmethod
    def stamp(cls, options: Mapping[str, Any]) -> str | None:
        from mbr.metrics.released import stamp_files

        if options.get("dtype") == "auto":  # the precision is known once the model is loaded
            return None
        return stamp_files(options.get("model") or cls.default, cls.name, options)

    @classmethod
    def check_found(cls, options: Mapping[str, Any]) -> None:
        from mbr.metrics.released import check_model_found

        check_model_found(options.get("model") or cls.default, cls.name, options)

    def _hold(self, name: str, files: ModelFiles, runner: Runner, max_tokens: int) -> None:
        self._name, self._files, self._runner, self._max_tokens = name, files, runner, max_tokens
        if runner.choice is not None:
            runner.choice.decide(f"{self.name} {name}", self._preferences, never=self.never)

    def _preferences(self, pairs: Sequence[Triple]) -> NDArray[np.float32]:
        """By how much a is better than b in each (source, a, b), with a as the reference."""
        compares = 3 in self.takes
        first = [(source, a, a) if compares else (source, a) for source, a, _ in pairs]
        second = [(source, b, a) if compares else (source, b) for source, a, b in pairs]
        return self.score(first) - self.score(second)

    def settings(self) -> dict[str, object]:
        return {"model": self._name, "dtype": self._runner.precision, "trunc": self._max_tokens}

    def notes(self) -> list[str]:
        note = self._files.note()
        return [*([note] if note else []), *(self._runner.choice.notes() if self._runner.choice else [])]

    @property
    def precision_choice(self) -> PrecisionChoice | None:
        return self._runner.choice

    @property
    def on_gpu(self) -> bool:
        return self._runner.on_gpu

    def memory_bytes(self) -> int:
        return self._runner.memory_bytes()

    def close(self) -> None:
        self._runner.close()
