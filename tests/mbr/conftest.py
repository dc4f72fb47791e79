"""Tiny random metrics in the genuine formats."""

from __future__ import annotations

from pathlib import Path

import pytest

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
