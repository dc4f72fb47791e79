"""Test sets in the layout of mt-metrics-eval."""

from __future__ import annotations

from pathlib import Path

import pytest

from candidates.common.errors import InputError, UsageError
from pear.data import (
    Judgment,
    read_judgments,
)
from tests.pear.data.files import write

pytestmark = pytest.mark.one_world


def test_a_test_set_gives_annotated_systems(tiny_set: Path) -> None:
    expected = Judgment("A dog.", "Hund!", -1.0, "en-de", "X", "d1", "1", reference="Ein Hund.")
    assert list(read_judgments(tiny_set)) == [expected]
    rows = list(read_judgments(tiny_set, reference="refB", reference_systems=True))
    assert [(row.system, row.segment, row.reference) for row in rows] == [
        ("X", "1", "Hund."),
        ("refB", "1", "Hund."),
        ("refB", "2", "Katze."),
    ]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"human": "esa"}, "no human scores en-de.esa.seg.score; found mqm"),
        ({"reference": "refC"}, "no reference 'refC' for en-de; found refA, refB"),
        ({"lp": "en-fr"}, "no sources/en-fr.txt; found en-de"),
    ],
)
def test_choices_that_a_test_set_does_not_have(tiny_set: Path, options: dict[str, str], message: str) -> None:
    with pytest.raises((InputError, UsageError), match=message):
        list(read_judgments(tiny_set, **options))  # type: ignore[arg-type]


def test_a_test_set_must_be_aligned(tiny_set: Path) -> None:
    write(tiny_set / "human-scores" / "en-de.mqm.seg.score", "X\t-1\n")
    with pytest.raises(InputError, match="1 score of X, but 2 sources"):
        list(read_judgments(tiny_set))
    write(tiny_set / "system-outputs" / "en-de" / "X.txt", "Hund!\n")
    with pytest.raises(InputError, match=r"X\.txt: 1 line, but the number of sources is 2"):
        list(read_judgments(tiny_set))


@pytest.mark.parametrize(("lp", "segments", "reference"), [("en-de", 460, "Polizei"), ("he-en", 820, "Under a")])
def test_the_wmt23_test_set(wmt23: Path, lp: str, segments: int, reference: str) -> None:
    found = list(read_judgments(wmt23, lp=lp))
    assert len({row.system for row in found}) == 12
    assert len(found) == 12 * segments
    assert str(found[0].reference).startswith(reference)  # refA of en-de, refB of he-en
    with pytest.raises(UsageError, match="en-de, he-en; choose one"):
        read_judgments(wmt23, "mt-metrics-eval").__next__()
