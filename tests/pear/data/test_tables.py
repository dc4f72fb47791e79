"""Judgments in tables: CSV, direct assessments; language pairs in names."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from pear.data import (
    Judgment,
    guess_format,
    read_judgments,
)
from pear.data.tables import lp_from_name
from tests.pear.data.files import CSV, DA, archive, write

pytestmark = pytest.mark.one_world


def test_a_csv_row_has_all_its_names(tmp_path: Path) -> None:
    (row,) = read_judgments(write(tmp_path / "x.csv", CSV))
    assert row == Judgment("A dog, here.", "Ein Hund.", -5.0, "en-de", "S", "d", "1", "r1", "Hund.")


def test_a_csv_needs_three_columns_only(tmp_path: Path) -> None:
    path = write(tmp_path / "de-en-da.csv", 'src,mt,score,zscore\nEin Hund,"",3,0.25\n')
    assert list(read_judgments(path)) == [Judgment("Ein Hund", "", 3.0, "de-en")]
    assert [row.score for row in read_judgments(path, score="zscore")] == [0.25]
    assert [row.lp for row in read_judgments(path, lp="xx_yy")] == ["xx-yy"]


def test_csv_texts_may_hold_line_breaks_and_quotes(tmp_path: Path) -> None:
    path = write(tmp_path / "x.csv", 'src,mt,score\r\n"two\nlines","say ""x""",1\r\n')
    (row,) = read_judgments(path)
    assert (row.source, row.translation) == ("two\nlines", 'say "x"')


@pytest.mark.parametrize("score", [None, "z_mean"])
def test_direct_assessments_plain_gzipped_and_in_an_archive(tmp_path: Path, score: str | None) -> None:
    plain = write(tmp_path / "train.ende.df.short.tsv", DA)
    zipped = tmp_path / "zipped.ende.df.short.tsv.gz"
    zipped.write_bytes(gzip.compress(DA.encode()))
    packed = archive(tmp_path / "packed.tar.gz", x__a_doc="x", x__train_ende_df_short_tsv=DA)
    expected = [Judgment("A dog.", "Ein Hund.", 0.5 if score else 70.0, "en-de", segment="7")]
    for path in (plain, zipped, packed):
        assert guess_format(path) == "da"
        assert list(read_judgments(path, score=score)) == expected


@pytest.mark.parametrize(
    ("name", "lp"),
    [
        ("en-de-mqm.2021.csv", "en-de"),
        ("folder/mqm_ted_ende.tsv", "en-de"),
        ("train.ende.df.short.tsv", "en-de"),
        ("post-editing-dev-ru-en-dev.tar.gz", "ru-en"),
        ("mqm_newstest2020_zhen.tsv", "zh-en"),
        ("data.csv", ""),
        ("open-news.csv", ""),
    ],
)
def test_language_pairs_in_names(name: str, lp: str) -> None:
    assert lp_from_name(name) == lp


@pytest.mark.parametrize(("part", "rows"), [("dev", 1000), ("train", 7000)])
def test_the_direct_assessments(mlqe: Path, part: str, rows: int) -> None:
    path = mlqe / f"direct-assessments-{part}-en-de-{part}.tar.gz"
    found = list(read_judgments(path))
    assert len(found) == rows
    assert {row.lp for row in found} == {"en-de"}
    assert all(0 <= row.score <= 100 for row in found)
