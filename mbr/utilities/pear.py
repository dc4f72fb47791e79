"""PEAR as a utility: u(i, j) is by how much candidate i is better than candidate j."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np
from numpy.typing import NDArray

from candidates.common.errors import ModelError
from mbr.utilities.base import PairUtility, Triple, Work
from pear.runtime.options import ScorerOptions
from pear.scorer import Scorer
from pear.shipped import DEFAULT, NOTE, fits, shipped_default, shipped_models

if TYPE_CHECKING:
    from pear.engine import Engine


class Pear(PairUtility):
    """A PEAR checkpoint on the scoring engine. Options as in `pear.checkpoint` and `pear.engine`.

    Without a model it is the bundled one, which is for everyday English-German sentences and refuses others; a
    `revision` or an `encoder` without a model is that of the released one.
    """

    name = "pear"
    summary = "learned pairwise quality difference"
    needs = "a checkpoint (--model); bundled for en-de, else Prosho/pear from the hub"
    relation = "antisymmetric"
    default_strategy = "race"
    traits = ("referenceless",)
    family = "pear"

    def __init__(self, *, model: str | Path | None = None, **options: Unpack[ScorerOptions]) -> None:
        self._unchecked = model is None and not any(options.get(name) for name in ("revision", "encoder"))
        self._shipped = self._unchecked or str(model) in shipped_models()
        self._scorer = Scorer.load(
            model or (shipped_default() if self._unchecked else "pear"),
            **options,
        )
        self.engine = self._scorer.engine
        self.window_passes = window_of(self.engine)

    def settings(self) -> dict[str, object]:
        return model_settings(self._scorer)

    def notes(self) -> list[str]:
        return [*([NOTE] if self._shipped else []), *([str(self.engine.agreement)] if self.engine.agreement else [])]

    def score_pairs(self, triples: Sequence[Triple]) -> NDArray[np.float32]:
        if self._unchecked and triples:
            source = triples[0][0]
            if not fits(DEFAULT, source, {text for s, *pair in triples if s == source for text in pair}):
                raise ModelError(
                    "no model was named, and the bundled PEAR is for English-German only, which these texts do not "
                    'look like; name a model (model="pear" is the released one)'
                )
            self._unchecked = False
        return self.engine.score(triples, progress=self.progress)

    def batches(self, triples: Sequence[Triple]) -> list[NDArray[np.intp]]:
        return self.engine.batches(triples)

    def work(self) -> Work:
        return Work(self.engine.runner.tokens, self.engine.runner.padding)

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
