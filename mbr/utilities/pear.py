"""PEAR as a utility: u(i, j) is by how much candidate i is better than candidate j."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from mbr.utilities.base import PairUtility, Triple

if TYPE_CHECKING:
    from pear.engine import Engine


class Pear(PairUtility):
    """A PEAR checkpoint on the scoring engine. Options as in `pear.checkpoint` and `pear.engine`."""

    name = "pear"
    summary = "learned pairwise quality difference"
    needs = "a checkpoint (--model; default Prosho/pear from the hub)"
    relation = "antisymmetric"
    default_strategy = "balanced"
    traits = ("referenceless",)

    def __init__(
        self,
        *,
        model: str | Path = "pear",
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
        import torch

        from pear.checkpoint import load_checkpoint
        from pear.engine import Engine

        if threads:
            torch.set_num_threads(threads)
        checkpoint = load_checkpoint(
            model, revision=revision, encoder=encoder, cache_dir=cache_dir, local_files_only=offline
        )
        self._model = checkpoint.name
        self._precision = f"ct2-{compute_type or 'int8'}" if backend == "ct2" else dtype
        self.engine: Engine = Engine(
            checkpoint.network,
            checkpoint.tokenizer,
            device=device,
            dtype=dtype,
            backend=backend,
            compute_type=compute_type,
            batch_tokens=batch_tokens,
            threads=threads,
        )

        # Some thirty batches of ordinary pairs: full batches, and on a slow machine a commit every few minutes.
        self.window_passes = max(self.engine.batch_tokens // 2, 256)

    def settings(self) -> dict[str, object]:
        return {"model": self._model, "dtype": self._precision, "trunc": self.engine.layout.max_tokens}

    def notes(self) -> list[str]:
        return [str(self.engine.agreement)] if self.engine.agreement else []

    def score_pairs(self, triples: Sequence[Triple]) -> NDArray[np.float32]:
        return self.engine.score(triples, progress=self.progress)

    def truncates(self, source: str, texts: Sequence[str]) -> bool:
        return self.engine.truncates(source, texts)

    def cost(self, triples: Sequence[Triple]) -> dict[str, Any]:
        return {"tokens": self.engine.tokens(triples), "memory_bytes": self.engine.memory_bytes()}

    def close(self) -> None:
        self.engine.close()
