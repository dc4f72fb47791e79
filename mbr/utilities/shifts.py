"""Shifts: the moves of word spans that a translation edit rate may count as one edit (Snover et al. 2006).

From hypotheses aligned with their references, all shifts that sacrebleu would try, with its limits: a span of at most
ten words that the reference has too, not more than fifty words away, wrong in part on both sides, and moved to where
one of its reference words or the word before is aligned.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mbr.utilities.edits import Alignment, Bools, Ints, Swaps, Words

LONGEST = 10
FARTHEST = 50
# sacrebleu ends the search in the round in which it has tried this many shifts, and makes none of them.
MOST_TRIED = 1000


class Shifts(NamedTuple):
    """Shifts to try, each of `length` words from `start` to before `target`. Arrays [shifts]."""

    pair: Ints
    length: Ints
    start: Ints
    target: Ints

    def some(self, which: Ints | Bools) -> Shifts:
        return Shifts(*(values[which] for values in self))

    def swaps(self, rows: Ints) -> Swaps:
        """The same moves as two neighbouring spans that swap; a target inside the span counts from its end."""
        pair, length, start, target = self
        end = start + length
        back = target < start
        last = np.where(target > end, target, np.minimum(target + length, rows[pair]))
        return Swaps(pair, np.where(back, target, start), np.where(back, start, end), np.where(back, end, last))

    def best(self, gain: Ints) -> Ints:
        """Which shift is the best of its pair: most gain, then longest, then earliest, then least target."""
        order = np.lexsort((-self.target, -self.start, self.length, gain, self.pair))
        last = np.ones(len(order), np.bool_)
        last[:-1] = self.pair[order[1:]] != self.pair[order[:-1]]
        return order[last]


def find_shifts(hypotheses: Words, references: Words, alignment: Alignment, tried: Ints) -> tuple[Shifts, Ints]:
    """The shifts to try for pairs of words [pairs, rows] and [pairs, columns], ended by different negatives.

    `tried` [pairs] is the number of shifts tried in earlier rounds; it is returned with those of this round. Pairs with
    too many have no shifts. Where the reference has a span twice, a shift may come twice, and counts twice.
    """
    target, hypothesis_right, reference_right = alignment
    hypotheses, references = hypotheses[:, : hypothesis_right.shape[1]], references[:, : reference_right.shape[1]]
    # How many right words come before the next wrong one: a span must be longer than that to hold an error.
    before_wrong_h = _before_wrong(hypothesis_right, hypotheses >= 0)
    before_wrong_r = _before_wrong(reference_right, references >= 0)
    wanted_h = np.where(before_wrong_h < LONGEST, hypotheses, -1)
    wanted_r = np.where(before_wrong_r < LONGEST, references, -2)
    same = wanted_h[:, :, None] == wanted_r[:, None, :]
    pair, start, place = np.unravel_index(np.flatnonzero(same), same.shape)
    near = abs(start - place) <= FARTHEST
    pair, start, place = pair[near], start[near], place[near]

    shortest = 1 + np.maximum(before_wrong_h[pair, start], before_wrong_r[pair, place])
    longest = _common(hypotheses, references, pair, start, place)
    # The span must not hold the word that is aligned with its first word's place.
    aligned = target[pair, place + 1] - 1
    longest = np.where(aligned >= start, np.minimum(longest, aligned - start), longest)
    many = np.maximum(longest - shortest + 1, 0)
    # Each span has a target at least: pairs with too many spans need not be written out.
    at_least = tried + np.bincount(pair, many, len(tried)).astype(np.int64)
    many[at_least[pair] >= MOST_TRIED] = 0
    pair, start, place, shortest = (np.repeat(values, many) for values in (pair, start, place, shortest))
    length = shortest + _counting(many)

    # Targets are before the place of the first word and after that of each word; equal ones are neighbours.
    many = length + 1
    offset = _counting(many)
    pair, start, place, length = (np.repeat(values, many) for values in (pair, start, place, length))
    where = target[pair, place + offset]
    new = (offset == 0) | (where != target[pair, np.maximum(place + offset - 1, 0)])
    shifts = Shifts(pair[new], length[new], start[new], where[new])
    tried = np.maximum(at_least, tried + np.bincount(shifts.pair, minlength=len(tried)))
    return shifts.some(tried[shifts.pair] < MOST_TRIED), tried


def _before_wrong(right: Bools, inside: Bools) -> Ints:
    """For each position [pairs, positions], how many right words come before the next wrong one."""
    along = np.arange(right.shape[1])
    wrong_at = np.where(inside & ~right, along, right.shape[1] + LONGEST)
    return np.asarray(np.minimum.accumulate(wrong_at[:, ::-1], axis=1)[:, ::-1] - along)


def _common(hypotheses: Words, references: Words, pair: Ints, start: Ints, place: Ints) -> Ints:
    """How many words from start and place on are the same, counted up to the longest span."""
    length = np.ones(len(pair), np.int64)
    going = np.arange(len(pair))
    rows, columns = hypotheses.shape[1], references.shape[1]
    for more in range(1, LONGEST):
        h, r = start[going] + more, place[going] + more
        inside = (h < rows) & (r < columns)
        going, h, r = going[inside], h[inside], r[inside]
        going = going[hypotheses[pair[going], h] == references[pair[going], r]]
        length[going] += 1
    return length


def _counting(many: Ints) -> Ints:
    """0, 1, ... for each of `many` repeats."""
    return np.asarray(np.arange(many.sum()) - np.repeat(np.cumsum(many) - many, many))
