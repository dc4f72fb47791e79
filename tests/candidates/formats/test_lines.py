"""Parallel lines, with and without a file of log-probabilities."""

from __future__ import annotations

from pathlib import Path

import pytest

from candidates import BadRecord, CandidateList, read_lists
from candidates.common.errors import InputError
from candidates.formats import render_list
from tests.candidates.formats.examples import COUNTED, ODD, texts


def test_parallel_lines(tmp_path: Path) -> None:
    sources, candidates = tmp_path / "s.txt", tmp_path / "c.txt"
    sources.write_bytes(f"s{ODD}\nt\n".encode())
    candidates.write_bytes(f"a{ODD}\nb\n\nc".encode())
    items = list(read_lists(candidates, sources=sources, nbest=2))
    assert [texts(item) for item in items] == [(f"a{ODD}", "b"), ("", "c")]
    assert items[0].source == f"s{ODD}"


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        (3, "ends at line 3, but source line 2 .* needs lines 3 to 4"),
        (5, "line 5: more lines than the 2 sources"),
        (0, "ends at line 0, but source line 1"),
    ],
)
def test_counts_that_do_not_fit_name_the_first_bad_line(tmp_path: Path, lines: int, words: str) -> None:
    sources, candidates = tmp_path / "s.txt", tmp_path / "c.txt"
    sources.write_text("s\nt\n")
    candidates.write_text("x\n" * lines)
    with pytest.raises(InputError, match=words):
        list(read_lists(candidates, sources=sources, nbest=2))


def with_logprobs(folder: Path, content: str) -> list[CandidateList | BadRecord]:
    (folder / "s.txt").write_text("s\nt\n")
    (folder / "c.txt").write_text("a\nb\nc\nc\n")
    (folder / "p.txt").write_text(content)
    return list(read_lists(folder / "c.txt", sources=folder / "s.txt", nbest=2, logprobs=folder / "p.txt"))


def test_log_probabilities_of_mbrs_stand_beside_the_candidate_lines(tmp_path: Path) -> None:
    first, second = with_logprobs(tmp_path, "-1.5\n -2\r\n-3e0\n-0.25")
    assert isinstance(first, CandidateList)
    assert isinstance(second, CandidateList)
    assert (first.texts, first.logprobs) == (("a", "b"), (-1.5, -2.0))
    assert (second.texts, second.counts, second.logprobs) == (("c",), (2,), (-0.25,))


@pytest.mark.parametrize("value", ["", "low", "nan", "-inf", "1e400", "1e300", "-1 -2"])
def test_a_bad_log_probability_is_one_bad_record_that_names_its_line(tmp_path: Path, value: str) -> None:
    bad, item = with_logprobs(tmp_path, f"-1\n{value}\n-3\n-4\n")
    assert isinstance(bad, BadRecord)
    assert (bad.id, bad.source) == (0, "s")
    with pytest.raises(InputError, match=f"p.txt, line 2: logprob '{value}' is not a (finite )?number"):
        raise bad.error
    assert texts(item) == ("c",)


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        (0, "p.txt ends at line 0, but .*c.txt has a candidate on line 1"),
        (3, "p.txt ends at line 3, but .*c.txt has a candidate on line 4"),
        (5, "p.txt, line 5: more lines than the 4 candidates of .*c.txt"),
    ],
)
def test_log_probabilities_that_do_not_fit_in_number_name_the_first_bad_line(
    tmp_path: Path, lines: int, words: str
) -> None:
    with pytest.raises(InputError, match=words):
        with_logprobs(tmp_path, "-1\n" * lines)


@pytest.mark.parametrize("lines", [2, 4])
def test_a_list_of_another_length_does_not_fit_parallel_lines(lines: int) -> None:
    with pytest.raises(InputError, match=f"segment 'x' has 3 candidates, .* needs exactly {lines} .*jsonl"):
        render_list(COUNTED, "lines", 0, lines=lines)
    for format in ("jsonl", "tsv", "moses"):
        assert render_list(COUNTED, format, 0, lines=lines) == render_list(COUNTED, format, 0)
