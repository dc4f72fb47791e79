"""PEAR as a utility: u(i, j) is by how much candidate i is better than candidate j."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np
from numpy.typing import NDArray

from candidates.common.errors import UsageError
from mbr.utilities.base import PairUtility, Triple, Work
from pear.runtime.options import RunOptions
from pear.scorer import Scorer
from pear.shipped import NOTE, RELEASED, shipped_models

if TYPE_CHECKING:
    from pear.engine import Engine
    from pear.runtime.choice import PrecisionChoice


class Pear(PairUtility):
    """A PEAR checkpoint on the scoring engine. Options as in `pear.checkpoint` and `pear.engine`.

    A recipe names the model (`mbr.recipe.plan` sees which one the lists call for); a `revision` or an `encoder` without
    a model is that of the released one.
    """

    name = "pear"
    summary = "learned pairwise quality difference"
    needs = "a checkpoint (--model); bundled for en-de, else Prosho/pear from the hub"
    relation = "antisymmetric"
    default_strategy = "race"
    traits = ("referenceless",)
    family = "pear"

    def __init__(self, *, model: str | Path | None = None, **options: Unpack[RunOptions]) -> None:
        if model is None and not any(options.get(name) for name in ("revision", "encoder")):
            raise UsageError(
                f"PEAR has no model; name one: model={', model='.join(map(repr, shipped_models()))} (bundled, for its "
                f"language pair) or model={RELEASED!r} (released, from the hub)"
            )
        self._shipped = str(model) in shipped_models()
        self._scorer = Scorer.load(model or RELEASED, **options)
        self.engine = self._scorer.engine
        self.window_passes = window_of(self.engine)

    def settings(self) -> dict[str, object]:
        return model_settings(self._scorer)

    def notes(self) -> list[str]:
        return [*([NOTE] if self._shipped else []), *precision_notes(self._scorer)]

    def score_pairs(self, triples: Sequence[Triple]) -> NDArray[np.float32]:
        return self.engine.score(triples, progress=self.progress)

    def batches(self, triples: Sequence[Triple]) -> list[NDArray[np.intp]]:
        return self.engine.batches(triples)

    def work(self) -> Work:
        return Work(self.engine.runner.tokens, self.engine.runner.padding)

    @property
    def precision_choice(self) -> PrecisionChoice | None:
        return self.engine.runner.choice

    @property
    def on_gpu(self) -> bool:
        return self.engine.on_gpu

    def truncates(self, source: str, texts: Sequence[str]) -> bool:
        return self.engine.truncates(source, texts)

    def cost(self, triples: Sequence[Triple]) -> dict[str, Any]:
        return {"tokens": self.engine.tokens(triples), "memory_bytes": self.engine.memory_bytes()}

    def close(self) -> None:
        self.engine.close()


def window_of(engine: Engine) -> int:
    """About thirty batches of ordinary pairs: full batches, and on a slow machine a commit every few minutes."""
    return max(engine.batch_tokens // 2, 256)


def model_settings(scorer: Scorer) -> dict[str, object]:
    """Everything about a loaded model that may change a score."""
    return {"model": scorer.name, "dtype": scorer.precision, "trunc": scorer.engine.layout.max_tokens}


def precision_notes(scorer: Scorer) -> list[str]:
    """How the precision that dtype `auto` tried agrees with float32, where that was checked just now."""
    choice = scorer.engine.runner.choice
    return [] if choice is None else choice.notes()
