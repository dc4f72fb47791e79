"""A single-candidate model as a utility: the absolute score of each candidate, and no comparison."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np
from numpy.typing import NDArray

from candidates.common.errors import ModelError, UsageError
from mbr.utilities.base import QualityUtility
from mbr.utilities.pear import model_settings, precision_notes
from pear.runtime.options import RunOptions
from pear.single import Single as SingleModel

if TYPE_CHECKING:
    from pear.runtime.choice import PrecisionChoice


class Single(QualityUtility):
    """A checkpoint of kind single, or a sentinel that sees the candidate only. Options as in `pear.scorer`."""

    name = "single"
    summary = "absolute quality of each candidate, references not read"
    needs = "a checkpoint of kind single (--model)"
    family = "pear"

    def __init__(self, *, model: str | Path | None = None, **options: Unpack[RunOptions]) -> None:
        if model is None:
            raise UsageError("utility 'single' needs a checkpoint of kind single; give its folder (--model FOLDER)")
        self._model = SingleModel.load(
            model,
            **options,
        )
        if self._model.kind not in ("single", "sentinel-cand"):
            self._model.close()
            raise ModelError(
                f"{model} is a {self._model.kind}, which gives all candidates of a source the same score; a model that "
                "reads the candidate is needed to choose one (kind single)"
            )

    def settings(self) -> dict[str, object]:
        kind = None if self._model.kind == "single" else self._model.kind
        return {**model_settings(self._model), "kind": kind}

    def notes(self) -> list[str]:
        return precision_notes(self._model)

    def score_each(self, rows: Sequence[tuple[str, str]]) -> NDArray[np.float32]:
        return self._model.score(rows, progress=self.progress)

    def truncates(self, source: str, texts: Sequence[str]) -> bool:
        return self._model.engine.truncates(self._shown(source), texts, at_once=1)

    def cost(self, rows: Sequence[tuple[str, str]]) -> dict[str, Any]:
        engine = self._model.engine
        shown = [(self._shown(source), text) for source, text in rows]
        return {"tokens": engine.tokens(shown), "memory_bytes": engine.memory_bytes()}

    @property
    def precision_choice(self) -> PrecisionChoice | None:
        return self._model.engine.runner.choice

    @property
    def on_gpu(self) -> bool:
        return self._model.engine.on_gpu

    def close(self) -> None:
        self._model.close()

    def _shown(self, source: str) -> str:
        return source if self._model.kind == "single" else ""
