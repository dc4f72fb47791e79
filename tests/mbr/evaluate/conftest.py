from __future__ import annotations

import pytest

from tests.mbr.evaluate.made import Count


@pytest.fixture
def counting(monkeypatch: pytest.MonkeyPatch) -> type[Count]:
    """`count`, `errors` as judges by name; with a fresh record of what they did."""
    from mbr import metrics

    monkeypatch.setitem(metrics.CLASSES, "count", "tests.mbr.evaluate.made:Count")
    monkeypatch.setitem(metrics.CLASSES, "errors", "tests.mbr.evaluate.made:Errors")
    Count.events.clear()
    Count.rows_scored = 0
    return Count
