"""Variables of TensorFlow as a SavedModel stores them, read without TensorFlow.

`variables.index` is a sorted table (LevelDB's format, blocks plain or compressed by Snappy) from names to records of
type, shape and place; the numbers lie in `variables.data-00000-of-00001` and its shards. Only what is needed to get
the numbers is read; nothing in these files can run.

    read_variables(Path("checkpoint/variables"))["bert/pooler/dense/kernel"]     # a tensor [128, 128]
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from candidates.common.errors import ModelError

MAGIC = 0xDB4775248B80FB57
FOOTER = 48  # bytes: places of two blocks, padded, and the magic number
# Numbers of TensorFlow's types; variables of others (texts) are left out.
TYPES = {
    1: torch.float32,
    2: torch.float64,
    3: torch.int32,
    9: torch.int64,
    14: torch.bfloat16,
    19: torch.float16,
}
DTYPE, SHAPE, SHARD, OFFSET, SIZE, SLICES = 1, 2, 3, 4, 5, 7  # fields of a variable's record


def read_variables(folder: Path) -> dict[str, torch.Tensor]:
    """All numeric variables by name.

    Raises:
        ModelError: files are missing, cut off, or not of this format.
    """
    index = folder / "variables.index"
    try:
        table = dict(_table(index.read_bytes()))
        header = message_fields(table.pop(b""))
        shards = _number(header, 1)
        records = {name.decode(): message_fields(value) for name, value in table.items()}
        contents = [
            (folder / f"variables.data-{shard:05}-of-{shards:05}").read_bytes() for shard in range(max(shards, 1))
        ]
        return {name: _tensor(name, record, contents) for name, record in records.items() if _numeric(record)}
    except FileNotFoundError as exc:
        raise ModelError(f"{exc.filename} is missing; fetch the checkpoint again") from exc
    except (OSError, ValueError, IndexError, KeyError, struct.error) as exc:
        raise ModelError(f"{index} and its data are broken, fetch them again: {exc}") from exc


def _numeric(record: dict[int, list[Any]]) -> bool:
    return _number(record, DTYPE) in TYPES


def _tensor(name: str, record: dict[int, list[Any]], contents: list[bytes]) -> torch.Tensor:
    if SLICES in record:
        raise ValueError(f"the variable {name} is stored in slices")
    # A shape holds dimensions (field 2), each with its size (field 1).
    shape = [_number(message_fields(size), 1) for size in message_fields(record.get(SHAPE, [b""])[0]).get(2, [])]
    kind, begin, size = TYPES[_number(record, DTYPE)], _number(record, OFFSET), _number(record, SIZE)
    raw = contents[_number(record, SHARD)][begin : begin + size]
    if len(raw) != size or size != math.prod(shape) * kind.itemsize:
        raise ValueError(f"the variable {name} of shape {shape} is cut off")
    return torch.frombuffer(bytearray(raw), dtype=kind).reshape(shape) if size else torch.empty(shape, dtype=kind)


def _table(content: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Keys and values of a sorted table: its index leads to blocks of them."""
    if len(content) < FOOTER or struct.unpack("<Q", content[-8:])[0] != MAGIC:
        raise ValueError("it is not a table of variables")
    footer = content[-FOOTER:]
    place = 0
    for _ in range(2):  # the place of the block about the table itself, which is not needed
        _, place = _varint(footer, place)
    for _, handle in _entries(_block(content, footer[place:])):
        yield from _entries(_block(content, handle))


def _block(content: bytes, handle: bytes) -> bytes:
    begin, place = _varint(handle, 0)
    size, _ = _varint(handle, place)
    raw, compression = content[begin : begin + size], content[begin + size]
    if compression > 1:
        raise ValueError(f"compression {compression} is unknown")
    return unsnappy(raw) if compression else raw


def _entries(block: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Keys and values of a block; a key repeats only what differs from the one before it."""
    restarts = struct.unpack("<I", block[-4:])[0]
    end = len(block) - 4 * (restarts + 1)
    key, place = b"", 0
    while place < end:
        shared, place = _varint(block, place)
        fresh, place = _varint(block, place)
        size, place = _varint(block, place)
        key = key[:shared] + block[place : place + fresh]
        place += fresh
        yield key, block[place : place + size]
        place += size


def unsnappy(packed: bytes) -> bytes:
    """What Snappy compressed: literal bytes, and copies of what came before."""
    size, place = _varint(packed, 0)
    plain = bytearray()
    while place < len(packed):
        tag, kind = packed[place], packed[place] & 3
        place += 1
        if kind == 0:
            length = tag >> 2
            if length >= 60:  # the length follows, in 1 to 4 bytes
                width = length - 59
                length = int.from_bytes(packed[place : place + width], "little")
                place += width
            plain += packed[place : place + length + 1]
            place += length + 1
            continue
        if kind == 1:
            length, offset, width = (tag >> 2 & 7) + 4, (tag >> 5) << 8 | packed[place], 1
        else:
            width = 2 if kind == 2 else 4
            length, offset = (tag >> 2) + 1, int.from_bytes(packed[place : place + width], "little")
        place += width
        if not 0 < offset <= len(plain):
            raise ValueError("a copy reaches before the beginning")
        for _ in range(length):  # byte by byte: a copy may overlap with what it writes
            plain.append(plain[-offset])
    if len(plain) != size:
        raise ValueError(f"{len(plain)} bytes where {size} were packed")
    return bytes(plain)


def _varint(content: bytes, place: int) -> tuple[int, int]:
    """A number in 7 bits per byte, and the place behind it."""
    value = shift = 0
    while True:
        byte = content[place]
        value |= (byte & 127) << shift
        place, shift = place + 1, shift + 7
        if byte < 128:
            return value, place


def message_fields(message: bytes) -> dict[int, list[Any]]:
    """The fields of a protocol buffer by their numbers: numbers, or bytes that may be messages themselves."""
    fields: dict[int, list[Any]] = {}
    place = 0
    while place < len(message):
        tag, place = _varint(message, place)
        number, kind = tag >> 3, tag & 7
        value: int | bytes
        if kind == 0:
            value, place = _varint(message, place)
        else:
            size = {1: 8, 5: 4}.get(kind)
            if size is None:
                if kind != 2:
                    raise ValueError(f"a field of wire type {kind}")
                size, place = _varint(message, place)
            value = message[place : place + size]
            place += size
        fields.setdefault(number, []).append(value)
    return fields


def _number(fields: dict[int, list[Any]], field: int) -> int:
    """A number that is 0 where the field is not written."""
    return int(fields.get(field, [0])[0])
