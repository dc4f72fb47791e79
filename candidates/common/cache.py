"""Where derived files live: converted models, judgements."""

from __future__ import annotations

import os
from pathlib import Path


def cache_folder() -> Path:
    """$MBR_CACHE, or mbr-decode in the user's cache folder."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(os.environ.get("MBR_CACHE") or Path(base, "mbr-decode"))
