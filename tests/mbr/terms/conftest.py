"""Tiny random translation models, made once for the tests of terms."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from tests.mbr.terms.reverse_cases import Folders


@pytest.fixture(scope="package")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Folders:
    """The transformers folder of a family and its float32 conversion, each made once."""
    from candidates.backends.convert import convert
    from tests.support.random_mt import write_random_translator

    root = tmp_path_factory.mktemp("translators")

    @cache
    def get(family: str) -> tuple[Path, Path]:
        theirs, ours = root / family, root / f"{family}-ct2"
        write_random_translator(family, theirs, positions=64)
        convert(str(theirs), ours, quantization="float32")
        return theirs, ours

    return get
