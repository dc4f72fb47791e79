"""Tiny random metrics in the genuine formats, and judges that count."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.mbr.evaluate.made import Count

COMET_KINDS = {"comet": "regression_metric", "cometkiwi": "unified_metric", "xcomet": "xcomet_metric"}


@pytest.fixture(scope="session")
def tiny_metrics(tmp_path_factory: pytest.TempPathFactory, quiet_machine: None) -> dict[str, Path]:
    """A checkpoint of every neural metric, by its name."""
    from tests.support.random_comet import write_random_comet
    from tests.support.random_metrics import write_random_bleurt, write_random_metricx

    root = tmp_path_factory.mktemp("metrics")
    for name, kind in COMET_KINDS.items():
        write_random_comet(root / name, kind=kind, layers=1)
    write_random_bleurt(root / "bleurt", layers=1)
    write_random_metricx(root / "metricx", layers=1)
    return {name: root / name for name in (*COMET_KINDS, "bleurt", "metricx")}


@pytest.fixture
def counting(monkeypatch: pytest.MonkeyPatch) -> type[Count]:
    """`count`, `errors` as judges by name; with a fresh record of what they did."""
    from mbr import metrics

    monkeypatch.setitem(metrics.CLASSES, "count", "tests.mbr.evaluate.made:Count")
    monkeypatch.setitem(metrics.CLASSES, "errors", "tests.mbr.evaluate.made:Errors")
    Count.events.clear()
    Count.rows_scored = 0
    return Count
