"""A random BLEURT in Google's format: a SavedModel of TensorFlow, written without it.

The numbers are those of a checkpoint of bleurt-pytorch (`write_random_bleurt`), so that both must give the same scores.
The format is written from its description, apart from the code that reads it: a table of one block, which may be
compressed (as literals and copies), and the numbers in one file or two.
"""

from __future__ import annotations

import json
import struct
from pathlib import Path

import torch

EXACT, APPROXIMATE = b"\x0a\x01x\x12\x03Erf", b"\x0a\x01x\x12\x04Tanh"  # nodes of a graph


def write_google_bleurt(
    root: Path, converted: Path, *, exact: bool = False, compressed: bool = True, shards: int = 1
) -> Path:
    """The checkpoint `converted` (of bleurt-pytorch, before BLEURT-20) as Google would have released it."""
    config = json.loads((converted / "config.json").read_text())
    (root / "variables").mkdir(parents=True)
    kept = ("hidden_size", "vocab_size", "num_attention_heads", "type_vocab_size", "max_position_embeddings")
    sizes = {key: config[key] for key in (*kept, "num_hidden_layers", "intermediate_size")}
    (root / "bert_config.json").write_text(json.dumps({**sizes, "hidden_act": "gelu"}))
    settings = {"name": "tiny", "vocab_file": "vocab.txt", "bert_config_file": "bert_config.json"}
    (root / "bleurt_config.json").write_text(json.dumps({**settings, "do_lower_case": True, "max_seq_length": 128}))
    (root / "vocab.txt").write_bytes((converted / "vocab.txt").read_bytes())
    (root / "saved_model.pb").write_bytes(EXACT if exact else APPROXIMATE)
    state = torch.load(converted / "pytorch_model.bin", weights_only=True)
    write_variables(root / "variables", dict(map(google_name, *zip(*state.items(), strict=True))), compressed, shards)
    return root


def google_name(name: str, value: torch.Tensor) -> tuple[str, torch.Tensor]:
    """A weight's name in TensorFlow, and its numbers as they lie there."""
    path = name.replace("bleurt.", "bert.", 1).replace("classifier.", "dense.", 1)
    path = path.replace(".layer.", ".layer_").replace(".", "/")
    if "LayerNorm" in path:
        return path.replace("/weight", "/gamma").replace("/bias", "/beta"), value
    if path.endswith("_embeddings/weight"):
        return path.removesuffix("/weight"), value
    return path.replace("/weight", "/kernel"), value.T.contiguous() if path.endswith("/weight") else value


def write_variables(folder: Path, values: dict[str, torch.Tensor], compressed: bool, shards: int) -> None:
    contents = [bytearray() for _ in range(shards)]
    records = {"": field(1, shards) + field(3, field(1, 1))}
    for place, (name, value) in enumerate(sorted({**values, "global_step": torch.tensor(7)}.items())):
        content = contents[place % shards]
        raw = value.contiguous().numpy().tobytes()
        shape = b"".join(field(2, field(1, size)) for size in value.shape)
        kind = 1 if value.dtype == torch.float32 else 9
        places = field(3, place % shards) + field(4, len(content)) + field(5, len(raw))
        records[name] = field(1, kind) + field(2, shape) + places + b"\x35" + b"crc!"
        content += raw
    for place, content in enumerate(contents):
        (folder / f"variables.data-{place:05}-of-{shards:05}").write_bytes(content)
    block = entries({name.encode(): record for name, record in records.items()})
    block = (snappy(block) if compressed else block) + bytes([compressed])
    handle = varint(0) + varint(len(block) - 1)
    index = entries({b"z": handle}) + b"\0"
    begin = len(block) + 4
    footer = varint(0) + varint(0) + varint(begin) + varint(len(index) - 1)
    table = block + b"crc!" + index + b"crc!" + footer.ljust(40, b"\0") + struct.pack("<Q", 0xDB4775248B80FB57)
    (folder / "variables.index").write_bytes(table)


def entries(values: dict[bytes, bytes]) -> bytes:
    """A block: each key without what it shares with the one before it."""
    block, before = b"", b""
    for key, value in sorted(values.items()):
        shared = next((n for n in range(min(len(key), len(before))) if key[n] != before[n]), min(len(key), len(before)))
        block += varint(shared) + varint(len(key) - shared) + varint(len(value)) + key[shared:] + value
        before = key
    return block + struct.pack("<II", 0, 1)


def snappy(plain: bytes) -> bytes:
    """Compressed a little: copies of all three kinds, where 8 bytes came before, and literals of both kinds."""
    packed, place, literal = varint(len(plain)), 0, 0

    def literals(end: int) -> bytes:
        out, begin = b"", literal
        while begin < end:
            size = min(end - begin, 100)
            head = bytes([(size - 1) << 2]) if size <= 60 else bytes([60 << 2, size - 1])
            out += head + plain[begin : begin + size]
            begin += size
        return out

    while place < len(plain):
        before = plain.rfind(plain[place : place + 8], 0, place + 7) if len(plain) - place >= 8 else -1
        if before < 0:
            place += 1
            continue
        packed += literals(place)
        offset = place - before
        if offset < 2048:
            packed += bytes([1 | (8 - 4) << 2 | offset >> 8 << 5, offset & 255])
        elif offset % 2:
            packed += bytes([2 | (8 - 1) << 2]) + offset.to_bytes(2, "little")
        else:
            packed += bytes([3 | (8 - 1) << 2]) + offset.to_bytes(4, "little")
        place += 8
        literal = place
    return packed + literals(len(plain))


def varint(value: int) -> bytes:
    out = b""
    while value > 127:
        out, value = out + bytes([value & 127 | 128]), value >> 7
    return out + bytes([value])


def field(number: int, value: int | bytes) -> bytes:
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value
