"""The utility matrix of one candidate list: what was scored, with what, and at what cost.

`values[i, j]` is the utility of hypothesis i against pseudo-reference j. `scored` marks the entries that a model
or a metric computed; the others follow from the relation (antisymmetry) or were never needed.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, Literal
from zipfile import ZIP_DEFLATED, BadZipFile, ZipFile, ZipInfo

import numpy as np
from numpy.typing import NDArray

from candidates.common.errors import InputError
from candidates.common.text import atomic_output

Relation = Literal["none", "symmetric", "antisymmetric"]
ARRAYS = ("values", "scored", "about")
# Cells of a matrix that are computed at once: a temporary array takes 32 MB at most. 2,000 candidates are one block.
BLOCK_CELLS = 4_000_000


def row_blocks(rows: int, columns: int) -> Iterator[slice]:
    """Consecutive rows of a matrix, as many at once as memory should be used for.

    A signal, such as that of Ctrl-C, is handled between two blocks at the latest.
    """
    height = max(BLOCK_CELLS // max(columns, 1), 1)
    return (slice(first, min(first + height, rows)) for first in range(0, rows, height))


@dataclass(frozen=True)
class UtilityMatrix:
    """values [N, N] float32 and scored [N, N] bool, rows and columns in the order of the list's unique texts."""

    values: NDArray[np.float32]
    scored: NDArray[np.bool_]
    utility: str
    relation: Relation
    passes: int
    id: str | int = 0
    texts: tuple[str, ...] = ()

    def arrays(self) -> dict[str, NDArray[Any]]:
        """As named arrays for files: values, scored, and everything else as JSON in bytes."""
        about = {
            "id": self.id,
            "utility": self.utility,
            "relation": self.relation,
            "passes": self.passes,
            "texts": self.texts,
        }
        encoded = json.dumps(about, ensure_ascii=False).encode()
        return {"values": self.values, "scored": self.scored, "about": np.frombuffer(encoded, np.uint8)}

    def _repr_html_(self) -> str:
        from mbr.notebook import matrix_html

        return matrix_html(self)

    def pack(self) -> bytes:
        """As bytes; concatenated, they are the input of `publish_matrices`."""
        stream = io.BytesIO()
        arrays = self.arrays()
        for name in ARRAYS:
            np.lib.format.write_array(stream, np.ascontiguousarray(arrays[name]), allow_pickle=False)
        return stream.getvalue()

    @classmethod
    def from_arrays(cls, arrays: dict[str, NDArray[Any]]) -> UtilityMatrix:
        about = json.loads(arrays["about"].tobytes())
        about["texts"] = tuple(about["texts"])
        return cls(arrays["values"], arrays["scored"], **about)


def publish_matrices(packed: Path, final: Path) -> None:
    """Turn a file of packed matrices into an `.npz`, streaming. The same matrices give the same bytes.

    Arrays are named by the place of the segment: `numpy.load(file)["0/values"]` is the matrix of the first segment.
    """
    size = packed.stat().st_size
    with ExitStack() as stack:
        source = stack.enter_context(packed.open("rb"))
        target = stack.enter_context(atomic_output(final, force=True))
        archive = stack.enter_context(ZipFile(target, "w"))
        for place in count():
            if source.tell() == size:
                break
            for name in ARRAYS:
                array = np.lib.format.read_array(source, allow_pickle=False)
                entry = ZipInfo(f"{place}/{name}.npy")
                entry.compress_type = ZIP_DEFLATED
                with archive.open(entry, "w", force_zip64=True) as file:
                    np.lib.format.write_array(file, array, allow_pickle=False)


def read_matrices(path: str | Path) -> Iterator[UtilityMatrix]:
    """The matrices of a file written by `mbr-decode --matrix`, in order."""
    try:
        with np.load(path, allow_pickle=False) as archive:
            for place in range(len(archive.files) // len(ARRAYS)):
                yield UtilityMatrix.from_arrays({name: archive[f"{place}/{name}"] for name in ARRAYS})
    except (OSError, BadZipFile, ValueError, KeyError) as exc:
        raise InputError(f"{path}: not a file of utility matrices: {exc}") from exc
