"""TER: translation edit rate (Snover et al. 2006), with sacrebleu's definition and defaults.

Words inserted, deleted, replaced and spans shifted, per hundred reference words; case is ignored, punctuation counts,
words end at white space. Shifts are found greedily: of all that are tried, the one after which the edit distance is
least is made, until none makes it less. Lower is better for TER, higher for utilities: the utility is minus TER, 0 or
below.

All pairs of a list go through the rounds of this search together. A pair is done when its edit distance is that of
the bags of words, which no shift changes; in most lists, most pairs are done before the first round.

    >>> Ter().matrix("", ["the cat sat"], ["The cat sat", "sat the cat"])
    array([[  0.      , -33.333332]], dtype=float32)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mbr.matrix import row_blocks
from mbr.utilities.base import MatrixUtility
from mbr.utilities.edits import (
    Alignment,
    BeamRows,
    BitRows,
    Bits,
    Bools,
    Ints,
    Rows,
    Words,
    distances,
    inside_beam,
    path_inside_beam,
    positions,
)
from mbr.utilities.ngrams import PairMatches, clipped_matches, stacked, word_ids
from mbr.utilities.shifts import find_shifts

# Cells of edit-distance tables that are filled at once; each takes some bytes.
BLOCK_CELLS = 2_000_000


class Ter(MatrixUtility):
    """Minus sentence TER, as sacrebleu's `TER().sentence_score`: 0 for equal words, -100 for none right."""

    name = "ter"
    summary = "minus translation edit rate, as sacrebleu's TER"
    traits = ("lexical",)
    family = "lexical"

    def matrix(self, source: str, hypotheses: Sequence[str], references: Sequence[str]) -> NDArray[np.float32]:
        sequences = word_ids([text.lower().split() for text in stacked(hypotheses, references)])
        ours, theirs = sequences[: len(hypotheses)], sequences[-len(references) :]
        columns = np.array([len(words) for words in theirs])
        result = np.empty((len(ours), len(theirs)), np.float32)
        for rows in row_blocks(*result.shape):
            edits = edit_counts(ours[rows], theirs)
            # Against an empty reference, any word is an error rate of 1.
            result[rows] = 0 - 100 * np.where(columns > 0, edits / np.maximum(columns, 1), edits > 0)
        return result


