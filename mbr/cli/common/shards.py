"""Shards of a run: which windows of the input are one's own, and the file beside a shard's output that lists them.

Shard i of n decides every n-th window of candidate lists, from the i-th on. Windows follow from the lists and the
recipe alone, and every shard reads and cuts the whole input, so that each decides its windows as one run would. Text is
cut into blocks of `LINES` lines instead: its lists are not there to be cut. `OUTPUT.shard` holds a header, a line
`[first segment, segments, bytes, digest]` for each piece of the output, and an end, by which mbr-merge joins the
outputs and notices damaged ones.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from candidates.common.errors import InputError, UsageError
from candidates.common.text import raw_lines

SUFFIX = ".shard"
LINES = 64  # a multiple of what back-ends translate together
MOST = 100_000


@dataclass(frozen=True)
class Shard:
    """Number `number`, from 1, of `total`."""

    number: int
    total: int

    @classmethod
    def parse(cls, word: str) -> Shard:
        match = re.fullmatch(r"([1-9]\d*)/([1-9]\d*)", word, re.ASCII)
        if match is None or not int(match[1]) <= int(match[2]) <= MOST:
            raise UsageError(f"--shard {word!r:.40} is not I/N; expected a shard and their number, from 1/N to N/N")
        return cls(int(match[1]), int(match[2]))

    def __str__(self) -> str:
        return f"{self.number}/{self.total}"

    def has(self, window: int) -> bool:
        """Whether it decides this window, counted from 0."""
        return window % self.total == self.number - 1

    def has_line(self, line: int) -> bool:
        """Whether it decides this line of text, counted from 0."""
        return self.has(line // LINES)


@dataclass(frozen=True)
class Piece:
    """Consecutive segments of the input; the number and the digest of their bytes in the output."""

    start: int
    segments: int
    size: int
    digest: str

    @classmethod
    def of(cls, start: int, segments: int, content: bytes) -> Piece:
        return cls(start, segments, len(content), hashlib.sha256(content).hexdigest())


@dataclass(frozen=True)
class ShardFile:
    """What the file beside a shard's output holds."""

    output: Path
    shard: Shard
    settings: dict[str, Any]
    header: int  # bytes before the first piece
    pieces: list[Piece]
    segments: int  # of the whole input
    failed: int
    digest: str  # of the whole input


def shard_path(output: Path) -> Path:
    return output.with_name(output.name + SUFFIX)


def head_line(shard: Shard, settings: dict[str, Any], header: int) -> bytes:
    return _line({"shard": str(shard), "settings": settings, "header": header})


def piece_line(piece: Piece) -> bytes:
    return _line([piece.start, piece.segments, piece.size, piece.digest])


def end_line(segments: int, failed: int, digest: str) -> bytes:
    return _line({"segments": segments, "failed": failed, "digest": digest})


def read_shard(output: Path) -> ShardFile:
    """What is beside a shard's output.

    Raises:
        InputError: there is nothing, or it cannot be read.
    """
    path = shard_path(output)
    if not path.is_file():
        unfinished = output.with_name(output.name + ".partial").exists()
        reason = "its run has not ended; wait for it, or continue it (--resume)" if unfinished else "expected an output"
        raise InputError(f"{output}: there is no {path.name} beside it: {reason} of mbr-decode --shard")
    try:
        head, *pieces, end = [json.loads(line) for _, line in raw_lines(path)]
        return ShardFile(
            output,
            Shard.parse(head["shard"]),
            dict(head["settings"]),
            int(head["header"]),
            [Piece(int(start), int(count), int(size), str(digest)) for start, count, size, digest in pieces],
            int(end["segments"]),
            int(end["failed"]),
            str(end["digest"]),
        )
    except (ValueError, KeyError, TypeError, UsageError) as exc:
        raise InputError(f"{path}: not what mbr-decode --shard writes ({exc}); run the shard again (--force)") from exc


def _line(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode() + b"\n"
