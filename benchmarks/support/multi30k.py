"""Image captions of Multi30k with their translations, which no model and no weight was fitted on.

sources, references = texts("test", "en"), texts("test", "de")
"""

from __future__ import annotations

from benchmarks.support.places import DATA
from candidates.common.text import lines

MULTI30K = DATA / "multi30k"
SETS = {"train": "train", "validation": "val", "test": "test_2016_flickr"}


def texts(part: str, language: str, count: int | None = None) -> list[str]:
    """The first sentences of a set in a language: `en`, `de` or `fr`."""
    return [line for _, line in lines(MULTI30K / f"{SETS[part]}.{language}.gz")][:count]
