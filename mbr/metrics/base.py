"""The interface of metrics: translations in, absolute scores out, on the metric's own scale.

A row is (source, hypothesis, reference), or (source, hypothesis) for metrics that need no reference. The same loaded
metric is a utility (`mbr.utilities`, where other candidates are the references) and a judge (`mbr.evaluate`).

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

    @classmethod
    def stamp(cls, options: Mapping[str, Any]) -> str | None:
        from mbr.metrics.released import stamp_files

        return stamp_files(options.get("model") or cls.default, cls.name, options)

    @classmethod
    def check_found(cls, options: Mapping[str, Any]) -> None:
        from mbr.metrics.released import check_model_found

        check_model_found(options.get("model") or cls.default, cls.name, options)

    def _hold(self, name: str, files: ModelFiles, runner: Runner, max_tokens: int) -> None:
        self._name, self._files, self._runner, self._max_tokens = name, files, runner, max_tokens

    def settings(self) -> dict[str, object]:
        return {"model": self._name, "dtype": self._runner.precision, "trunc": self._max_tokens}

    def notes(self) -> list[str]:
        note = self._files.note()
        return [note] if note else []

    @property
    def on_gpu(self) -> bool:
        return self._runner.on_gpu

    def memory_bytes(self) -> int:
        return self._runner.memory_bytes()

    def close(self) -> None:
        self._runner.close()
