"""Edit distances of many pairs of word sequences at once, with the alignments they come from.

The table of a pair has a row per hypothesis word and a column per reference word; sacrebleu fills it inside a beam
around the diagonal. `BitRows` holds a row in the bits of integers, one bit for each step between neighbours (Myers
1999, Hyyrö 2003), so that a handful of operations fills the same row of thousands of tables: O(n * m / 64) per pair. It
has no beam, and is right where its paths do not leave sacrebleu's (`inside_beam`, `path_inside_beam`). `BeamRows`
follows the beam exactly, pair by pair, and is right everywhere.

Both compute what a shift search needs: distances, alignments, and distances after two neighbouring spans of the
hypothesis have been swapped.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Words = NDArray[np.int32]
Bits = NDArray[np.uint64]
Bools = NDArray[np.bool_]

BEAM = 25
# Tables that are filled together: their rows should stay in the processor's cache.
TOGETHER = 4096
UNREACHED = 1 << 29
WORD = 64


class Alignment(NamedTuple):
    """How hypotheses are aligned with their references by the cheapest edits; cells beyond a text's end are undefined.

    Of equally cheap edits, the last is to keep or replace a word, else to delete one, else to insert one.
    """

    target: Ints  # [pairs, columns + 1]: hypothesis words up to the one aligned with the reference word before
    hypothesis_right: Bools  # [pairs, rows]: the word stays as it is
    reference_right: Bools  # [pairs, columns]


class Swaps(NamedTuple):
    """Hypotheses with two neighbouring spans swapped, first:middle and middle:last. Arrays [swaps]."""

    pair: Ints
    first: Ints
    middle: Ints
    last: Ints

    def some(self, which: slice | Ints) -> Swaps:
        return Swaps(*(values[which] for values in self))

    def origin(self, position: Ints) -> Ints:
        """Where the words at these positions [..., swaps] were before the swap."""
        forward, back = self.middle - self.first, self.last - self.middle
        moved = np.where(position < self.first + back, position + forward, position - back)
        return np.where((position < self.first) | (position >= self.last), position, moved)


class Rows(Protocol):
    """Filled tables of some pairs."""

    distance: Ints  # [pairs]

    def alignment(self) -> Alignment: ...

    def swapped(self, swaps: Swaps) -> Ints:
        """Edit distances [swaps] of hypotheses with two spans swapped."""
        ...


def inside_beam(distance: Ints, rows: Ints, columns: Ints) -> Bools:
    """Whether the beam holds every path with this number of edits, so that it changes nothing.

    A path with d edits stays within (d + |rows - columns|) / 2 of the diagonals through both corners, and the beam's
    middle runs between these.
    """
    return (columns < BEAM) | (distance + abs(rows - columns) < 2 * BEAM - 2)


def path_inside_beam(target: Ints, rows: Ints, columns: Ints) -> Bools:
    """Whether the beam holds the path of an alignment made without it; then it is the alignment inside the beam too.

    Cells of the path cost the same inside the beam, and a path that the beam makes more expensive was not chosen before
    either.
    """
    column = np.arange(target.shape[1])
    ratio = columns / np.maximum(rows, 1)
    beam = np.where(ratio / 2 > BEAM, np.ceil(ratio / 2 + BEAM), BEAM)[:, None]
    # The path runs through a column from its lowest row up to the target of the column, and row 0 has no beam.
    lowest = np.where(column < columns[:, None], np.roll(target, -1, axis=1), rows[:, None])
    left = np.floor(lowest * ratio[:, None]) - beam
    right = np.floor(target * ratio[:, None]) + beam
    open_ended = (target == 0) | (target == rows[:, None])
    held = ((column >= left) | (lowest == 0)) & ((column < right) | open_ended)
    return np.asarray((held | (column > columns[:, None])).all(axis=1))


def positions(references: Words, vocabulary: int) -> Bits:
    """Where each word is in each reference [words + 1, parts, references]: a bit per position, 64 to a part.

    The row after those of all words is for the -1 that fills up hypotheses: it is nowhere.
    """
    count, columns = references.shape
    table = np.zeros((vocabulary + 1, max(-(-columns // WORD), 1), count), np.uint64)
    for column in range(columns):
        here = np.flatnonzero(references[:, column] >= 0)
        table[references[here, column], column // WORD, here] |= np.uint64(1 << column % WORD)
    return table


def distances(equal: Bits, rows: Ints, columns: Ints) -> Ints:
    """Edit distances [pairs] without a beam; `equal` and the order of pairs are those of `BitRows`."""
    result = np.empty(len(rows), np.int64)
    for some in _together(len(rows)):
        vp, vn = _first_row(equal.shape[1], some)
        for row, count in enumerate(_still_open(rows[some])):
            _advance(equal[row, :, some.start : some.start + count], vp[:, :count], vn[:, :count])
        result[some] = _last_cell(vp, vn, rows[some], columns[some])
    return result


class BitRows:
    """Tables without a beam.

    `equal` [rows, parts, pairs] has a bit for each reference word that equals the hypothesis word of the row. Pairs
    come by falling number of rows, so that those still open at a row are the first ones.
    """

    def __init__(self, equal: Bits, rows: Ints, columns: Ints) -> None:
        self._equal, self._rows, self._columns = equal, rows, columns
        length, parts, pairs = equal.shape
        # Steps along a row that go up (vp) or down (vn); cells equal to their upper left neighbour (same), and cells
        # above their upper neighbour (deleted). [rows, parts, pairs]
        self._vp, self._vn = np.empty((2, length + 1, parts, pairs), np.uint64)
        self._same, self._deleted = np.empty((2, length, parts, pairs), np.uint64)
        self.distance = np.empty(pairs, np.int64)
        for some in _together(pairs):
            vp, vn = _first_row(parts, some)
            self._vp[0, :, some], self._vn[0, :, some] = vp, vn
            for row, count in enumerate(_still_open(rows[some])):
                still = slice(some.start, some.start + count)
                cells = self._same[row, :, still], self._deleted[row, :, still]
                _advance(equal[row, :, still], vp[:, :count], vn[:, :count], cells)
                self._vp[row + 1, :, still], self._vn[row + 1, :, still] = vp[:, :count], vn[:, :count]
            self.distance[some] = _last_cell(vp, vn, rows[some], columns[some])

    def alignment(self) -> Alignment:
        length, parts, pairs = self._equal.shape
        width = int(self._columns.max(initial=0))
        # One cell more at the end takes what falls before the beginning.
        target = np.zeros((pairs, width + 1), np.int64)
        hypothesis_right = np.zeros((pairs, length + 1), np.bool_)
        reference_right = np.zeros((pairs, width + 1), np.bool_)
        equal, same, deleted = self._equal.ravel(), self._same.ravel(), self._deleted.ravel()
        pair, row, column = np.arange(pairs), self._rows, self._columns
        while len(pair):
            target[pair, column] = row
            above, left = np.maximum(row - 1, 0), np.maximum(column - 1, 0)
            cell = (above * parts + left // WORD) * pairs + pair
            bit = np.uint64(1) << (left % WORD).astype(np.uint64)
            inner = (row > 0) & (column > 0)
            right = inner & ((equal[cell] & bit) != 0)
            diagonal = right | (inner & ((same[cell] & bit) == 0))
            up = ~diagonal & ((column == 0) | (inner & ((deleted[cell] & bit) != 0)))
            hypothesis_right[pair, row - 1] |= right
            reference_right[pair, column - 1] |= right
            row = row - (diagonal | up)
            column = column - ~up
            going = (row > 0) | (column > 0)
            if not going.all():
                pair, row, column = pair[going], row[going], column[going]
        target[:, 0] = 0
        return Alignment(target, hypothesis_right[:, :-1], reference_right[:, :-1])

    def swapped(self, swaps: Swaps) -> Ints:
        result = np.empty(len(swaps.pair), np.int64)
        _, parts, pairs = self._equal.shape
        equal, part = self._equal.ravel(), np.arange(parts)[:, None]
        # Rows before the first changed word are filled already.
        left = self._rows[swaps.pair] - swaps.first
        order = np.argsort(-left, kind="stable")
        for some in _together(len(order)):
            here = order[some]
            swap = swaps.some(here)
            vp, vn = self._vp[swap.first, :, swap.pair].T.copy(), self._vn[swap.first, :, swap.pair].T.copy()
            forward, back, both = swap.middle - swap.first, swap.last - swap.middle, swap.last - swap.first
            for step, count in enumerate(_still_open(left[here])):
                moved = np.where(step < both[:count], -back[:count], 0)
                moved = np.where(step < back[:count], forward[:count], moved)
                cell = ((swap.first[:count] + moved + step) * parts + part) * pairs + swap.pair[:count]
                _advance(equal[cell], vp[:, :count], vn[:, :count])
            result[here] = _last_cell(vp, vn, self._rows[swap.pair], self._columns[swap.pair])
        return result


class BeamRows:
    """Tables inside the beam, pair by pair: words [pairs, rows] and [pairs, columns]."""

    def __init__(self, hypotheses: Words, references: Words, rows: Ints, columns: Ints) -> None:
        self._rows, self._columns = rows, columns
        self._hypotheses = [words[:count] for words, count in zip(hypotheses, rows, strict=True)]
        self._references = [words[:count] for words, count in zip(references, columns, strict=True)]
        pairs = zip(self._hypotheses, self._references, strict=True)
        self._tables = [beam_table(hypothesis, reference) for hypothesis, reference in pairs]
        self.distance = np.array([table[-1, -1] for table in self._tables], np.int64)

    def alignment(self) -> Alignment:
        length, width = int(self._rows.max(initial=0)), int(self._columns.max(initial=0))
        result = Alignment(
            np.zeros((len(self._rows), width + 1), np.int64),
            np.zeros((len(self._rows), length), np.bool_),
            np.zeros((len(self._rows), width), np.bool_),
        )
        pairs = zip(self._tables, self._hypotheses, self._references, *result, strict=True)
        for table, hypothesis, reference, target, hypothesis_right, reference_right in pairs:
            row, column = len(hypothesis), len(reference)
            while column:
                target[column] = row
                right = row > 0 and bool(hypothesis[row - 1] == reference[column - 1])
                if row and table[row - 1, column - 1] + (not right) == table[row, column]:
                    row, column = row - 1, column - 1
                    hypothesis_right[row] = reference_right[column] = right
                elif row and table[row - 1, column] + 1 == table[row, column]:
                    row -= 1
                else:
                    column -= 1
        return result

    def swapped(self, swaps: Swaps) -> Ints:
        result = np.empty(len(swaps.pair), np.int64)
        for pair in np.unique(swaps.pair):
            some = np.flatnonzero(swaps.pair == pair)
            words = self._hypotheses[pair]
            along = np.arange(len(words))[:, None]
            origin = swaps.some(some).origin(along).T
            result[some] = beam_distances(words[origin], self._references[pair])
        return result


def beam_steps(hypotheses: Words, reference: Words) -> Iterator[tuple[int, NDArray[np.int32]]]:
    """The rows of the tables of hypotheses [hypotheses, rows] with one reference: first column, and cells from there.

    They are filled where sacrebleu fills them; the rest is out of reach. A row is filled at once: the cheapest way to
    arrive by insertions is a running minimum of cost minus column.
    """
    count, length = hypotheses.shape
    columns = len(reference)
    ratio = columns / length if length else 1.0
    beam = math.ceil(ratio / 2 + BEAM) if ratio / 2 > BEAM else BEAM
    along = np.arange(columns + 1, dtype=np.int32)
    words = np.concatenate([np.full(1, -3, np.int32), reference])  # of each column; nothing equals that of the first
    low, row = 0, np.tile(along, (count, 1))
    yield low, row
    for i in range(1, length + 1):
        middle = math.floor(i * ratio)
        above_low, above_high = low, low + row.shape[1]
        low = max(0, middle - beam)
        high = columns + 1 if i == length else min(columns + 1, middle + beam)
        above = np.full((count, high - low + 1), UNREACHED, np.int32)  # from the column before the first
        first, last = max(low - 1, above_low), min(high, above_high)
        above[:, first - low + 1 : last - low + 1] = row[:, first - above_low : last - above_low]
        differs = hypotheses[:, i - 1, None] != words[low:high]
        row = np.minimum(above[:, :-1] + differs, above[:, 1:] + 1)
        row -= along[low:high]
        row = np.minimum.accumulate(row, axis=1) + along[low:high]
        yield low, row


def beam_table(hypothesis: Words, reference: Words) -> NDArray[np.int32]:
    """The table of one pair [rows + 1, columns + 1]."""
    table = np.full((len(hypothesis) + 1, len(reference) + 1), UNREACHED, np.int32)
    for cells, (low, row) in zip(table, beam_steps(hypothesis[None], reference), strict=True):
        cells[low : low + row.shape[1]] = row[0]
    return table


def beam_distances(hypotheses: Words, reference: Words) -> Ints:
    """Edit distances of hypotheses of one length [hypotheses, rows] to one reference."""
    ((_, last),) = deque(beam_steps(hypotheses, reference), maxlen=1)
    return last[:, -1].astype(np.int64)


def _together(count: int) -> Iterator[slice]:
    return (slice(start, min(start + TOGETHER, count)) for start in range(0, count, TOGETHER))


def _still_open(rows: Ints) -> list[int]:
    """For each row, how many of the pairs, which come by falling number of rows, have it."""
    return np.searchsorted(-rows, -np.arange(rows.max(initial=0))).tolist()  # type: ignore[no-any-return]


def _first_row(parts: int, some: slice) -> tuple[Bits, Bits]:
    """Rows [parts, pairs] before the first word: every step goes up."""
    vp = np.full((parts, some.stop - some.start), np.iinfo(np.uint64).max, np.uint64)
    return vp, np.zeros_like(vp)


def _advance(equal: Bits, vp: Bits, vn: Bits, cells: tuple[Bits, Bits] | None = None) -> None:
    """Advance to the next row [parts, pairs], in place.

    `cells` takes which cells equal their upper left neighbour and which are one above their upper neighbour.
    """
    bit, top = np.uint64(1), np.uint64(WORD - 1)
    up: Bits | np.uint64 = bit  # the first column grows by one with each row
    down: Bits | np.uint64 = np.uint64(0)
    for part, (p, n) in enumerate(zip(vp, vn, strict=True)):
        matches = equal[part] | down
        same = matches & p
        same += p
        same ^= p
        same |= matches
        same |= n
        raised = same | p
        np.invert(raised, out=raised)
        raised |= n
        lowered = same & p
        if cells:
            cells[0][part], cells[1][part] = same, raised
        next_up, next_down = raised >> top, lowered >> top
        raised <<= bit
        raised |= up
        lowered <<= bit
        lowered |= down
        np.bitwise_and(raised, same, out=n)
        raised |= same
        np.invert(raised, out=raised)
        np.bitwise_or(lowered, raised, out=p)
        up, down = next_up, next_down


def _last_cell(vp: Bits, vn: Bits, rows: Ints, columns: Ints) -> Ints:
    """The value at the end of the row: that of the first column, and all steps."""
    part = np.arange(len(vp))[:, None]
    bits = np.clip(columns - part * WORD, 0, WORD).astype(np.uint64)
    full = np.iinfo(np.uint64).max
    mask = np.where(bits == WORD, full, (np.uint64(1) << (bits % np.uint64(WORD))) - np.uint64(1))
    return np.asarray(rows + _ones(vp & mask).sum(axis=0) - _ones(vn & mask).sum(axis=0))


def _ones(values: Bits) -> Ints:
    """The number of bits set in each."""
    # Sums of neighbouring fields of 1, 2 and 4 bits, then of all eight bytes by one product.
    values = values - ((values >> np.uint64(1)) & np.uint64(0x5555555555555555))
    values = (values & np.uint64(0x3333333333333333)) + ((values >> np.uint64(2)) & np.uint64(0x3333333333333333))
    values = (values + (values >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return ((values * np.uint64(0x0101010101010101)) >> np.uint64(56)).astype(np.int64)
