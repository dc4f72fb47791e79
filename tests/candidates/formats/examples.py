"""Lists and helpers that the tests of all formats share."""

from __future__ import annotations

from pathlib import Path

from candidates import Candidate, CandidateList, read_lists

# Characters that Python's universal newlines or str.splitlines would split at, and others that break parsers.
ODD = "a\rb\u2028c\x0cd\x85e\x0bf"


LISTS = [
    CandidateList.of(f"s{ODD}", [Candidate("a", -1.25), Candidate(f"b{ODD}", -2.0), Candidate("a", -1.25)], id=0),
    CandidateList.of('"t"', [Candidate("c", -0.5), Candidate("", -3.0), Candidate("d", -4.0)], id=1),
]


COUNTED = CandidateList.of("s", [Candidate("a", -1.5, 2), "b"], id="x", references=["r"])


def texts(item: object) -> tuple[str, ...]:
    assert isinstance(item, CandidateList), item
    return item.texts


def only_list(path: Path, **options: object) -> CandidateList:
    (item,) = read_lists(path, **options)  # type: ignore[arg-type]
    assert isinstance(item, CandidateList), item
    return item
