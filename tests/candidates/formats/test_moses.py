"""Moses n-best lists."""

from __future__ import annotations

from pathlib import Path

import pytest

from candidates import BadRecord, CandidateList, read_lists
from candidates.common.errors import InputError
from tests.candidates.formats.examples import texts


def test_moses_lists_with_a_source_that_got_none(tmp_path: Path) -> None:
    sources, nbest = tmp_path / "s.txt", tmp_path / "out.nbest"
    sources.write_text("s\nt\nu\n")
    nbest.write_text("0 ||| a b ||| LM= -3 ||| -1.5\n0 |||  ||| ||| -2\n2 ||| c\n")
    first, bad, last = read_lists(nbest, sources=sources)
    assert isinstance(first, CandidateList)
    assert (first.texts, first.logprobs) == (("a b", ""), (-1.5, -2.0))
    assert isinstance(bad, BadRecord)
    assert (bad.id, bad.source) == (1, "t")
    assert texts(last) == ("c",)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("3 ||| a\n", "line 1: id 3 has no source line"),
        ("1 ||| a\n0 ||| b\n", "line 2: id 0 after 1"),
        ("x ||| a\n", "line 1: id 'x'"),
        ("no bars\n", "line 1: expected `id"),
    ],
)
def test_broken_moses_lists(tmp_path: Path, content: str, words: str) -> None:
    sources, nbest = tmp_path / "s.txt", tmp_path / "out.nbest"
    sources.write_text("s\nt\n")
    nbest.write_text(content)
    with pytest.raises(InputError, match=words):
        list(read_lists(nbest, sources=sources))


def test_a_bad_list_in_a_moses_file_is_one_bad_record_that_names_its_line(tmp_path: Path) -> None:
    (tmp_path / "s").write_text("s\nt\nu\n")
    (tmp_path / "l.nbest").write_text("0 ||| x\n1 ||| a ||| ||| nan\n2 ||| b ||| ||| -1\n")
    first, bad, last = read_lists(tmp_path / "l.nbest", sources=tmp_path / "s")
    assert isinstance(bad, BadRecord)
    assert "l.nbest, line 2: segment 1, candidate 1: logprob nan" in str(bad.error)
    assert (texts(first), texts(last)) == (("x",), ("b",))
