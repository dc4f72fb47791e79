"""The version of the distribution, for signatures, caches and --version."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("mbr-decode")
except PackageNotFoundError:
    __version__ = "0+unknown"
