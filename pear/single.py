"""Models that score one candidate on its own: the single-candidate baseline, and sentinels.

The same network as PEAR, shown two texts and trained to give an absolute score. A sentinel is shown too little to
judge a translation, on purpose: what it predicts well all the same can be guessed without translating.

| kind | first text | second text |
| --- | --- | --- |
| `single` | source | candidate |
| `sentinel-cand` | nothing | candidate |
| `sentinel-src` | nothing | source |
| `sentinel-ref` | nothing | reference |

    with Single.load("single-folder") as single:
        single.score([("A dog.", "Ein Hund.")])                       # (source, candidate) -> array([0.8])
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from candidates.common.errors import UsageError
from pear.scorer import Scorer


class Single(Scorer):
    """A loaded single-candidate model or sentinel."""

    kinds = ("single", "sentinel-cand", "sentinel-src", "sentinel-ref")

    def score(self, pairs: Sequence[tuple[str, str]], *, progress: bool = False) -> NDArray[np.float32]:
        """Absolute scores [pairs] of (source, candidate).

        A sentinel reads its one of the two. A `sentinel-ref` reads neither; give it references with `score_texts`.
        """
        if self.kind == "sentinel-ref":
            raise UsageError(f"{self.name} is a sentinel-ref, which reads references; give them to score_texts")
        if self.kind == "single":
            return self.engine.score(pairs, progress=progress)
        read = 0 if self.kind == "sentinel-src" else 1
        return self.score_texts([pair[read] for pair in pairs], progress=progress)

    def score_texts(self, texts: Sequence[str], *, progress: bool = False) -> NDArray[np.float32]:
        """Scores [texts] of the one text that a sentinel is shown."""
        if self.kind == "single":
            raise UsageError(f"{self.name} reads (source, candidate) pairs; give them to score")
        return self.engine.score([("", text) for text in texts], progress=progress)
