"""Does a converted model still score like the original? How two sets of scores of the probe pairs compare."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from candidates.common.errors import ModelError
from pear.runtime.probes import PROBES

# Beyond this difference a float32 conversion is broken, not rounded.
FLOAT32_TOLERANCE = 1e-3


@dataclass(frozen=True)
class Agreement:
    """How a back-end's scores compare with torch float32 on the probes."""

    largest_difference: float
    spread: float
    same_sign: float
    compute_type: str

    @classmethod
    def between(cls, exact: NDArray[np.float32], fast: NDArray[np.float32], compute_type: str) -> Agreement:
        spread = float(max(np.abs(exact).max(), 1e-6))
        same_sign = float(np.mean(np.sign(exact) == np.sign(fast)))
        return cls(float(np.abs(exact - fast).max()), spread, same_sign, compute_type)

    def check(self) -> None:
        """int8 rounds and only reports; float32 that differs is a broken conversion."""
        if self.compute_type == "float32" and not self.largest_difference <= FLOAT32_TOLERANCE * self.spread:
            raise ModelError(f"the CTranslate2 conversion disagrees with torch: {self}; use the torch back-end")

    def __str__(self) -> str:
        return (
            f"CTranslate2 {self.compute_type} against torch float32 on {len(PROBES)} probe pairs: largest "
            f"difference {self.largest_difference:.2g} (scores up to {self.spread:.2g}), "
            f"same preference in {self.same_sign:.0%}"
        )
