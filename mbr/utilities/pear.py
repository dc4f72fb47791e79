"""PEAR as a utility: u(i, j) is by how much candidate i is better than candidate j."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from mbr.utilities.base import PairUtility, Triple
from pear.scorer import Scorer
from pear.shipped import DEFAULT, NOTE, shipped_models

if TYPE_CHECKING:
    from pear.engine import Engine


class Pear(PairUtility):
    """A PEAR checkpoint on the scoring engine. Options as in `pear.checkpoint` and `pear.engine`.

    Without a model it is the bundled one, which is for everyday English-German sentences.
    """

    name = "pear"
    summary = "learned pairwise quality difference"
    needs = "a checkpoint (--model); bundled for en-de, else Prosho/pear from the hub"
    relation = "antisymmetric"
    default_strategy = "halving"
    traits = ("referenceless",)

    def __init__(
        self,
        *,
        model: str | Path = DEFAULT,
        revision: str | None = None,
        encoder: str | Path | None = None,
        cache_dir: str | Path | None = None,
        offline: bool = False,
        device: str = "auto",
        dtype: str = "float32",
        backend: str = "torch",
        compute_type: str | None = None,
        batch_tokens: int | None = None,
        threads: int = 0,
    ) -> None:
        self._scorer = Scorer.load(
            model,
            revision=revision,
            encoder=encoder,
            cache_dir=cache_dir,
            offline=offline,
            device=device,
            dtype=dtype,
            backend=backend,
            compute_type=compute_type,
            batch_tokens=batch_tokens,
            threads=threads,
        )
        self._shipped = str(model) in shipped_models() and not Path(model).exists()
        self.engine = self._scorer.engine
        self.window_passes = window_of(self.engine)

    def settings(self) -> dict[str, object]:
        return model_settings(self._scorer)

    def notes(self) -> list[str]:
        return [*([NOTE] if self._shipped else []), *([str(self.engine.agreement)] if self.engine.agreement else [])]

    def score_pairs(self, triples: Sequence[Triple]) -> NDArray[np.float32]:
        return self.engine.score(triples, progress=self.progress)

    def truncates(self, source: str, texts: Sequence[str]) -> bool:
        return self.engine.truncates(source, texts)

    def cost(self, triples: Sequence[Triple]) -> dict[str, Any]:
        return {"tokens": self.engine.tokens(triples), "memory_bytes": self.engine.memory_bytes()}

    def close(self) -> None:
        self.engine.close()


def window_of(engine: Engine) -> int:
    """Some thirty batches of ordinary pairs: full batches, and on a slow machine a commit every few minutes."""
    return max(engine.batch_tokens // 2, 256)


def model_settings(scorer: Scorer) -> dict[str, object]:
    """What of a loaded model may change a score."""
    return {"model": scorer.name, "dtype": scorer.precision, "trunc": scorer.engine.layout.max_tokens}
