"""The first list as the second check of dtype `auto`: a precision must keep the choice that float32 makes on it.

At load a model has compared its precisions on fixed probe pairs (`pear.runtime.choice`); texts that a user's own
system makes are more alike. Some candidates of a list are scored against each other in both precisions; nothing is
scored where the precision was named, or where a list was checked before on this machine.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from candidates.lists import CandidateList
from mbr.utilities.base import MatrixUtility, PairUtility, QualityUtility, Utility

MOST_COMPARED, MOST_RATED = 8, 32  # candidates of the list, of a utility that compares and of one that rates


def settle(utility: Utility, item: CandidateList) -> None:
    """Have the utility's model check its precision on this list; it may then compute in a slower one."""
    choice = utility.precision_choice
    if choice is None or not choice.wants_list or len(item) < 2:
        return
    texts = spread(item.texts, MOST_RATED if isinstance(utility, QualityUtility) else MOST_COMPARED)
    choice.check_list(lambda: expected(utility, item.source, texts))


def spread(texts: Sequence[str], most: int) -> list[str]:
    """At most `most` of the texts, at equal distances, the first and the last among them."""
    places = np.linspace(0, len(texts) - 1, min(most, len(texts)))
    return [texts[place] for place in dict.fromkeys(np.round(places).astype(int).tolist())]


def expected(utility: Utility, source: str, texts: list[str]) -> NDArray[np.float64]:
    """The mean utility [texts] of each text against the others; of one that rates, its rating."""
    count = len(texts)
    if isinstance(utility, QualityUtility):
        return np.asarray(utility.score_each([(source, text) for text in texts]), np.float64)
    if isinstance(utility, PairUtility):
        matrix = np.zeros((count, count))
        different = ~np.eye(count, dtype=bool)
        rows = [(source, texts[i], texts[j]) for i, j in np.argwhere(different)]
        matrix[different] = utility.score_pairs(rows)
    else:
        assert isinstance(utility, MatrixUtility)
        utility.prepare([])  # forgets what another precision has computed
        matrix = np.array(utility.matrix(source, texts, texts), np.float64)
        utility.prepare([])
        np.fill_diagonal(matrix, 0)
    return np.asarray(matrix.sum(axis=1) / max(count - 1, 1))
