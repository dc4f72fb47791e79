"""A loaded model of any kind, ready to score: a checkpoint's name and kind, and the engine that runs it.

`pear.resume_metric.ResumeMetric` and `pear.single.Single` are scorers of rows with a meaning of their own; the commands
and `mbr` take the plain one. Nothing heavy is imported before `load`.

    with Scorer.load("pear-folder", device="cpu") as scorer:
        scorer.engine.score([("A dog.", "Ein Hund.", "Eine Katze.")])
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self, Unpack

from candidates.common.closing import Closing
from candidates.common.errors import ModelError
from pear.runtime.hub import check_found
from pear.runtime.options import ScorerOptions

if TYPE_CHECKING:
    from pear.engine import Engine


class Scorer(Closing):
    """`name` tells checkpoints apart, `precision` is what the encoder computes in."""

    # The kinds of model it takes.
    kinds: ClassVar[tuple[str, ...]] = ("pear",)

    def __init__(self, engine: Engine, name: str, precision: str = "float32") -> None:
        self.engine = engine
        self.name = name
        self.precision = precision

    @classmethod
    def load(cls, model: str | Path, **options: Unpack[ScorerOptions]) -> Self:
        """Load a checkpoint: a folder, a `.ckpt` file or a hub name. Options as in `pear.checkpoint`, `pear.engine`."""
        where: dict[str, Any] = {
            "cache_dir": options.get("cache_dir"),
            "local_files_only": options.get("offline", False),
        }
        check_found(model, revision=options.get("revision"), **where)
        from pear.checkpoint import load_checkpoint
        from pear.engine import Engine
        from pear.runtime.devices import limit_threads

        limit_threads(options.get("threads", 0))  # while the weights are read, too
        checkpoint = load_checkpoint(
            model,
            revision=options.get("revision"),
            encoder=options.get("encoder"),
            kind=None,
            **where,
        )
        if checkpoint.network.kind not in cls.kinds:
            raise ModelError(
                f"{model} is a model of kind {checkpoint.network.kind}; expected {' or '.join(cls.kinds)}, which score "
                "other texts in another way"
            )
        dtype, backend = options.get("dtype", "float32"), options.get("backend", "torch")
        compute_type = options.get("compute_type")
        engine = Engine(
            checkpoint.network,
            checkpoint.tokenizer,
            device=options.get("device", "auto"),
            dtype=dtype,
            backend=backend,
            compute_type=compute_type,
            batch_tokens=options.get("batch_tokens"),
            threads=options.get("threads", 0),
        )
        return cls(engine, checkpoint.name, f"ct2-{compute_type or 'int8'}" if backend == "ct2" else dtype)

    @property
    def kind(self) -> str:
        return self.engine.kind

    def close(self) -> None:
        """Release the weights."""
        self.engine.close()
