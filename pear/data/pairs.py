"""From judgments to training pairs: group the translations of a source, split by source, sample pairs.

    >>> from pear.data import Judgment, group, sample_pairs
    >>> good, bad = Judgment("A dog.", "Ein Hund.", 0.0), Judgment("A dog.", "Eine Katze.", -5.0)
    >>> [abs(pair.difference) for pair in sample_pairs(group([good, bad]), per_source=10, seed=1)]
    [5.0]

All random choices hang on a hash of the seed and the source, never on the order of the data: a file that grows
leaves the old sources where they were, with the same pairs.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from math import isqrt

from candidates.common.errors import UsageError
from pear.data.record import Judgment, Words


@dataclass(frozen=True, slots=True)
class Group:
    """All judged translations of one source at one position of a document; each text once."""

    source: str
    lp: str
    document: str
    segment: str
    reference: str | None
    candidates: tuple[Judgment, ...]


@dataclass(frozen=True, slots=True)
class Pair:
    """Two translations of a source, and by how much people prefer `a`."""

    source: str
    a: str
    b: str
    difference: float  # score of a minus score of b
    lp: str = ""
    words_a: Words | None = None
    words_b: Words | None = None


def group(judgments: Iterable[Judgment]) -> list[Group]:
    """Gather by language pair, source, document and segment, in the order of first sight.

    A translation that occurs twice (two systems, two raters) is one candidate with the mean of its scores; it keeps
    the first row's names and the first `words` there are. The first reference there is becomes the group's.
    """
    gathered: dict[tuple[str, str, str, str], dict[str, list[Judgment]]] = {}
    for row in judgments:
        key = (row.lp, row.source, row.document, row.segment)
        gathered.setdefault(key, {}).setdefault(row.translation, []).append(row)
    return [
        Group(
            source,
            lp,
            document,
            segment,
            next((row.reference for rows in texts.values() for row in rows if row.reference is not None), None),
            tuple(merged(rows) for rows in texts.values()),
        )
        for (lp, source, document, segment), texts in gathered.items()
    ]


def merged(rows: Sequence[Judgment]) -> Judgment:
    """One row for several of the same translation: the mean score, and no rater if there were several."""
    first = rows[0]
    if len(rows) == 1:
        return first
    return replace(
        first,
        score=sum(row.score for row in rows) / len(rows),
        rater=first.rater if len({row.rater for row in rows}) == 1 else "",
        reference=next((row.reference for row in rows if row.reference is not None), None),
        words=next((row.words for row in rows if row.words is not None), None),
    )


def split(groups: Iterable[Group], dev_share: float, seed: int) -> tuple[list[Group], list[Group]]:
    """Divide into (train, dev) by the source text, so that no source is on both sides.

    Case and spaces do not make another source, nor does another language pair or document. `dev_share` is the
    expected share of sources; the true one differs by chance, because a source's side never depends on the others.
    """
    if not 0 <= dev_share <= 1:
        raise UsageError(f"dev_share {dev_share} is not a share; expected a number from 0 to 1")
    sides: tuple[list[Group], list[Group]] = ([], [])
    for item in groups:
        sides[_hash(seed, "split", source_key(item.source)) < dev_share * 2**64].append(item)
    return sides


def source_key(source: str) -> str:
    """What makes two sources the same: case and spaces do not matter."""
    return " ".join(source.casefold().split())


def sample_pairs(
    groups: Iterable[Group], *, per_source: int | None = None, seed: int, references_as: float | None = None
) -> list[Pair]:
    """At most `per_source` unordered pairs of each group, without repetition; all of them for None.

    Which text is `a` is a coin toss. Ties stay, with difference 0. With `references_as`, a group's reference is one
    more candidate with this score, unless its text was judged itself. The time grows with the pairs drawn and the
    candidates, not with all pairs there are.
    """
    if per_source is not None and per_source < 1:
        raise UsageError(f"per_source {per_source} is not a positive number of pairs")
    return [pair for item in groups for pair in _pairs_of(item, per_source, seed, references_as)]


def _pairs_of(item: Group, per_source: int | None, seed: int, references_as: float | None) -> Iterable[Pair]:
    # Sorted, so that the order of a file's rows does not matter.
    texts = {row.translation: row for row in sorted(item.candidates, key=lambda row: row.translation)}
    if references_as is not None and item.reference is not None and item.reference not in texts:
        texts[item.reference] = Judgment(item.source, item.reference, references_as, item.lp)
    rows = list(texts.values())
    total = len(rows) * (len(rows) - 1) // 2
    rng = random.Random(_hash(seed, "pairs", item.lp, item.source, item.document, item.segment))
    chosen = range(total) if per_source is None or per_source >= total else rng.sample(range(total), per_source)
    for index in chosen:
        low, high = _unranked(index)
        a, b = (rows[low], rows[high]) if rng.random() < 0.5 else (rows[high], rows[low])
        yield Pair(item.source, a.translation, b.translation, a.score - b.score, item.lp, a.words, b.words)


def _unranked(index: int) -> tuple[int, int]:
    """The pair (i, j), i < j, with this number when pairs are counted (0,1), (0,2), (1,2), (0,3), ..."""
    high = (1 + isqrt(8 * index + 1)) // 2
    return index - high * (high - 1) // 2, high


def _hash(seed: int, *parts: str) -> int:
    """64 bits that are the same on every machine and in every process."""
    text = "\x1f".join([str(seed), *parts])
    return int.from_bytes(blake2b(text.encode("utf-8"), digest_size=8).digest(), "big")
