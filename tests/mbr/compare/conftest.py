from __future__ import annotations

import pytest

from tests.mbr.compare.made import Counting, Longer, Overlap


@pytest.fixture(autouse=True)
def made_utilities(monkeypatch: pytest.MonkeyPatch) -> None:
    """Known by name, as plug-ins are, with their counters at zero."""
    import mbr.utilities

    for kind, counter in ((Counting, "scored"), (Overlap, "matrices"), (Longer, "rated")):
        monkeypatch.setitem(mbr.utilities.BUILT_IN, kind.name, f"{kind.__module__}:{kind.__name__}")
        monkeypatch.setattr(kind, counter, 0)
    monkeypatch.setattr(Counting, "loaded", 0)
