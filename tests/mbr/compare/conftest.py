from __future__ import annotations

import pytest

from tests.mbr.compare.made import Counting, Longer, Overlap


@pytest.fixture(autouse=True)
def made_utilities(monkeypatch: pytest.MonkeyPatch) -> None:
    register(monkeypatch)


def register(patch: pytest.MonkeyPatch) -> None:
    """Have them known by name, as plug-ins are, with their counters at zero."""
    import mbr.utilities

    for kind, counter in ((Counting, "scored"), (Overlap, "matrices"), (Longer, "rated")):
        patch.setitem(mbr.utilities.BUILT_IN, kind.name, f"{kind.__module__}:{kind.__name__}")
        patch.setattr(kind, counter, 0)
    patch.setattr(Counting, "loaded", 0)
