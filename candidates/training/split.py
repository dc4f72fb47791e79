"""Which sentence pairs a model may learn from, decided by the source sentence alone.

A pair's part follows from a hash of its source, so it needs no list and no order, is the same on every machine, and
does not change when the file grows. Sources that differ only in case, spacing or punctuation share a part, as do all
translations of one source. The bundled translation model learns from `train` and is chosen on `dev`; `test` is for
reports; `unseen` is for output of that model on sources it has not seen, such as candidate lists to train a metric on.

    >>> part_of("Tom is here.") == part_of("Tom is here!")
    True
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, get_args

from candidates.common.errors import InputError
from candidates.common.text import lines
from candidates.common.words import counted

Part = Literal["test", "dev", "unseen", "train"]
PARTS: tuple[Part, ...] = get_args(Part)

# Upper ends of the parts, in thousandths of the sources; the rest is train.
_ENDS: tuple[tuple[int, Part], ...] = ((15, "test"), (30, "dev"), (190, "unseen"))
_SALT = "mbr-decode split 1"


def part_of(source: str) -> Part:
    """The part a source sentence belongs to."""
    key = " ".join(re.findall(r"\w+", source.casefold()))
    digest = hashlib.sha256(f"{_SALT}\n{key}".encode()).digest()
    place = int.from_bytes(digest[:8], "big") * 1000 >> 64
    return next((part for end, part in _ENDS if place < end), "train")


def read_pairs(path: Path, part: Part) -> Iterator[tuple[str, str]]:
    """The (source, target) pairs of one part of a two-column TSV file, gzipped or not, in file order."""
    for number, line in lines(path):
        fields = line.split("\t")
        if len(fields) != 2 or not all(field.strip() for field in fields):
            raise InputError(
                f"{path}, line {number}: {counted(len(fields), 'column')} or an empty one; expected a source and its "
                "translation with a tab between them. Repair or drop the line."
            )
        if part_of(fields[0]) == part:
            yield fields[0], fields[1]
