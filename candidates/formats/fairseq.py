"""The output of fairseq-generate and fairseq-interactive: lines of many kinds in, one segment per id out, in id order.

Per id there is a source (`S-`), perhaps a reference (`T-`), and then for each hypothesis `H-` (tokens), `D-`
(detokenised) and `P-` (a score per token); everything else is logging. The scores of `H-` and `D-` are divided by
length ** lenpen, which cannot be undone, but those of `P-` are not: they are logarithms to base 2 of the tokens'
probabilities, end of sentence included, so that their sum times ln 2 is the log-probability of the whole.
(Before January 2020 fairseq printed natural logarithms, see its issue 1553; the two cannot be told apart.)

fairseq-generate goes through its input by length, so ids come in any order. Memory holds only segments that came early.
The format is read and not written.

    S-1     A dog runs .
    H-1     -0.35   Ein Hund renn@@ t .
    D-1     -0.35   Ein Hund rennt.
    P-1     -0.5 -0.25 -0.5 -0.25 -0.5 -0.1
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from candidates.common.errors import InputError
from candidates.common.text import decode_line, raw_lines
from candidates.formats.records import MOST_DIGITS, Record, Segment, join_sources
from candidates.lists import Candidate

LAYOUTS = {
    "S": "S-<id><TAB><source>",
    "T": "T-<id><TAB><reference>",
    "H": "H-<id><TAB><score><TAB><tokens>",
    "D": "D-<id><TAB><score><TAB><text>",
    "P": "P-<id><TAB><score of each token>",
}
_PREFIXES = frozenset(f"{kind}-".encode() for kind in LAYOUTS)
_LINE = re.compile(rf"([STHDP])-([0-9]{{1,{MOST_DIGITS}}})\t(.*)", re.DOTALL)


def read(path: str | Path, nbest: int | None, *, sources: str | Path | None) -> Iterator[Record]:
    """Stream the lists in id order; with a file of sources, one record per line of it.

    Raises:
        InputError: lines that do not fit together; without `sources`, also an id or a source that is missing.
    """
    if sources is None:
        return _records(path, nbest)
    return join_sources(_segments(path), path, sources, nbest)


def _records(path: str | Path, nbest: int | None) -> Iterator[Record]:
    for index, segment in enumerate(_segments(path)):
        if segment.id != index:
            raise InputError(
                f"{path}: id {index} is missing, but id {segment.id} is there (line {segment.line}); expected ids "
                "from 0 without gaps; give the file of sources, in which gaps are allowed (--sources FILE)"
            )
        if segment.source is None:
            raise InputError(
                f"{path}, line {segment.line}: id {index} has no S- line; expected one for each id, "
                "or the file of sources (--sources FILE)"
            )
        yield segment.record(segment.source, path, nbest)


def _segments(path: str | Path) -> Iterator[Segment]:
    """Stream the segments in id order; an id that is missing in the file is skipped.

    Memory holds the segments that came before their turn: none for a file in order, but everything behind an id
    that is missing, because it might still come.
    """
    early: dict[int, Segment] = {}
    turn = 0
    for segment in _blocks(path):
        if segment.id < turn or segment.id in early:
            raise InputError(
                f"{path}, line {segment.line}: id {segment.id} comes again after its list was complete; expected "
                "the lines of one id together, and each id once (are these two outputs in one file?)"
            )
        early[segment.id] = segment
        while turn in early:
            yield early.pop(turn)
            turn += 1
    if not turn and not early:
        raise InputError(
            f"{path}: no line begins with S-, H- or D-; expected the output of fairseq-generate or "
            "fairseq-interactive (without --quiet)"
        )
    for id in sorted(early):
        yield early.pop(id)


def _blocks(path: str | Path) -> Iterator[Segment]:
    """Neighbouring lines of one id, in the order of the file."""
    segment: Segment | None = None
    kinds: set[str] = set()  # S and T of this id; H, D and P of its last hypothesis
    for number, raw in raw_lines(path):
        if raw[:2] not in _PREFIXES:
            continue
        where = f"{path}, line {number}"
        kind, id, value = _parse(decode_line(raw, path, number), where)
        if segment is None or id != segment.id:
            if segment is not None:
                yield segment
            segment, kinds = Segment(id, number), set()
        if kind == "H":
            kinds -= {"D", "P"}
        elif kind in kinds:
            per = "id" if kind in "ST" else "hypothesis"
            raise InputError(
                f"{where}: a second {kind}-{id}; expected one per {per} (are these two outputs in one file?)"
            )
        elif kind in "DP" and "H" not in kinds:
            raise InputError(f"{where}: {kind}-{id} without H-{id} before it; expected fairseq's order H-, D-, P-")
        kinds.add(kind)
        _add(segment, kind, value)
    if segment is not None:
        yield segment


def _add(segment: Segment, kind: str, value: str | float) -> None:
    match kind, value:
        case "S", str():
            segment.source = value
        case "T", str():
            segment.reference = value
        case "H", str():
            segment.candidates.append(Candidate(value))
        case "D", str():
            segment.candidates[-1] = replace(segment.candidates[-1], text=value)
        case "P", float():
            segment.candidates[-1] = replace(segment.candidates[-1], logprob=value)


def _parse(line: str, where: str) -> tuple[str, int, str | float]:
    """Kind, id, and the text of the line or (P-) the natural log-probability of the sequence."""
    try:
        match = _LINE.fullmatch(line)
        if match is None:
            raise ValueError("no id and tab")
        kind, id, rest = match[1], int(match[2]), match[3]
        if kind in "ST":
            return kind, id, rest
        if kind == "P":
            scores = [float(score) for score in rest.split()]
            if not scores:
                raise ValueError("no scores")
            return kind, id, sum(scores) * math.log(2)
        score, tab, text = rest.partition("\t")
        float(score)
        if not tab:
            raise ValueError("no text")
        return kind, id, text
    except ValueError as exc:
        raise InputError(f"{where}: expected `{LAYOUTS[line[0]]}`, found {line!r:.80} ({exc})") from exc
