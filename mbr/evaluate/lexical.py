"""BLEU, chrF, chrF++ and TER through sacrebleu: its tokenizers, its statistics, its scores, its signatures.

The score of a system and of a segment is the float that sacrebleu itself returns for its statistics. These are counted
here with arrays, many texts at once, and thousands of resamples go through the same formulas written for arrays; tests
check both against sacrebleu.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from candidates.common.errors import EnvironmentProblem, UsageError
from mbr.evaluate.base import Floats, Judge, Judged, Row
from mbr.utilities.chrf import split_words
from mbr.utilities.ngrams import character_ids, clipped_matches, word_ids
from mbr.utilities.ter import paired_edit_counts

ORDER = 4  # of BLEU
BETA = 2  # of chrF
BLOCK_CHARACTERS = 200_000  # whose n-grams are counted at once
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
        """Statistics of the rows, as sacrebleu counts them. Consecutive rows that share their references are one
        segment, and the texts of many segments are counted at once."""
        statistics = np.empty((len(rows), self.columns))
        begin = 0
        for segments in _blocks([list(group) for _, group in groupby(rows, key=lambda row: row[1:])]):
            values = self._count(Segments.of(segments))
            statistics[begin : begin + len(values)] = values
            begin += len(values)
        return Judged(statistics, np.zeros(len(rows), np.bool_))

    @abstractmethod
    def _count(self, segments: Segments) -> Floats:
        """Statistics [outputs, k] of the outputs of some segments."""

    def scores(self, sums: Floats) -> Floats:
        return self._formula(sums)

    def system_score(self, statistics: Floats) -> float:
        return float(self._metric._aggregate_and_compute(statistics.tolist()).score)

    def segment_scores(self, statistics: Floats) -> Floats:
        score = self._sentence_metric._compute_score_from_stats
        return np.array([score(row).score for row in statistics.tolist()])


class BleuJudge(LexicalJudge):
    """BLEU. An n-gram counts as often as in the reference that has it most often, and the closest length counts."""

    def _count(self, segments: Segments) -> Floats:
        words = word_ids([self._metric._preprocess_segment(text).split() for text in segments.texts])
        lengths = np.array([len(sequence) for sequence in words])
        matches = clipped_matches(words, segments.groups, segments.slots, ORDER, merged=True)[:, 0]  # [outputs, ORDER]
        own = lengths[segments.slots < 0]
        expected = lengths[segments.references]  # [outputs, references]
        # Of two that are equally close the shorter one.
        closest = np.lexsort((expected, np.abs(expected - own[:, None])), axis=1)[:, :1]
        totals = np.maximum(own[:, None] - np.arange(ORDER), 0)
        return np.column_stack([own, np.take_along_axis(expected, closest, axis=1), matches, totals])


class ChrfJudge(LexicalJudge):
    """chrF and chrF++. The reference with the best score counts, of equal ones the first."""

    def _count(self, segments: Segments) -> Floats:
        kinds = [(character_ids(segments.texts), self._metric.char_order)]
        if self._metric.word_order:
            kinds.append((word_ids([split_words(text) for text in segments.texts]), self._metric.word_order))
        orders = []  # [outputs, references, 3] of each
        for sequences, highest in kinds:
            lengths = np.array([len(sequence) for sequence in sequences])
            matches = clipped_matches(sequences, segments.groups, segments.slots, highest)
            for order in range(highest):
                counts = np.maximum(lengths - order, 0)
                expected = counts[segments.references]
                # Without n-grams in the reference, those of the output do not count either.
                present = np.where(expected > 0, counts[segments.slots < 0][:, None], 0)
                orders.append(np.stack([present, expected, matches[:, :, order]], axis=2))
        of_references = np.concatenate(orders, axis=2)  # [outputs, references, 3 * orders]
        if of_references.shape[1] == 1:
            return np.asarray(of_references[:, 0])
        score = self._metric._compute_f_score
        best = [int(np.argmax([score(values) for values in each])) for each in of_references.tolist()]
        return np.asarray(of_references[np.arange(len(best)), best])


class TerJudge(LexicalJudge):
    """TER with the edit counts of our own utility: the same numbers as sacrebleu's, a hundred times as fast."""

    def _count(self, segments: Segments) -> Floats:
        texts = [self._metric._preprocess_segment(text).split() for text in segments.texts]
        starts = np.flatnonzero(np.diff(segments.groups, prepend=-1, append=-1)).tolist()
        words = [ids for start, end in pairwise(starts) for ids in word_ids(texts[start:end])]
        own, theirs = np.flatnonzero(segments.slots < 0), np.flatnonzero(segments.slots >= 0)
        count = segments.references.shape[1]
        numbers = np.searchsorted(theirs, segments.references)  # [outputs, references]
        outputs = [words[place] for place in own for _ in range(count)]
        edits = paired_edit_counts(outputs, [words[place] for place in theirs], numbers.ravel())
        lengths = np.array([len(sequence) for sequence in words])[segments.references]
        # Edits of the nearest reference, length of all.
        return np.column_stack([edits.reshape(-1, count).min(axis=1), lengths.mean(axis=1)])


@dataclass(frozen=True)
class Segments:
    """The texts of some segments, of each its outputs and then its references.

    Of each text, `groups` has the segment and `slots` which reference it is, -1 for outputs; of each output,
    `references` [outputs, references] has the places of its references among the texts.
    """

    texts: list[str]
    groups: NDArray[np.int64]
    slots: NDArray[np.int64]
    references: NDArray[np.int64]

    @classmethod
    def of(cls, segments: Sequence[Sequence[Row]]) -> Segments:
        """Of rows (output, reference, ...), those of each segment together."""
        texts: list[str] = []
        groups, slots, places = [], [], []
        for group, rows in enumerate(segments):
            count = len(rows[0]) - 1
            first = len(texts) + len(rows)
            texts += [row[0] for row in rows] + list(rows[0][1:])
            groups += [group] * (len(rows) + count)
            slots += [-1] * len(rows) + list(range(count))
            places += [list(range(first, first + count))] * len(rows)
        return cls(texts, *(np.array(values, np.int64) for values in (groups, slots, places)))


def _blocks(segments: Sequence[list[Row]]) -> Iterator[list[list[Row]]]:
    """Segments of about this number of characters together, so that memory is bounded."""
    block: list[list[Row]] = []
    used = 0
    for rows in segments:
        block.append(rows)
        used += sum(len(row[0]) for row in rows) + sum(map(len, rows[0][1:]))
        if used >= BLOCK_CHARACTERS:
            yield block
            block, used = [], 0
    if block:
        yield block


def open_lexical(name: str, *, references: int, tokenize: str = "13a") -> LexicalJudge:
    """The judge of this name, for this number of references."""
    from sacrebleu.metrics import CHRF, TER

    if name == "bleu":
        metric, sentence_metric = (_bleu(tokenize, effective_order=effective) for effective in (False, True))
        return BleuJudge(metric, sentence_metric, bleu_scores, 2 + 2 * ORDER, references)
    if name == "ter":
        return TerJudge(TER(), TER(), ter_scores, 2, references)
    words = {"chrf": 0, "chrf++": 2}[name]
    return ChrfJudge(CHRF(word_order=words), CHRF(word_order=words), chrf_scores, 3 * (6 + words), references)


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
