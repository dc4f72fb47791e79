"""The signature of a meta-evaluation: one line that names everything its numbers depend on."""

from __future__ import annotations

from typing import Any

from candidates.common.version import __version__


def signature(task: str, **settings: Any) -> str:
    """`METAEVAL|task:...|key:value|...|version:...`; settings that are None or empty are left out."""
    entries = [f"{key}:{value}" for key, value in settings.items() if value is not None and value != ""]
    return "|".join(["METAEVAL", f"task:{task}", *entries, f"version:{__version__}"])
