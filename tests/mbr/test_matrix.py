from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from candidates.common.errors import InputError
from mbr.matrix import UtilityMatrix, publish_matrices, read_matrices


def sample(id: str | int, size: int) -> UtilityMatrix:
    draw = np.random.default_rng(size)
    values = draw.normal(size=(size, size)).astype(np.float32)
    texts = tuple(f"text {k} \x00\n😀" for k in range(size))
    return UtilityMatrix(values, values > 0, "pear", "antisymmetric", 7, id, texts)


def test_matrices_come_back_as_they_were_written(tmp_path: Path) -> None:
    matrices = [sample("a", 3), sample(10**30, 0), sample(2, 5)]
    packed = tmp_path / "packed"
    packed.write_bytes(b"".join(matrix.pack() for matrix in matrices))
    publish_matrices(packed, tmp_path / "m.npz")
    again = list(read_matrices(tmp_path / "m.npz"))
    for before, after in zip(matrices, again, strict=True):
        assert np.array_equal(before.values, after.values)
        assert np.array_equal(before.scored, after.scored)
        assert (before.id, before.texts, before.utility, before.relation, before.passes) == (
            after.id,
            after.texts,
            after.utility,
            after.relation,
            after.passes,
        )
    assert np.array_equal(np.load(tmp_path / "m.npz")["0/values"], matrices[0].values)


def test_other_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.npz"
    path.write_bytes(b"nonsense")
    with pytest.raises(InputError, match="not a file of utility matrices"):
        list(read_matrices(path))
