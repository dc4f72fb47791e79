"""IBM model 1 by EM: from sentence pairs to the probabilities of words given words of the other language.

Every word of one side comes from a word of the other, or from none (NULL), all places being equally probable (Brown et
al. 1993, "The mathematics of statistical machine translation"). The counts of each round are smoothed by a sparse
Dirichlet prior in the variational way (Mermer and Saraclar 2011), which keeps rare words from taking all that they are
seen with. All links of a round are one vectorised step: 136,000 pairs of everyday sentences take about 20 seconds.

    table = train([("a dog", "ein hund"), ("the dog", "der hund")])
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import digamma

from candidates.common.errors import InputError
from candidates.common.text import atomic_output, lines
from mbr.alignment.table import NONE, NULL, WordTable, encode, table_bytes
from mbr.alignment.words import words

Ints = NDArray[np.int32]
Floats = NDArray[np.float64]

ROUNDS = 6
PRIOR = 0.01  # pseudo-count of a translation; far below 1, so that few translations of a word remain
MOST_LINKS = 100_000_000  # word pairs within sentence pairs; beyond it every second, fourth... pair counts
PIECE_LINKS = 16_000_000  # of them at once
MOST_WORDS = 100  # of a sentence; longer ones are left out
LEAST_PROBABILITY = 0.003  # of an entry of the table, in one of the directions
LEAST_SHARE = 0.5  # of usable pairs in a file


class Side(NamedTuple):
    """The sentences of one language as numbers of words; number 0 is NULL."""

    words: list[str]
    numbers: Ints  # [tokens] of all sentences, one after the other
    lengths: Ints  # [sentences]

    def part(self, sentences: slice) -> Side:
        """Consecutive sentences."""
        begin = int(self.lengths[: sentences.start].sum())
        some = self.lengths[sentences]
        return Side(self.words, self.numbers[begin : begin + int(some.sum())], some)


class Pairs(NamedTuple):
    """Sentence pairs, and of how many that were read they are a part."""

    sides: tuple[Side, Side]
    read: int

    @property
    def used(self) -> int:
        return len(self.sides[0].lengths)


class Probabilities(NamedTuple):
    """p(generated word | given word) of the words that occur together."""

    condition: Ints
    generated: Ints
    values: Floats


def read_parallel(path: str | Path) -> Iterator[tuple[str, str]]:
    """The (source, target) pairs of a two-column TSV file, gzipped or not; further columns are ignored.

    Raises:
        InputError: a line without a tab, bytes that are not UTF-8, a file that cannot be read.
    """
    for number, line in lines(path):
        source, tab, rest = line.partition("\t")
        if not tab:
            raise InputError(
                f"{path}, line {number}: no tab in {line[:60]!r}; expected a source sentence and its translation with "
                "a tab between them. Join two files with `paste source.txt target.txt`."
            )
        yield source, rest.partition("\t")[0]


def train(pairs: Iterable[tuple[str, str]], header: Mapping[str, Any] | None = None) -> WordTable:
    """The table of both directions.

    Args:
        pairs: sentences of the two languages, source first.
        header: what the file records about its data, such as `languages` and `data`; the numbers of pairs are added.

    Raises:
        InputError: there is nothing to learn from.
    """
    numbered = number_words(pairs)
    source, target = numbered.sides
    of_source = _estimate(target, source)  # p(source word | target word)
    of_target = _estimate(source, target)  # p(target word | source word)
    table = _table(source, target, of_source, of_target)
    return replace(table, header={**(header or {}), "pairs": numbered.used, "of_pairs": numbered.read})


def write_table(table: WordTable, path: str | Path, *, force: bool = False) -> int:
    """Write the file of a table, whole or not at all; returns its size in bytes."""
    content = table_bytes(table)
    with atomic_output(path, force=force) as stream:
        stream.write(content)
    return len(content)


def number_words(pairs: Iterable[tuple[str, str]]) -> Pairs:
    """Words by number, streaming; memory stays bounded, since a file with too many links is thinned evenly."""
    tables: tuple[dict[str, int], dict[str, int]] = ({"": NULL}, {"": NULL})
    kept: list[tuple[Ints, Ints]] = []
    read = links = left_out = 0
    stride = 1
    for number, pair in enumerate(pairs):
        read += 1
        if number % stride:
            continue
        texts = [words(text) for text in pair]
        if not all(0 < len(text) <= MOST_WORDS for text in texts):
            left_out += 1
            continue
        first, second = (
            np.array([table.setdefault(word, len(table)) for word in text], np.int32)
            for table, text in zip(tables, texts, strict=True)
        )
        kept.append((first, second))
        links += (len(first) + 1) * (len(second) + 1)
        if links > MOST_LINKS:
            stride *= 2
            kept = kept[::2]
            links = sum((len(first) + 1) * (len(second) + 1) for first, second in kept)
    if not kept:
        raise InputError(
            f"{read} sentence pairs, none with words on both sides; expected lines of a source sentence, a tab and its "
            "translation"
        )
    if left_out * stride > read * LEAST_SHARE:
        raise InputError(
            f"{left_out * stride} of {read} sentence pairs have no word on one side or over {MOST_WORDS} on one; "
            "expected sentences with their translations. Are the columns those of sources and translations?"
        )
    return Pairs((_side(tables[0], kept, 0), _side(tables[1], kept, 1)), read)


def _side(table: Mapping[str, int], pairs: Sequence[tuple[Ints, Ints]], side: int) -> Side:
    numbers = np.concatenate([pair[side] for pair in pairs])
    return Side(list(table), numbers, np.array([len(pair[side]) for pair in pairs], np.int32))


def _estimate(condition: Side, generated: Side) -> Probabilities:
    """EM of one direction. A link joins a token of the generated side with one of the given side or NULL.

    Links are held in pieces, four bytes each; what a round needs besides is of the size of a piece.
    """
    size = len(condition.words)
    pieces = [(condition.part(some), generated.part(some)) for some in _pieces(condition, generated)]
    keys = np.empty(0, np.int64)  # [distinct links]
    for piece in pieces:
        keys = np.union1d(keys, _link_keys(*piece))
    places = [np.searchsorted(keys, _link_keys(*piece)).astype(np.int32) for piece in pieces]  # [links] each
    blocks = [np.repeat(g.lengths + 1, other.lengths) for g, other in pieces]  # links of each generated token
    of_condition = (keys % size).astype(np.int32)
    kinds = np.bincount(of_condition, minlength=size)  # different words seen with each given word
    values = np.ones(len(keys))
    for _ in range(ROUNDS):
        counts = np.zeros(len(keys))
        for links_of_piece, sizes in zip(places, blocks, strict=True):
            links = values[links_of_piece]
            links /= np.repeat(np.add.reduceat(links, np.cumsum(sizes, dtype=np.int64) - sizes), sizes)
            counts += np.bincount(links_of_piece, weights=links, minlength=len(keys))
        totals = np.bincount(of_condition, weights=counts, minlength=size)
        values = np.exp(digamma(counts + PRIOR) - digamma(totals + PRIOR * kinds)[of_condition])
        values = np.maximum(values, 1e-30)  # a token whose links all vanish would divide by zero
    return Probabilities(of_condition, (keys // size).astype(np.int32), values)


def _pieces(condition: Side, generated: Side) -> list[slice]:
    """Consecutive sentences whose links are worked on at once."""
    ends = np.cumsum((condition.lengths + 1).astype(np.int64) * generated.lengths)
    numbers = (ends - 1) // PIECE_LINKS
    cuts = [0, *(np.flatnonzero(np.diff(numbers)) + 1).tolist(), len(ends)]
    return [slice(begin, end) for begin, end in pairwise(cuts)]


def _link_keys(condition: Side, generated: Side) -> NDArray[np.int64]:
    """generated * size + condition of all links, generated token by token."""
    sentences = np.repeat(np.arange(len(condition.lengths)), generated.lengths)  # [tokens]
    blocks = condition.lengths[sentences].astype(np.int64) + 1
    ends = np.cumsum(condition.lengths + 1, dtype=np.int64)
    with_null = np.full(int(ends[-1]), NULL, np.int32)
    starts = ends - condition.lengths - 1
    with_null[np.delete(np.arange(len(with_null)), starts)] = condition.numbers
    offsets = np.repeat(starts[sentences] - (np.cumsum(blocks) - blocks), blocks) + np.arange(int(blocks.sum()))
    keys = np.repeat(generated.numbers.astype(np.int64) * len(condition.words), blocks)
    keys += with_null[offsets]
    return keys


def _table(source: Side, target: Side, of_source: Probabilities, of_target: Probabilities) -> WordTable:
    """Both directions joined, without entries that say little and words that are left without any."""
    size = len(target.words)
    keys, codes = [], []
    for sources, targets, values in (
        (of_source.generated, of_source.condition, of_source.values),
        (of_target.condition, of_target.generated, of_target.values),
    ):
        likely = values >= LEAST_PROBABILITY
        keys.append(sources[likely].astype(np.int64) * size + targets[likely])
        codes.append(encode(values[likely]))
    joined = np.unique(np.concatenate(keys))
    both = np.full((2, len(joined)), NONE, np.uint8)
    for direction in (0, 1):
        both[direction, np.searchsorted(joined, keys[direction])] = codes[direction]
    used_sources, rows = np.unique(np.append(joined // size, NULL), return_inverse=True)
    used_targets, columns = np.unique(np.append(joined % size, NULL), return_inverse=True)
    return WordTable(
        source_words=[source.words[number] for number in used_sources],
        target_words=[target.words[number] for number in used_targets],
        starts=np.searchsorted(rows[:-1], np.arange(len(used_sources) + 1)),
        targets=columns[:-1].astype(np.int64),
        of_source=both[0],
        of_target=both[1],
    )
