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
from pear.runtime.options import RunOptions

if TYPE_CHECKING:
    from pear.engine import Engine


class Scorer(Closing):
    """A loaded model; `name` tells checkpoints apart."""

    # The kinds of model it takes.
    kinds: ClassVar[tuple[str, ...]] = ("pear",)

    def __init__(self, engine: Engine, name: str) -> None:
        self.engine = engine
        self.name = name

    @classmethod
    def load(cls, model: str | Path, **options: Unpack[RunOptions]) -> Self:
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
                f"{model} is a model of kind {checkpoint.network.kind}; expected one of kind {' or '.join(cls.kinds)}, "
                "whose inputs are different; name another checkpoint"
            )
        engine = Engine(
            checkpoint.network,
            checkpoint.tokenizer,
            device=options.get("device", "auto"),
            dtype=options.get("dtype", "float32"),
            batch_tokens=options.get("batch_tokens"),
            threads=options.get("threads", 0),
            name=checkpoint.name,
        )
        return cls(engine, checkpoint.name)

    @property
    def precision(self) -> str:
        """What the encoder computes in; with dtype `auto`, what was chosen."""
        return self.engine.precision

    @property
    def kind(self) -> str:
        return self.engine.kind

    def close(self) -> None:
        """Release the weights."""
        self.engine.close()
