"""The noisy channel: how probable is the source, given the candidate, for a translation model of the other direction?

A candidate that leaves something out, or adds something, makes its source less probable (Yee et al. 2019, "Simple and
effective noisy channel modeling for neural machine translation"). log p(source | candidate) per source token, by
forced decoding with any CTranslate2 or transformers translator: N passes of a small model per list.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Sequence

import numpy as np

from candidates.common.errors import MbrError, ModelError, UsageError
from candidates.lists import CandidateList
from mbr.decide import ReferenceWeights
from mbr.terms.base import Term, Values, joined, word_count

# The first lists show whether the model translates the right way: the probabilities of both directions are compared.
PROBED_LISTS = 8
PROBED_CANDIDATES = 4  # of each list
LEAST_PAIRS = 3  # for a verdict
LEAST_WORDS = 3  # of source and candidate; shorter texts say little
# By how much per token the wrong direction must be more probable. It is about 10 with the bundled model, for names and
# short texts between -2 and 3; so a run on other lists, or one that goes on in the middle, gets the same verdict.
MARGIN = 2.0


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
        from candidates.backends.models import guess_backend

        if not model:
            raise UsageError(
                "the term reverse needs a translation model of the other direction; give --add-model reverse=MODEL"
            )
        backend = backend or guess_backend(model)
        device = device.split(",")[0]  # of several devices for the utility, the first
        try:
            self._scorer = open_forced_scorer(
                model,
                backend=backend,
                src_lang=src_lang,
                tgt_lang=tgt_lang,
                compute_type=compute_type,
                device="cpu" if (backend, device) == ("ct2", "mps") else device,
                threads=threads or None,
                batch_tokens=batch_tokens,
            )
        except UsageError as exc:
            reason = re.sub(r"--(\w+)-(\w+)", r"\1_\2", str(exc))  # flags of mbr-generate are options here
            raise UsageError(
                f"the term reverse: {reason}; options of the term are given as --add reverse=WEIGHT,src_lang=CODE,"
                "tgt_lang=CODE, where src_lang is the language of the candidates and tgt_lang that of the sources"
            ) from exc
        self._probed: list[tuple[float, float]] | None = []  # None once the direction fits

    def settings(self) -> dict[str, object]:
        return self._scorer.described()

    def values(self, lists: Sequence[CandidateList], references: ReferenceWeights) -> list[Values | MbrError]:
        if not lists:
            return []
        if self._probed is not None:
            self._check_direction(lists, self._probed)
        rows = [(item.source, text) for item in lists for text in item.texts]
        return list(np.split(self._scores(rows), np.cumsum([len(item) for item in lists])[:-1]))

    def in_portions(
        self, item: CandidateList, references: ReferenceWeights, most: int
    ) -> Generator[int, None, Values | MbrError]:
        if self._probed is not None:
            self._check_direction([item], self._probed)
            yield 0
        rows = [(item.source, text) for text in item.texts]
        scores = np.empty(len(rows))
        for places in joined(self._scorer.batches([(text, source) for source, text in rows]), most):
            scores[places] = self._scores([rows[place] for place in places])
            yield len(places)
        return scores

    def passes(self, size: int) -> int:
        return size

    def close(self) -> None:
        self._scorer.close()

    def _scores(self, rows: Sequence[tuple[str, ...]]) -> Values:
        """Of (source, candidate) rows, those in memory not computed again."""
        scores = self._score(rows) if self.memory is None else self.memory.score(rows, self._score)
        return np.asarray(scores, np.float64)

    def _score(self, rows: Sequence[tuple[str, ...]]) -> Values:
        return self._scorer.score([(text, source) for source, text in rows])

    def _check_direction(self, lists: Sequence[CandidateList], probed: list[tuple[float, float]]) -> None:
        """Raise ModelError where the model clearly translates sources into candidates.

        A model passes once, as soon as there are a few pairs that tell the directions apart; one that was refused is
        refused again.
        """
        telling = [pairs for item in lists if (pairs := _telling_pairs(item))][:PROBED_LISTS]
        pairs = [pair for of_list in telling for pair in of_list]
        back, forth = self._scores(pairs), self._scores([(text, source) for source, text in pairs])
        probed.extend(zip(back.tolist(), forth.tolist(), strict=True))
        if len(probed) < LEAST_PAIRS:
            return
        mean_back, mean_forth = np.mean(probed, axis=0)
        if mean_forth > mean_back + MARGIN:
            raise ModelError(
                f"the direction of {self._scorer.name} does not fit the term reverse: it translates the sources into "
                f"the candidates (log-probability per token {mean_forth:.2f}) rather than back ({mean_back:.2f}); give "
                "a model of the other direction (--add-model reverse=MODEL)"
            )
        self._probed = None


def _telling_pairs(item: CandidateList) -> list[tuple[str, str]]:
    """The first (source, candidate) pairs of a list that tell the directions apart: long enough, and no copies."""
    words = set(item.source.split())
    return [
        (item.source, text)
        for text in item.texts[:PROBED_CANDIDATES]
        if min(word_count(item.source), word_count(text)) >= LEAST_WORDS
        and 2 * len(words & set(text.split())) < len(words | set(text.split()))
    ]
