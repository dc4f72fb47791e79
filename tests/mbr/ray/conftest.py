"""A Ray cluster of two nodes with one CPU each, on this machine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from candidates.lists import CandidateList

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="session")
def cluster() -> Iterator[Any]:
    """Two nodes; a test that removes one adds another."""
    pytest.importorskip("ray", reason="needs the extra `ray`, which the COMET environment has")
    import os

    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    from ray.cluster_utils import Cluster

    nodes = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    nodes.add_node(num_cpus=1)
    yield nodes
    nodes.shutdown()


@pytest.fixture(scope="session")
def lists() -> list[CandidateList]:
    """Sixty lists of eight candidates by the bundled translation model."""
    from candidates import Settings, open_generator

    sources = (ROOT / "benchmarks" / "sample" / "hundred.en.txt").read_text(encoding="utf-8").splitlines()[:60]
    with open_generator(Settings(nbest=8)) as generator:
        return [item for item in generator.generate(sources) if isinstance(item, CandidateList)]
