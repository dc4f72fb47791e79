"""Names of the rules for pseudo-references, apart from the arithmetic (`mbr.decide`), so that --help stays quick."""

from __future__ import annotations

from typing import Literal

Weights = Literal["count", "uniform", "logprob"]
SelfRule = Literal["exclude", "include"]
WEIGHTS: tuple[Weights, ...] = ("count", "uniform", "logprob")
SELF_RULES: tuple[SelfRule, ...] = ("exclude", "include")
