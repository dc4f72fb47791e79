"""Judgments in JSON lines."""

from __future__ import annotations

from pathlib import Path

import pytest

from candidates.common.errors import InputError
from pear.data import (
    Judgment,
    read_judgments,
)
from tests.conftest import write_jsonl

pytestmark = pytest.mark.one_world


def test_json_lines_hold_translations_and_lists_under_several_names(tmp_path: Path) -> None:
    path = write_jsonl(
        tmp_path / "x.jsonl",
        [
            {"src": "A dog.", "hypothesis": "Ein Hund.", "score": 1, "ref": "Hund.", "doc": "d", "seg_id": 3},
            {"source": "A cat.", "mt": "Katze", "score": -1.5, "words": [[0, 1]], "lp": "en_de", "system": None},
            {
                "source": "Hi.",
                "reference": "Hallo.",
                "candidates": [{"text": "", "score": 0}, {"text": "Na du.", "score": 2, "words": [[1, 2], [3, 4]]}],
            },
        ],
    )
    assert list(read_judgments(path, lp="en-fr")) == [
        Judgment("A dog.", "Ein Hund.", 1.0, "en-fr", "", "d", "3", "", "Hund."),
        Judgment("A cat.", "Katze", -1.5, "en-de", words=((0.0, 1.0),)),
        Judgment("Hi.", "", 0.0, "en-fr", reference="Hallo."),
        Judgment("Hi.", "Na du.", 2.0, "en-fr", reference="Hallo.", words=((1.0, 2.0), (3.0, 4.0))),
    ]


def test_channels_are_the_same_in_a_whole_file(tmp_path: Path) -> None:
    rows = [{"source": "a", "mt": "b", "score": 1, "words": [[0.0] * channels]} for channels in (2, 3)]
    with pytest.raises(InputError, match="line 2: words has 3 channels, but 2 in the rows before"):
        list(read_judgments(write_jsonl(tmp_path / "x.jsonl", rows)))
