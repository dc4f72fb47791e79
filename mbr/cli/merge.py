"""mbr-merge: the outputs of all shards of a run in, the output of the whole run out.

Every shard has a file beside its output that lists which segments of the input it decided (`mbr.cli.common.shards`).
The pieces of all must cover the input, each segment once, and have the bytes that were written; then they are copied in
the order of the input.
"""

from __future__ import annotations

import hashlib
import sys
import zlib
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import IO, cast

from candidates.command.console import Console, Parser, add_message_options
from candidates.command.outputs import check_outputs
from candidates.command.streams import check_standard_output
from candidates.common.errors import InputError, UsageError
from candidates.common.text import atomic_output
from candidates.common.words import counted
from mbr.cli.common.shards import ShardFile, read_shard

QUICK_START = """\
quick start:
  mbr-merge best-1.txt best-2.txt best-3.txt -o best.txt  # of mbr-decode --shard 1/3 -o best-1.txt, and so on"""

BLOCK = 1 << 20


def parser() -> Parser:
    p = Parser(
        "mbr-merge",
        "Join the outputs of all shards of a run (mbr-decode --shard) into that of the whole run.",
        QUICK_START,
        failed="some segments failed in a shard",
    )
    p.add_argument("shards", nargs="+", metavar="FILE", help="the outputs of the shards, in any order")
    p.add_argument("-o", "--output", metavar="FILE", help="output file (default: standard output)")
    p.add_argument("--force", action="store_true", help="overwrite an existing file")
    add_message_options(p)
    return p


def command(argv: Sequence[str] | None = None) -> int:
    options = parser().parse_args(sys.argv[1:] if argv is None else argv)
    console = Console("mbr-merge", quiet=options.quiet, verbose=options.verbose, log_format=options.log_format)
    files = [Path(name) for name in options.shards]
    check_outputs({"output": options.output}, inputs=options.shards, force=options.force)
    shards = checked([read_shard(file) for file in files])
    with ExitStack() as stack:
        if options.output is None:
            check_standard_output()
            target: IO[bytes] = sys.stdout.buffer
        else:
            target = stack.enter_context(atomic_output(options.output, force=options.force))
        merge(shards, target)
    failed = sum(shard.failed for shard in shards)
    console.info(
        f"{counted(shards[0].segments, 'segment')} of {counted(len(shards), 'shard')}"
        + (f"; {counted(failed, 'segment')} failed" if failed else "")
    )
    console.info(str(shards[0].settings["signature"]))
    return 1 if failed else 0


def checked(shards: Sequence[ShardFile]) -> list[ShardFile]:
    """The shards in order, where they are all of one run and cover its input.

    Raises:
        UsageError: one is missing, or there twice.
        InputError: one is of another run or input, or is not what its pieces say.
    """
    first = shards[0]
    by_number: dict[int, ShardFile] = {}
    for shard in shards:
        _check_same_run(shard, first)
        if (twin := by_number.setdefault(shard.shard.number, shard)) is not shard:
            raise UsageError(f"{twin.output} and {shard.output} are both shard {shard.shard}; give each shard once")
    missing = [number for number in range(1, first.shard.total + 1) if number not in by_number]
    if missing:
        names = ", ".join(f"{number}/{first.shard.total}" for number in missing[:10])
        raise UsageError(f"shard {names} is missing; give the outputs of all {first.shard.total}")
    ordered = [by_number[number] for number in sorted(by_number)]
    _check_cover(ordered)
    for shard in ordered:
        _check_content(shard)
    return ordered


def merge(shards: Sequence[ShardFile], target: IO[bytes]) -> None:
    """Copy the header of the first, and the pieces of all in the order of the input."""
    with ExitStack() as stack:
        streams = [stack.enter_context(_opened(shard.output)) for shard in shards]
        headers = [_read(stream, shard.header, shard) for stream, shard in zip(streams, shards, strict=True)]
        target.write(headers[0])
        pieces = sorted(
            (piece.start, place, piece.size) for place, shard in enumerate(shards) for piece in shard.pieces
        )
        for _, place, size in pieces:
            while size:
                block = _read(streams[place], min(size, BLOCK), shards[place])
                target.write(block)
                size -= len(block)


def _check_same_run(shard: ShardFile, first: ShardFile) -> None:
    if shard.shard.total != first.shard.total:
        raise InputError(
            f"{shard.output} is shard {shard.shard}, and {first.output} is {first.shard}: they are of different runs"
        )
    for name, value in first.settings.items():
        if shard.settings.get(name) != value:
            raise InputError(
                f"{shard.output} was made with {name} {shard.settings.get(name)!r}, and {first.output} with {value!r}; "
                "expected shards of one run; make them with the same options and version"
            )
    if (shard.segments, shard.digest) != (first.segments, first.digest):
        raise InputError(
            f"{shard.output} was made of another input than {first.output} ({shard.segments} and {first.segments} "
            "segments); expected shards of one run; make them of the same file"
        )


def _check_cover(shards: Sequence[ShardFile]) -> None:
    """Each segment of the input is in one piece."""
    covered = 0
    pieces = sorted(
        (piece.start, place, piece.segments) for place, shard in enumerate(shards) for piece in shard.pieces
    )
    for start, place, segments in pieces:
        if start != covered:
            what = "is in no shard" if start > covered else f"is in two shards, {shards[place].output} among them"
            raise InputError(f"segment {min(start, covered)} {what}; run the shards again (--force)")
        covered += segments
    if covered != shards[0].segments:
        raise InputError(f"segment {covered} is in no shard; run the shards again (--force)")


def _check_content(shard: ShardFile) -> None:
    """The output has the bytes that were written."""
    with _opened(shard.output) as stream:
        _read(stream, shard.header, shard)
        for piece in shard.pieces:
            digest, left = hashlib.sha256(), piece.size
            while left:
                block = _read(stream, min(left, BLOCK), shard)
                digest.update(block)
                left -= len(block)
            if digest.hexdigest() != piece.digest:
                raise InputError(
                    f"{shard.output} is damaged: segments {piece.start} to {piece.start + piece.segments - 1} are not "
                    "what was written (their digest differs); run the shard again (--force)"
                )
        if _read(stream, 1, shard, or_less=True):
            raise InputError(f"{shard.output} is longer than its shard was; run the shard again (--force)")


def _opened(path: Path) -> IO[bytes]:
    import gzip

    try:
        return cast(IO[bytes], gzip.open(path)) if path.suffix == ".gz" else path.open("rb")
    except OSError as exc:
        raise InputError(f"{path}: cannot be read: {exc.strerror or exc}") from exc


def _read(stream: IO[bytes], size: int, shard: ShardFile, *, or_less: bool = False) -> bytes:
    content = b""
    try:
        while len(content) < size and (more := stream.read(size - len(content))):
            content += more
    except (OSError, EOFError, zlib.error) as exc:
        raise InputError(f"{shard.output}: cannot be read: {exc}; run the shard again (--force)") from exc
    if len(content) < size and not or_less:
        raise InputError(f"{shard.output} is shorter than its shard was; run the shard again (--force)")
    return content
