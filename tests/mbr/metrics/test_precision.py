"""Every neural metric in int8, and with dtype `auto`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mbr.metrics import get_metric
from mbr.utilities import get_utility
from mbr.utilities.settling import expected
from pear.runtime import choice, precision
from pear.runtime.int8 import has_int8
from pear.runtime.probes import PROBES
from tests.support.random_comet import write_random_comet
from tests.support.random_metrics import write_random_bleurt, write_random_metricx

pytestmark = pytest.mark.skipif(not has_int8(), reason="this processor does not multiply int8 exactly")

MAKERS: dict[str, Callable[[Path], Path]] = {
    "comet": write_random_comet,
    "cometkiwi": lambda root: write_random_comet(root, kind="unified_metric", input_segments=["mt", "src"]),
    "xcomet": lambda root: write_random_comet(root, kind="xcomet_metric"),
    "bleurt": write_random_bleurt,
    "metricx": write_random_metricx,
}


@pytest.mark.parametrize("name", MAKERS)
def test_a_metric_runs_in_int8_by_name_and_by_auto(
    tmp_path: Path, quiet_machine: None, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv("MBR_CACHE", str(tmp_path / "cache"))
    folder = MAKERS[name](tmp_path / name)
    rows: list[Any] = [(s, b) if name == "cometkiwi" else (s, b, a) for s, a, b in PROBES]
    scores = {}
    for dtype in ("float32", "int8"):
        with get_metric(name, model=folder, device="cpu", dtype=dtype) as metric:
            scores[dtype] = metric.score(rows)
            assert metric.settings()["dtype"] == dtype
    assert not np.array_equal(scores["int8"], scores["float32"])
    assert np.corrcoef(scores["int8"], scores["float32"])[0, 1] > 0.8
    monkeypatch.setattr(choice, "faster_precisions", lambda device: ("int8",))
    monkeypatch.setattr(precision, "MOST_ERROR", 10.0)
    with get_metric(name, model=folder, device="cpu", dtype="auto") as metric:
        assert metric.settings()["dtype"] == "int8"
        assert "int8 against float32" in metric.notes()[-1]
        np.testing.assert_allclose(metric.score(rows), scores["int8"], rtol=1e-6)
    assert type(metric).stamp({"model": folder, "dtype": "auto"}) is None  # what it will be is not in its files
    monkeypatch.setattr(precision, "MOST_ERROR", 0.0)
    monkeypatch.setenv("MBR_CACHE", str(tmp_path / "other"))
    with get_metric(name, model=folder, device="cpu", dtype="auto") as metric:
        np.testing.assert_allclose(metric.score(rows), scores["float32"], rtol=1e-6)


def test_comet_as_a_utility_forgets_vectors_of_another_precision(
    tmp_path: Path, quiet_machine: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MBR_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(choice, "faster_precisions", lambda device: ("bf16",))
    monkeypatch.setattr(precision, "MOST_ERROR", 10.0)
    folder = write_random_comet(tmp_path / "comet")
    texts = [text for _, *pair in PROBES[:3] for text in pair]
    with get_utility("comet", model=folder, device="cpu", dtype="auto") as utility:
        checked: Any = utility.precision_choice
        seen = []
        checked.check_list(lambda: seen.append(expected(utility, "A dog.", texts)) or seen[-1])
        fast, exact = seen
        assert not np.array_equal(fast, exact)
    with get_utility("comet", model=folder, device="cpu") as plain:
        np.testing.assert_array_equal(expected(plain, "A dog.", texts), exact)
