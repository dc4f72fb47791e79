"""No utility: nothing is compared, and the terms of the recipe alone decide."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from mbr.utilities.base import QualityUtility


class NoUtility(QualityUtility):
    """Zero for every candidate."""

    name = "none"
    summary = "nothing is compared; terms alone decide (--add)"

    def score_each(self, rows: Sequence[tuple[str, str]]) -> NDArray[np.float32]:
        return np.zeros(len(rows), np.float32)
