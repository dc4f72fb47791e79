"""One source sentence and its candidate translations.

Equal texts are one candidate: the list keeps unique texts in first-seen order, with the count and the positions of
each, so that a utility scores every text once while weights and original order are kept. An empty string is a
legitimate candidate; a list without any candidate is not a list.

    >>> lists = CandidateList.of("A dog.", ["Ein Hund.", "Der Hund.", "Ein Hund."])
    >>> lists.texts, lists.counts, lists.positions
    (('Ein Hund.', 'Der Hund.'), (2, 1), ((0, 2), (1,)))
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from candidates.common.errors import InputError

LARGEST = 2**53  # a float is exact up to here


@dataclass(frozen=True, slots=True)
class Candidate:
    """One entry of an n-best list as a file or a generator gives it."""

    text: str
    logprob: float | None = None
    count: int = 1


@dataclass(frozen=True)
class Origin:
    """Where candidates come from: the translation model with its revision, the method, and every other setting.

    The default recipe depends on it, so it stays with the candidates in memory and in JSONL files.

    >>> Origin.of({"model": "en-de@1a2b", "method": "beam", "nbest": 100}).translator
    'en-de@1a2b'
    """

    settings: tuple[tuple[str, str | int | float | bool], ...]

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> Origin:
        for name, value in settings.items():
            if not isinstance(name, str) or not isinstance(value, (str, int, float)):
                raise InputError(f"origin: {name!r} is {value!r:.40}; expected texts, numbers, true or false")
        return cls(tuple(settings.items()))

    @property
    def translator(self) -> str:
        """Name and revision of the translation model; empty where unknown."""
        return str(dict(self.settings).get("model", ""))

    @property
    def method(self) -> str:
        """beam, sample or epsilon; empty where unknown."""
        return str(dict(self.settings).get("method", ""))


@dataclass(frozen=True, slots=True)
class CandidateList:
    """Unique candidate texts of one source, in first-seen order. Build it with `CandidateList.of`."""

    id: str | int
    source: str
    texts: tuple[str, ...]
    counts: tuple[int, ...]
    positions: tuple[tuple[int, ...], ...]
    logprobs: tuple[float | None, ...] | None = None
    references: tuple[str, ...] = ()
    origin: Origin | None = None

    @classmethod
    def of(
        cls,
        source: str,
        candidates: Iterable[str | Candidate],
        *,
        id: str | int = 0,
        references: Iterable[str] = (),
        origin: Origin | None = None,
    ) -> CandidateList:
        """Merge equal texts. A text seen with several log-probabilities keeps the largest.

        The largest, because copies are either the same sample drawn again (equal values) or other
        segmentations of one beam text, whose best one carries most of the mass.
        """
        if isinstance(candidates, str):
            raise InputError(f"segment {id!r}: expected a sequence of candidates, found one text")
        for text in (source, *(references := tuple(references))):
            check_text(text, f"segment {id!r}")
        merged: dict[str, int] = {}
        counts: list[int] = []
        positions: list[list[int]] = []
        logprobs: list[float | None] = []
        for position, entry in enumerate(candidates):
            candidate = entry if isinstance(entry, Candidate) else Candidate(entry)
            _check(id, position, candidate)
            index = merged.setdefault(candidate.text, len(merged))
            if index == len(counts):
                counts.append(0)
                positions.append([])
                logprobs.append(None)
            counts[index] += candidate.count
            positions[index].append(position)
            if candidate.logprob is not None:
                largest = logprobs[index]
                logprobs[index] = candidate.logprob if largest is None else max(largest, candidate.logprob)
        if not merged:
            raise InputError(f"segment {id!r} has no candidates; expected at least one")
        return cls(
            id=id,
            source=source,
            texts=tuple(merged),
            counts=tuple(counts),
            positions=tuple(map(tuple, positions)),
            logprobs=None if all(value is None for value in logprobs) else tuple(logprobs),
            references=references,
            origin=origin,
        )

    def __len__(self) -> int:
        return len(self.texts)

    def take(self, places: Sequence[int]) -> CandidateList:
        """Some of the unique texts, in this order; their positions stay those of the whole list."""
        return replace(
            self,
            texts=tuple(self.texts[place] for place in places),
            counts=tuple(self.counts[place] for place in places),
            positions=tuple(self.positions[place] for place in places),
            logprobs=None if self.logprobs is None else tuple(self.logprobs[place] for place in places),
        )

    def listed(self) -> Iterator[Candidate]:
        """The candidates as they were listed, duplicates included, in the original order."""
        logprobs = self.logprobs or (None,) * len(self.texts)
        order = sorted((place, index) for index, places in enumerate(self.positions) for place in places)
        for place, index in order:
            # Counts that came as a number rather than as repeated entries stay with the first entry.
            first = place == self.positions[index][0]
            extra = self.counts[index] - len(self.positions[index]) if first else 0
            yield Candidate(self.texts[index], logprobs[index], 1 + extra)


def check_text(value: object, where: str) -> None:
    """A text is a string that UTF-8 can hold: JSON can hold half a surrogate pair."""
    if not isinstance(value, str):
        raise InputError(f"{where}: expected a text, found {type(value).__name__}")
    try:
        value.encode("utf-8")
    except UnicodeEncodeError as exc:
        raise InputError(f"{where}: lone surrogate \\u{ord(value[exc.start]):04x} in a text") from exc


def _check(id: str | int, position: int, candidate: Candidate) -> None:
    """Raise InputError for an invalid candidate: they come from files too."""
    where = f"segment {id!r}, candidate {position + 1}"
    check_text(candidate.text, where)
    logprob: object = candidate.logprob
    count: object = candidate.count
    if logprob is not None and not (isinstance(logprob, (int, float)) and abs(logprob) < LARGEST):
        raise InputError(f"{where}: logprob {logprob!r:.40} is not a finite number")
    if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= LARGEST:
        raise InputError(f"{where}: count {count!r:.40} is not a positive whole number of reasonable size")
