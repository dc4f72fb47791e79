from __future__ import annotations

import pytest

from tests.mbr.compare.made import Counting, Longer, Overlap


@pytest.fixture(autouse=True)
def made_utilities(monkeypatch: pytest.MonkeyPatch) -> None:
    register(monkeypatch)


def register(patch: pytest.MonkeyPatch) -> None:
    """Make them available by name, as plug-ins are, with their counters at zero."""
    from mbr.utilities import UTILITIES

    for kind, counter in ((Counting, "scored"), (Overlap, "matrices"), (Longer, "rated")):
        patch.setitem(UTILITIES.built_in, kind.name, f"{kind.__module__}:{kind.__name__}")
        patch.setattr(kind, counter, 0)
    patch.setattr(Counting, "loaded", 0)
