"""Everything that decides what a training run learns, as one value: the flags of `pear-train` and the keys of its YAML.

>>> Recipe(kind="single", epochs=2).loss
'huber'
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Any, Literal, get_args

from candidates.common.errors import UsageError

Kind = Literal["pear", "single", "resume", "sentinel-cand", "sentinel-src", "sentinel-ref"]
KINDS: tuple[Kind, ...] = get_args(Kind)


# Settings of the RESUME paper that differ from the defaults.
RESUME_METRIC: dict[str, Any] = {
    "loss": "mse",
    "encoder_rate": 1e-5,
    "head_rate": 3e-5,
    "freeze_encoder": 0.33,
    "epochs": 5.0,
}


@dataclass(frozen=True)
class Recipe:
    """One stage of training. Rates, loss and flip weight default to those of the PEAR paper."""

    kind: Kind = "pear"
    # data
    pairs_per_source: int = 10
    references_as: float | None = None
    dev_share: float = 0.05
    absolute_share: float = 0.0
    word_weight: float = 0.0
    # objective
    loss: Literal["huber", "mse"] = "huber"
    huber_delta: float = 4.5
    flip: float = 0.1
    learn_scale: bool = True
    # optimisation
    optimizer: Literal["adamw", "muon"] = "adamw"
    encoder_rate: float = 2e-5
    head_rate: float = 1e-4
    weight_decay: float = 0.01
    clip: float = 1.0
    warm_up: float = 0.05
    schedule: Literal["linear", "constant"] = "linear"
    freeze_encoder: float = 0.0
    batch_tokens: int = 4096
    accumulate: int = 1
    epochs: float = 1.0
    steps: int | None = None
    # selection
    select: Literal["acc_eq", "pdp"] = "acc_eq"
    every: int = 100
    patience: int | None = None
    dev_lists: int = 200
    dev_candidates: int = 6
    seed: int = 1
    # where and how it runs
    dtype: Literal["auto", "float32", "bf16"] = "auto"
    gradient_checkpointing: bool = False

    def __post_init__(self) -> None:
        positive = ("pairs_per_source", "batch_tokens", "accumulate", "epochs", "every", "dev_lists", "huber_delta")
        for name in positive:
            if not 0 < getattr(self, name) < math.inf:
                raise UsageError(f"{name} {getattr(self, name)} is not a positive number")
        for name in ("flip", "word_weight", "absolute_share", "encoder_rate", "head_rate", "weight_decay", "clip"):
            if not 0 <= getattr(self, name) < math.inf:
                raise UsageError(f"{name} {getattr(self, name)} is not a number from 0 on")
        if self.steps is not None and self.steps < 1:
            raise UsageError(f"steps {self.steps} is not a positive number")
        if self.dev_candidates < 2:
            raise UsageError("dev_candidates is less than two, which gives no pairs to measure with")
        if self.patience is not None and self.patience < 1:
            raise UsageError(f"patience {self.patience} is not a positive number")
        if not 0 <= self.seed < 2**32:
            raise UsageError(f"seed {self.seed} is out of range; expected a number from 0 to 2**32 - 1")
        if self.references_as is not None and not math.isfinite(self.references_as):
            raise UsageError(f"references_as {self.references_as} is not a finite number")
        for name in ("dev_share", "freeze_encoder", "warm_up"):
            if not 0 <= getattr(self, name) < 1:
                raise UsageError(f"{name} {getattr(self, name)} is not a share from 0 to below 1")
        choices = {"kind": KINDS, "loss": ("huber", "mse"), "optimizer": ("adamw", "muon"), "select": ("acc_eq", "pdp")}
        choices |= {"schedule": ("linear", "constant"), "dtype": ("auto", "float32", "bf16")}
        for name, allowed in choices.items():
            if getattr(self, name) not in allowed:
                raise UsageError(f"{name} {getattr(self, name)!r} is unknown; expected one of {', '.join(allowed)}")

    @classmethod
    def from_dict(cls, settings: dict[str, Any]) -> Recipe:
        names = {field.name for field in fields(cls)}
        unknown = [name for name in settings if name not in names]
        if unknown:
            raise UsageError(
                f"{unknown[0]!r} is no setting of a training run; expected some of {', '.join(sorted(names))}"
            )
        return cls(**settings)

    def rate(self, step: int, steps: int) -> float:
        """Share of the peak learning rate at a step of `steps`: rising, then level or falling to zero."""
        rise = max(self.warm_up * steps, 1.0)
        if step < rise:
            return (step + 1) / (rise + 1)
        return 1.0 if self.schedule == "constant" else max(0.0, (steps - step) / max(steps - rise, 1.0))
