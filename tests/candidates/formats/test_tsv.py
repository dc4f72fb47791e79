"""TSV: long and wide layout."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from candidates import BadRecord, CandidateList, read_lists
from candidates.common.errors import InputError
from tests.candidates.formats.examples import only_list, texts


def test_a_byte_order_mark_is_accepted_and_dropped(tmp_path: Path) -> None:
    path = tmp_path / "l.tsv"
    path.write_bytes(b"\xef\xbb\xbfsource\tcandidate\ns\tx\n")
    assert only_list(path).texts == ("x",)


def test_long_tsv_groups_rows_of_one_source(tmp_path: Path) -> None:
    path = tmp_path / "l.tsv"
    path.write_text('src\tmt\tlogprob\n"s\ta\t-1\n"s\tb\t\nt\tc\t-3\n')
    first, second = read_lists(path)
    assert texts(first) == ("a", "b")
    assert isinstance(first, CandidateList)
    assert (first.source, first.logprobs) == ('"s', (-1.0, None))
    assert texts(second) == ("c",)


def test_tsv_ids_separate_equal_sources(tmp_path: Path) -> None:
    path = tmp_path / "l.tsv"
    path.write_text("id\tsource\tcandidate\n7\ts\ta\n8\ts\tb\n")
    assert [(item.id, texts(item)) for item in read_lists(path)] == [("7", ("a",)), ("8", ("b",))]


def test_wide_tsv_has_one_source_per_row(tmp_path: Path) -> None:
    path = tmp_path / "l.tsv"
    path.write_text("source\tcandidate_1\tcandidate_2\ns\ta\tb\nt\tc\tc\n")
    assert [texts(item) for item in read_lists(path)] == [("a", "b"), ("c",)]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", "empty"),
        ("source\tx\ns\ta\n", "no column candidate"),
        ("source\tcandidate\tcandidate\ns\ta\tb\n", "line 1: 2 columns are called 'candidate'"),
        ("source\tcandidate_1\tcandidate_1\ns\ta\tb\n", "line 1: 2 columns are called 'candidate_1'"),
        ("source\thypothesis\ttranslation\ns\ta\tb\n", "line 1: the columns hypothesis and translation both stand"),
        ("source\tsrc\tcandidate\ns\ta\tb\n", "line 1: the columns source and src both stand for the source"),
        ("source\tcandidate\ns\n", "line 2: 1 cell, but the header has 2"),
        ("source\tcandidate\tcount\ns\ta\t-1\n", "line 2: count '-1'"),
        ("source\tcandidate\tcount\ns\ta\t" + "9" * 5000, "line 2: count"),
        ("source\tcandidate\tlogprob\ns\ta\tx\n", "line 2: logprob 'x' is not a number"),
        ("id\tsource\tcandidate\n1\ts\ta\n1\tt\tb\n", "line 3: id '1' has two different sources"),
    ],
)
def test_a_tsv_that_does_not_fit_stops_at_the_first_bad_line(tmp_path: Path, content: str, words: str) -> None:
    path = tmp_path / "l.tsv"
    path.write_text(content)
    with pytest.raises(InputError, match=words):
        list(read_lists(path))


def test_a_bad_list_in_a_tsv_file_is_one_bad_record(tmp_path: Path) -> None:
    (tmp_path / "l.tsv").write_text("source\tcandidate\tlogprob\ns\ta\tnan\nt\tb\t-1\n")
    bad, good = read_lists(tmp_path / "l.tsv")
    assert isinstance(bad, BadRecord)
    assert "l.tsv, lines 2 to 2: segment 0" in str(bad.error)
    assert texts(good) == ("b",)


def test_empty_cells_at_the_end_of_a_wide_row_end_its_list(tmp_path: Path) -> None:
    path = tmp_path / "l.tsv"
    path.write_text("source\tcandidate_1\tcandidate_2\tcandidate_3\ns\ta\tb\tc\nt\td\t\t\n")
    assert [texts(item) for item in read_lists(path)] == [("a", "b", "c"), ("d",)]
    assert [texts(item) for item in read_lists(path, nbest=2)] == [("a", "b"), ("d",)]


@pytest.mark.parametrize("nbest", [None, 1])
def test_an_empty_cell_in_the_middle_is_refused(tmp_path: Path, nbest: int | None) -> None:
    path = tmp_path / "l.tsv"
    path.write_text("source\tcandidate_1\tcandidate_2\tcandidate_3\ns\ta\t\tc\nt\t\t\t\nu\td\t\t\n")
    middle, none, good = read_lists(path, nbest=nbest)
    assert isinstance(middle, BadRecord)
    assert "l.tsv, line 2, column candidate_2: empty, but candidates follow" in str(middle.error)
    assert isinstance(none, BadRecord)
    assert "line 3: segment 1 has no candidates" in str(none.error)
    assert texts(good) == ("d",)


def test_the_rule_for_rows_without_ids_is_logged_and_never_printed(
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(logging.getLogger("mbr_decode"), "handlers", [])  # as in a program without our commands
    caplog.set_level("INFO", "mbr_decode")
    (tmp_path / "l.tsv").write_text("source\tcandidate\ns\ta\ns\tb\nt\tc\ns\td\n")
    assert [texts(item) for item in read_lists(tmp_path / "l.tsv")] == [("a", "b"), ("c",), ("d",)]
    (message,) = caplog.messages
    assert message.startswith(f"{tmp_path / 'l.tsv'} has no column id: neighbouring rows with the same source are one")
    (tmp_path / "ids.tsv").write_text("id\tsource\tcandidate\n1\ts\ta\n")
    list(read_lists(tmp_path / "ids.tsv"))
    assert len(caplog.messages) == 1
    assert capsys.readouterr() == ("", "")