def edit_counts(hypotheses: Sequence[Ints], references: Sequence[Ints]) -> Ints:
    """Edits, shifts among them [hypotheses, references], between sequences of word numbers."""
    rows = np.array([len(words) for words in hypotheses], np.int64)
    columns = np.array([len(words) for words in references], np.int64)
    every = slice(0, len(hypotheses)), slice(0, len(references))
    (bags,) = PairMatches([*hypotheses, *references], len(hypotheses), 1).statistics(*every)
    bound = np.maximum(rows[:, None], columns) - bags.matches.astype(np.int64)
    order = np.argsort(-rows, kind="stable")
    ours, theirs = _filled([hypotheses[i] for i in order], -1), _filled(references, -2)
    result = np.empty(bound.shape, np.int64)
    width = max(2 * BLOCK_CELLS // max(ours.size, 1), 1)
    for left in range(0, len(references), width):
        block = slice(left, left + width)
        count = len(columns[block])
        grid = np.repeat(np.arange(len(rows)), count), np.tile(np.arange(count), len(rows))
        edits = _Block(ours, theirs[block], *grid, rows[order], columns[block]).edits(bound[order, block].ravel())
        result[order, block] = edits.reshape(len(rows), -1)
    return result


def paired_edit_counts(hypotheses: Sequence[Ints], references: Sequence[Ints], numbers: Ints) -> Ints:
    """Edits [hypotheses] between each hypothesis and the reference of its number, as `edit_counts` has them.

    Tables grow with the largest word number, so words are best numbered for each reference and its hypotheses.
    """
    rows = np.array([len(words) for words in hypotheses], np.int64)
    columns = np.array([len(words) for words in references], np.int64)
    groups = np.concatenate([numbers, np.arange(len(references))])
    slots = np.repeat([-1, 0], [len(hypotheses), len(references)])
    bags = clipped_matches([*hypotheses, *references], groups, slots, 1)[:, 0, 0].astype(np.int64)
    bound = np.maximum(rows, columns[numbers]) - bags
    result = np.empty(len(rows), np.int64)
    order = np.argsort(-rows, kind="stable")
    while len(order):
        # Neighbours have about the same length, so that arrays are hardly longer than their texts.
        width = np.maximum.accumulate(columns[numbers[order]])
        cells = width * rows[order[0]] * np.arange(1, len(order) + 1)
        some = order[: max(int(np.searchsorted(cells, BLOCK_CELLS, side="right")), 1)]
        order = order[len(some) :]
        used, reference = np.unique(numbers[some], return_inverse=True)
        ours, theirs = _filled([hypotheses[i] for i in some], -1), _filled([references[i] for i in used], -2)
        block = _Block(ours, theirs, np.arange(len(some)), reference, rows[some], columns[used])
        result[some] = block.edits(bound[some])
    return result


class _State(NamedTuple):
    """Pairs whose search goes on. Arrays [pairs, ...]."""

    pair: Ints
    words: Words  # [pairs, rows] of the hypothesis as shifted so far
    bound: Ints  # what no shift can get the distance below
    shifts: Ints
    tried: Ints

    def some(self, which: slice | Bools) -> _State:
        return _State(self.pair[which], self.words[which], self.bound[which], self.shifts[which], self.tried[which])


class _Block:
    """Pairs of hypotheses [hypotheses, rows], by falling number of rows, and references [references, columns].

    `hypothesis` and `reference` [pairs] are their numbers, `rows` and `columns` the lengths of the texts.
    """

    def __init__(
        self, hypotheses: Words, references: Words, hypothesis: Ints, reference: Ints, rows: Ints, columns: Ints
    ) -> None:
        self._hypotheses, self._references = hypotheses, references
        self._hypothesis, self._reference = hypothesis, reference
        self._rows, self._columns = rows[hypothesis], columns[reference]
        self._positions = positions(references, 1 + max(hypotheses.max(initial=-1), references.max(initial=-1)))
        self._together = max(BLOCK_CELLS // max(hypotheses.shape[1] * references.shape[1], 1), 1)

    def edits(self, bound: Ints) -> Ints:
        """Edits [pairs]; `bound` [pairs] is what no shift can get an edit distance below."""
        edits = np.empty(len(self._rows), np.int64)
        for left in range(0, len(edits), self._together):
            pair = np.arange(left, min(left + self._together, len(edits)))
            equal = self._equal(pair, self._hypotheses[self._hypothesis[pair]])
            edits[pair] = distances(equal, self._rows[pair], self._columns[pair])
        inside = inside_beam(edits, self._rows, self._columns)
        pair = np.flatnonzero(inside & (edits > bound))
        self._search(pair, bound[pair], self._bit_rows, edits)
        # Where a path might leave the beam, all alignments are checked: no bound ends the search.
        pair = np.flatnonzero(~inside)
        outside = self._search(pair, np.full(len(pair), -1), self._bit_rows, edits)
        pair = np.flatnonzero(outside)
        self._search(pair, bound[pair], self._beam_rows, edits)
        return edits

    def _search(self, pair: Ints, bound: Ints, fill: Callable[[Ints, Words], Rows], edits: Ints) -> Bools:
        """Write the edits of these pairs into `edits`; returns which pairs had an alignment that left the beam."""
        outside = np.zeros(len(self._rows), np.bool_)
        none = np.zeros(len(pair), np.int64)
        state = _State(pair, self._hypotheses[self._hypothesis[pair]], bound, none, none)
        while len(state.pair):
            after = []
            for left in range(0, len(state.pair), self._together):
                now = state.some(slice(left, left + self._together))
                filled = fill(now.pair, now.words)
                alignment = filled.alignment()
                rows, columns = self._rows[now.pair], self._columns[now.pair]
                outside[now.pair] |= ~path_inside_beam(alignment.target, rows, columns)
                edits[now.pair] = now.shifts + filled.distance
                now, distance = _round(now, self._references[self._reference[now.pair]], rows, filled, alignment)
                edits[now.pair] = now.shifts + distance
                after.append(now.some(distance > now.bound))
            state = _State(*(np.concatenate(values) for values in zip(*after, strict=True)))
        return outside

    def _bit_rows(self, pair: Ints, words: Words) -> Rows:
        return BitRows(self._equal(pair, words), self._rows[pair], self._columns[pair])

    def _beam_rows(self, pair: Ints, words: Words) -> Rows:
        return BeamRows(words, self._references[self._reference[pair]], self._rows[pair], self._columns[pair])

    def _equal(self, pair: Ints, words: Words) -> Bits:
        """Where each hypothesis word is in the reference of its pair [rows, parts, pairs]."""
        _, parts, count = self._positions.shape
        cell = (words.T[:, None] * parts + np.arange(parts)[:, None]) * count + self._reference[pair]
        return np.asarray(self._positions.ravel()[cell])


def _round(state: _State, references: Words, rows: Ints, filled: Rows, alignment: Alignment) -> tuple[_State, Ints]:
    """Make the best shift of each pair: those for which one helps, and their new distances."""
    shifts, tried = find_shifts(state.words, references, alignment, state.tried)
    gain = filled.distance[shifts.pair] - filled.swapped(shifts.swaps(rows))
    shifts, gain = shifts.some(gain > 0), gain[gain > 0]
    best = shifts.best(gain)
    swaps = shifts.some(best).swaps(rows)
    pair = swaps.pair
    origin = swaps.origin(np.arange(state.words.shape[1])[:, None]).T
    words = np.take_along_axis(state.words[pair], origin, axis=1)
    after = _State(state.pair[pair], words, state.bound[pair], state.shifts[pair] + 1, tried[pair])
    return after, filled.distance[pair] - gain[best]


def _filled(texts: Sequence[Ints], value: int) -> Words:
    """Texts of different length as one array [texts, longest]."""
    result = np.full((len(texts), max(map(len, texts), default=0)), value, np.int32)
    for row, text in zip(result, texts, strict=True):
        row[: len(text)] = text
    return result
