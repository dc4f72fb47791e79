"""Which PEAR is meant, on real data: whatever list comes first, a hundred lists show their languages."""

from __future__ import annotations

import csv
import gzip
import random
import tarfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import pytest

from pear.shipped import LISTS, Languages
from tests.conftest import DATA

Pairs = Sequence[tuple[str, str]]
FIRST = 2000  # real sentences, each once the first of a file

pytestmark = pytest.mark.one_world


def model_of(pairs: Iterable[tuple[str, str]]) -> tuple[str, int]:
    """The model, and how many lists were looked at."""
    languages, looked = Languages(), 0
    for source, target in pairs:
        languages.add(source, [target])
        looked += 1
        if languages.suffice:
            break
    return languages.model(), looked


def lines(path: Path) -> list[str]:
    return gzip.decompress(path.read_bytes()).decode().splitlines()


def tatoeba() -> Pairs:
    rows = (line.split("\t") for line in lines(DATA / "tatoeba" / "deu-eng.tsv.gz"))
    return [(row[0], row[1]) for row in rows]


def multi30k(source: str, target: str) -> Pairs:
    names = (DATA / "multi30k" / f"test_2016_flickr.{language}.gz" for language in (source, target))
    return list(zip(*map(lines, names), strict=True))


def ted(pair: str) -> Pairs:
    with (DATA / "wmt-mqm" / f"{pair}-mqm.2021-ted.csv").open(encoding="utf-8", newline="") as stream:
        return [(row["src"], row["mt"]) for row in csv.DictReader(stream)]


def mlqe(pair: str) -> Pairs:
    with tarfile.open(DATA / "mlqe-pe" / f"post-editing-dev-{pair}-dev.tar.gz") as archive:
        members = (archive.extractfile(f"{pair}-dev/dev.{side}") for side in ("src", "mt"))
        sides = [member.read().decode().splitlines() for member in members if member is not None]
    return list(zip(*sides, strict=True))


@pytest.mark.parametrize(
    ("read", "expected"),
    [
        (tatoeba, "en-de"),
        (lambda: multi30k("en", "de"), "en-de"),
        (lambda: ted("en-de"), "en-de"),
        (lambda: mlqe("en-de"), "en-de"),
        (lambda: multi30k("en", "fr"), "pear"),
        (lambda: multi30k("fr", "en"), "pear"),
        (lambda: multi30k("de", "en"), "pear"),
        (lambda: ted("en-ru"), "pear"),
        (lambda: ted("zh-en"), "pear"),
        (lambda: mlqe("ru-en"), "pear"),
    ],
    ids=["tatoeba en-de", "multi30k en-de", "ted en-de", "mlqe en-de", "multi30k en-fr", "multi30k fr-en",
         "multi30k de-en", "ted en-ru", "ted zh-en", "mlqe ru-en"],
)  # fmt: skip
def test_every_first_line_leads_to_the_right_model(read: Callable[[], Pairs], expected: str) -> None:
    if not DATA.is_dir():
        pytest.skip(f"no data at {DATA}; set MBR_DATA to the folder that holds it")
    pairs = read()
    draw = random.Random(1)
    for first in draw.sample(pairs, min(FIRST, len(pairs))):
        model, looked = model_of([first, *draw.choices(pairs, k=LISTS - 1)])
        assert model == expected, first
        assert looked <= 20


def test_short_sentences_in_a_row_show_their_languages_too() -> None:
    """Tatoeba is sorted by length: "Go.", "Hi.", "Be nice." and others like them fill its first thousands of lines."""
    if not DATA.is_dir():
        pytest.skip(f"no data at {DATA}; set MBR_DATA to the folder that holds it")
    pairs = tatoeba()[: FIRST + LISTS]
    assert any(source == "Be nice." for source, _ in pairs)
    for place in range(0, FIRST, 5):
        assert model_of(pairs[place : place + LISTS])[0] == "en-de", pairs[place]
