"""BLEU, chrF, chrF++ and TER through sacrebleu: its statistics, its scores, its signatures.

The score of a system and of a segment is the float that sacrebleu itself returns. Thousands of resamples would be slow
that way, so they go through the same formulas written for arrays; a test checks that the two agree.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Any

import numpy as np

from candidates.common.errors import EnvironmentProblem, UsageError
from mbr.evaluate.base import Floats, Judge, Judged, Row
from mbr.utilities.ngrams import word_ids
from mbr.utilities.ter import edit_counts

ORDER = 4  # of BLEU
BETA = 2  # of chrF
WIDE = 0.3  # share of Han and kana from which a text counts as Chinese or Japanese


class LexicalJudge(Judge):
    """`metric` scores systems, `sentence_metric` single segments, `formula` summed statistics [draws, k]."""

    def __init__(
        self, metric: Any, sentence_metric: Any, formula: Callable[[Floats], Floats], columns: int, references: int
    ) -> None:
        self._metric, self._sentence_metric, self._formula = metric, sentence_metric, formula
        self.columns = columns
        metric.num_refs = references
        name = metric._compute_score_from_stats([0] * columns).name
        self.identity = f"{name}|{metric.get_signature()}"

    def rows(
        self, sources: Sequence[str] | None, outputs: Sequence[str], references: Sequence[Sequence[str]]
    ) -> list[Row]:
        return list(zip(outputs, *references, strict=True))

    def judge(self, rows: Sequence[Row]) -> Judged:
        """Statistics of the rows. References are prepared once where consecutive rows share them."""
        prepare = self._metric._preprocess_segment
        statistics = np.empty((len(rows), self.columns))
        last: Row | None = None
        prepared: Any = None
        for index, (output, *references) in enumerate(rows):
            if tuple(references) != last:
                last = tuple(references)
                prepared = self._metric._extract_reference_info([prepare(reference) for reference in references])
            statistics[index] = self._metric._compute_segment_statistics(prepare(output), prepared)
        return Judged(statistics, np.zeros(len(rows), np.bool_))

    def scores(self, sums: Floats) -> Floats:
        return self._formula(sums)

    def system_score(self, statistics: Floats) -> float:
        return float(self._metric._aggregate_and_compute(statistics.tolist()).score)

    def segment_scores(self, statistics: Floats) -> Floats:
        score = self._sentence_metric._compute_score_from_stats
        return np.array([score(row).score for row in statistics.tolist()])


class TerJudge(LexicalJudge):
    """TER with the edit counts of our own utility: the same numbers as sacrebleu's, a hundred times as fast."""

    def judge(self, rows: Sequence[Row]) -> Judged:
        prepare = self._metric._preprocess_segment
        statistics = np.empty((len(rows), self.columns))
        begin = 0
        for references, group in groupby(rows, key=lambda row: row[1:]):
            outputs = [row[0] for row in group]
            words = word_ids([prepare(text).split() for text in (*outputs, *references)])
            edits = edit_counts(words[: len(outputs)], words[len(outputs) :])  # [outputs, references]
            lengths = np.array([len(sequence) for sequence in words[len(outputs) :]])
            end = begin + len(outputs)
            statistics[begin:end, 0] = edits.min(axis=1)  # of the nearest reference
            statistics[begin:end, 1] = lengths.mean()  # of all references
            begin = end
        return Judged(statistics, np.zeros(len(rows), np.bool_))


def open_lexical(name: str, *, references: int, tokenize: str = "13a") -> LexicalJudge:
    """The judge of this name, for this number of references."""
    from sacrebleu.metrics import CHRF, TER

    if name == "bleu":
        metric, sentence_metric = (_bleu(tokenize, effective_order=effective) for effective in (False, True))
        return LexicalJudge(metric, sentence_metric, bleu_scores, 2 + 2 * ORDER, references)
    if name == "ter":
        return TerJudge(TER(), TER(), ter_scores, 2, references)
    words = {"chrf": 0, "chrf++": 2}[name]
    return LexicalJudge(CHRF(word_order=words), CHRF(word_order=words), chrf_scores, 3 * (6 + words), references)


def bleu_scores(sums: Floats) -> Floats:
    """BLEU [draws] of [lengths, reference lengths, matches by order, n-grams by order]; exp smoothing."""
    length, expected = sums[:, 0], sums[:, 1]
    matches, totals = sums[:, 2 : 2 + ORDER], sums[:, 2 + ORDER :]
    missed = (matches == 0) & (totals > 0)
    # The first order without a match counts half a match, the next a quarter, and so on (mteval-v13a).
    numerator = np.where(missed, 0.5 ** np.cumsum(missed, axis=1), matches)
    defined = np.asarray((totals > 0).all(axis=1) & (matches > 0).any(axis=1))
    precision = np.where(defined[:, None], 100 * numerator / np.maximum(totals, 1), 1)
    brevity = np.where(length < expected, 1 - expected / np.maximum(length, 1), 0)
    return np.where(defined, np.exp(brevity + np.log(precision).mean(axis=1)), 0)


def chrf_scores(sums: Floats) -> Floats:
    """chrF [draws] of [n-grams of the output, of the reference, matches] for each order."""
    present, expected, matches = (sums[:, part::3] for part in range(3))
    both = (present > 0) & (expected > 0)
    orders = np.maximum(both.sum(axis=1), 1)
    precision = np.where(both, matches / np.maximum(present, 1), 0).sum(axis=1) / orders
    recall = np.where(both, matches / np.maximum(expected, 1), 0).sum(axis=1) / orders
    weighted = BETA**2 * precision + recall
    return np.asarray(100 * (1 + BETA**2) * precision * recall / np.where(weighted > 0, weighted, 1))


def ter_scores(sums: Floats) -> Floats:
    """TER [draws] of [edits, reference lengths]."""
    edits, length = sums.T
    return np.asarray(100 * np.where(length > 0, edits / np.where(length > 0, length, 1), edits > 0))


def unspaced(texts: Sequence[str]) -> tuple[str, str] | None:
    """Language and BLEU tokenizer of texts without spaces between words (Chinese, Japanese), else None."""
    sample = "".join(texts[:200])
    kana = sum("\u3040" <= c <= "\u30ff" for c in sample)
    han = sum("\u3400" <= c <= "\u9fff" for c in sample)
    if kana + han < WIDE * max(len(sample), 1):
        return None
    return ("Japanese", "ja-mecab") if kana > 0.1 * han else ("Chinese", "zh")


def _bleu(tokenize: str, *, effective_order: bool) -> Any:
    from sacrebleu.metrics import BLEU

    if tokenize not in BLEU.TOKENIZERS:
        raise UsageError(f"tokenizer {tokenize!r} is unknown; sacrebleu has {', '.join(BLEU.TOKENIZERS)}")
    try:
        return BLEU(tokenize=tokenize, effective_order=effective_order)
    except Exception as exc:  # some of sacrebleu's tokenizers need libraries and downloads
        raise EnvironmentProblem(f"sacrebleu's tokenizer {tokenize!r} cannot be used here: {exc}") from exc
