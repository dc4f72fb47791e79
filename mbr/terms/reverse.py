"""The noisy channel: how probable is the source, given the candidate, for a translation model of the other direction?

A candidate that leaves something out, or adds something, makes its source less probable (Yee et al. 2019, "Simple and
effective noisy channel modeling for neural machine translation"). log p(source | candidate) per source token, by
forced decoding with any CTranslate2 or transformers translator: N passes of a small model per list.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from candidates.common.errors import MbrError, ModelError, UsageError
from candidates.lists import CandidateList
from mbr.decide import ReferenceWeights
from mbr.terms.base import Term, Values

PROBED_LISTS = 8  # lists whose best candidates tell whether the model translates the right way
PROBED_CANDIDATES = 4


class Reverse(Term):
    """log p(source | candidate) per source token.

    `model`: a translation model from the language of the candidates to that of the source, as for mbr-generate (a
    folder, a hub name, a bundled model); models of many languages also need `src_lang` (of the candidates) and
    `tgt_lang` (of the sources).
    """

    name = "reverse"
    summary = "log-probability of the source given the candidate, per token"
    needs = "a translation model of the other direction"
    family = "reverse"

    def __init__(
        self,
        *,
        model: str | None = None,
        backend: str | None = None,
        src_lang: str | None = None,
        tgt_lang: str | None = None,
        compute_type: str = "default",
        device: str = "auto",
        threads: int = 0,
        batch_tokens: int = 8192,
    ) -> None:
        from candidates.backends.forced import open_forced_scorer

        if not model:
            raise UsageError(
                "the term reverse needs a translation model of the other direction; give --add-model reverse=MODEL"
            )
        self._scorer = open_forced_scorer(
            model,
            backend=backend,
            src_lang=src_lang,
            tgt_lang=tgt_lang,
            compute_type=compute_type,
            device=device,
            threads=threads or None,
            batch_tokens=batch_tokens,
        )
        self._direction_checked = False

    def settings(self) -> dict[str, object]:
        return {"model": self._scorer.name}

    def values(self, lists: Sequence[CandidateList], references: ReferenceWeights) -> list[Values | MbrError]:
        if not self._direction_checked:
            self._check_direction(lists)
        rows = [(item.source, text) for item in lists for text in item.texts]
        return list(np.split(self._scores(rows), np.cumsum([len(item) for item in lists])[:-1]))

    def close(self) -> None:
        self._scorer.close()

    def _scores(self, rows: Sequence[tuple[str, ...]]) -> Values:
        """Of (source, candidate) rows, those in memory not computed again."""
        scores = self._score(rows) if self.memory is None else self.memory.score(rows, self._score)
        return np.asarray(scores, np.float64)

    def _score(self, rows: Sequence[tuple[str, ...]]) -> Values:
        return self._scorer.score([(text, source) for source, text in rows])

    def _check_direction(self, lists: Sequence[CandidateList]) -> None:
        """A model of the same direction finds candidates probable given the source, not the other way round."""
        rows = [
            (item.source, text)
            for item in lists[:PROBED_LISTS]
            for text in item.texts[:PROBED_CANDIDATES]
            if text.strip() and item.source.strip() and text != item.source
        ]
        if not rows:
            return
        right = self._scores(rows)
        wrong = self._scores([(text, source) for source, text in rows])
        self._direction_checked = True
        if float(np.mean(wrong)) > float(np.mean(right)):
            raise ModelError(
                f"{self._scorer.name} translates the sources into the candidates (log-probability per token "
                f"{np.mean(wrong):.2f}) rather than back ({np.mean(right):.2f}); the term reverse needs a model of the "
                "other direction (--add-model reverse=MODEL)"
            )
