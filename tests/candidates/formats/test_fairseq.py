"""The output of fairseq-generate and fairseq-interactive as candidate lists."""

from __future__ import annotations

import gzip
import math
import os
import threading
import tracemalloc
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest

from candidates import BadRecord, CandidateList, read_lists, write_lists
from candidates.common.errors import InputError

pytestmark = pytest.mark.one_world

GENERATE = """\
2021-04-24 17:20:46 | INFO | fairseq_cli.generate | loading model(s) from model.pt
S-2\tGuten Morgen .
T-2\tGood morning.
H-2\t-0.75\tGood m@@ orning .
D-2\t-0.75\tGood morning.
P-2\t-0.5000 -1.5000 -2.0000
A-2\t0-0 1-1 2-2
H-2\t-1.5\tMorning .
D-2\t-1.5\tMorning.
P-2\t-1.0000 -2.0000
E-2_0\tMorning
I-2\t3
S-0\tEin H@@ und .
T-0\tA dog.
H-0\t-0.1\tA dog .
D-0\t-0.1\tA dog.
P-0\t-0.2500
S-1\t
T-1\t
H-1\t-3.0\t
D-1\t-3.0\t
P-1\t-3.0000
2021-04-24 17:20:46 | INFO | fairseq_cli.generate | NOTE: hypothesis and token scores are output in base 2
Generate test with beam=5: BLEU4 = 33.39, 69.1/42.8/28.5/19.4 (BP=0.934, ratio=0.937, syslen=13, reflen=14)
"""
INTERACTIVE = """\
S-0\ta b
W-0\t0.158\tseconds
C-0\tx
H-0\t-0.5\tx y
P-0\t-0.5000 -0.5000
H-0\t-0.6\tz
S-1\tc
W-1\t0.158\tseconds
H-1\t-0.7\tw
"""


def read(path: Path, content: str | bytes, **options: object) -> list[CandidateList | BadRecord]:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return list(read_lists(path, format="fairseq", **options))  # type: ignore[arg-type]


def good(items: list[CandidateList | BadRecord]) -> list[CandidateList]:
    lists = [item for item in items if isinstance(item, CandidateList)]
    assert len(lists) == len(items), items
    return lists


def test_generate_output_comes_in_id_order_with_detokenised_texts_and_references(tmp_path: Path) -> None:
    lists = good(read(tmp_path / "out", GENERATE))
    assert [(item.id, item.source, item.texts, item.references) for item in lists] == [
        (0, "Ein H@@ und .", ("A dog.",), ("A dog.",)),
        (1, "", ("",), ("",)),
        (2, "Guten Morgen .", ("Good morning.", "Morning."), ("Good morning.",)),
    ]


def test_interactive_output_without_detokenised_lines_gives_the_hypotheses(tmp_path: Path) -> None:
    first, second = good(read(tmp_path / "out", INTERACTIVE))
    assert (first.source, first.texts, first.references) == ("a b", ("x y", "z"), ())
    assert first.logprobs == (pytest.approx(-math.log(2)), None)
    assert (second.texts, second.logprobs) == (("w",), None)


@pytest.mark.parametrize(
    ("scores", "logprob"),
    [
        ("-1.0000 -2.0000", math.log(1 / 8)),  # a token of probability 1/2, then one of 1/4
        ("-0.5000 -1.5000 -2.0000", -2.772588722239781),  # -4 ln 2
        ("0.0000", 0.0),
        # fairseq issue 1703: the score of H- was -0.9591023563900086 with the default length penalty
        ("-1.7602 -0.5362 -1.4817 -1.1891 -1.1348 -0.4620 -0.1497", 7 * -0.9591023563900086 * 0.6931471805599453),
    ],
)
def test_scores_of_tokens_in_base_2_add_up_to_the_natural_log_probability(
    tmp_path: Path, scores: str, logprob: float
) -> None:
    (item,) = good(read(tmp_path / "out", f"S-0\ts\nH-0\t-9\tx\nD-0\t-9\ty\nP-0\t{scores}\n"))
    assert item.logprobs == (pytest.approx(logprob, abs=1e-4),)


def test_without_token_scores_the_log_probability_is_unknown(tmp_path: Path) -> None:
    (item,) = good(read(tmp_path / "out", "S-0\ts\nH-0\t-9\tx\nD-0\t-9\ty\n"))
    assert (item.texts, item.logprobs) == (("y",), None)


def test_the_detokenised_text_belongs_to_the_hypothesis_before_it(tmp_path: Path) -> None:
    content = "S-0\ts\nH-0\t-1\ta@@ b\nP-0\t-1\nD-0\t-1\tab\nH-0\t-2\tc\nH-0\t-3\td@@ e\nD-0\t-3\tde\n"
    (item,) = good(read(tmp_path / "out", content))
    assert (item.texts, item.logprobs) == (("ab", "c", "de"), (pytest.approx(-math.log(2)), None, None))


def test_tabs_and_odd_line_breaks_inside_a_text_are_text(tmp_path: Path) -> None:
    (item,) = good(read(tmp_path / "out", "S-0\ta\tb\u2028\nH-0\t-1\tx\ty\r\n"))
    assert (item.source, item.texts) == ("a\tb\u2028", ("x\ty\r",))


def test_nbest_keeps_the_first_hypotheses(tmp_path: Path) -> None:
    assert [item.texts for item in good(read(tmp_path / "out", GENERATE, nbest=1))][2] == ("Good morning.",)


def test_equal_texts_of_a_beam_are_one_candidate(tmp_path: Path) -> None:
    (item,) = good(read(tmp_path / "out", "S-0\ts\nH-0\t-1\ta\nP-0\t-2\nH-0\t-1\ta\nP-0\t-1\n"))
    assert (item.texts, item.counts, item.logprobs) == (("a",), (2,), (pytest.approx(-math.log(2)),))


def test_a_file_of_sources_replaces_the_sources_and_shows_what_is_missing(tmp_path: Path) -> None:
    (tmp_path / "s").write_text("Ein Hund.\n\nGuten Morgen.\nNichts.\n")
    *lists, bad = read(tmp_path / "out", GENERATE, sources=tmp_path / "s")
    assert [item.source for item in good(lists)] == ["Ein Hund.", "", "Guten Morgen."]
    assert isinstance(bad, BadRecord)
    assert (bad.id, bad.source) == (3, "Nichts.")
    assert "segment 3 has no candidates" in str(bad.error)


def test_hypotheses_alone_are_enough_with_a_file_of_sources(tmp_path: Path) -> None:
    (tmp_path / "s").write_text("s\nt\nu\n")
    first, gap, last = read(tmp_path / "out", "H-2\t-1\tc\nH-0\t-1\ta\nH-0\t-2\tb\n", sources=tmp_path / "s")
    assert isinstance(gap, BadRecord)
    assert [(item.id, item.source, item.texts) for item in good([first, last])] == [
        (0, "s", ("a", "b")),
        (2, "u", ("c",)),
    ]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("S-0\ts\nH-0\t-1\ta\nS-3\tt\nH-3\t-1\tb\n", "line 3: id 3 has no source line in .*s, which ends before it"),
        ("H-2\t-1\ta\nH-4\t-1\tb\n", "line 1: id 2 has no source line"),
        ("", "no line begins with S-"),
    ],
)
def test_an_id_beyond_the_sources_is_an_error(tmp_path: Path, content: str, words: str) -> None:
    (tmp_path / "s").write_text("s\nt\n")
    with pytest.raises(InputError, match=words):
        read(tmp_path / "out", content, sources=tmp_path / "s")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("S-0\ts\nS-1\tt\nH-1\t-1\tb\n", "line 1: segment 0 has no candidates"),
        ("S-0\ts\nH-0\t-1\ta\nP-0\t-1 -inf\nS-1\tt\nH-1\t-1\tb\n", "line 1: segment 0, candidate 1: logprob -inf"),
        ("S-0\ts\nH-0\t-1\ta\nP-0\t-inf inf\nS-1\tt\nH-1\t-1\tb\n", "line 1: segment 0, candidate 1: logprob nan"),
    ],
)
def test_a_list_that_cannot_be_used_is_one_bad_record(tmp_path: Path, content: str, words: str) -> None:
    bad, item = read(tmp_path / "out", content)
    assert isinstance(bad, BadRecord)
    assert (bad.id, bad.source) == (0, "s")
    assert words in str(bad.error)
    assert good([item])[0].texts == ("b",)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("S-0\ts\nH-0\ta\n", "line 2: expected `H-<id><TAB><score><TAB><tokens>`, found 'H-0.*a'"),
        ("S-0\ts\nH-0\t-1\n", "line 2: expected `H-<id><TAB><score><TAB><tokens>`.*no text"),
        ("S-0\ts\nH-0\tlow\ta\n", "line 2: expected `H-.*'low'"),
        ("S-0\ts\nH-0\t-1\ta\nD-0\t\ta\n", "line 3: expected `D-<id><TAB><score><TAB><text>`"),
        ("S-0\ts\nH-0\t-1\ta\nP-0\t-1 x\n", "line 3: expected `P-<id><TAB><score of each token>`.*'x'"),
        ("S-0\ts\nH-0\t-1\ta\nP-0\t\n", "line 3: expected `P-.*no scores"),
        ("S-0 s\n", "line 1: expected `S-<id><TAB><source>`"),
        ("S-\ts\n", "line 1: expected `S-"),
        ("S--1\ts\n", "line 1: expected `S-"),
        ("S-٣\ts\n", "line 1: expected `S-"),
        ("S-" + "9" * 5000 + "\ts\n", "line 1: expected `S-"),
        ("T-x\tt\n", "line 1: expected `T-<id><TAB><reference>`"),
        ("S-0\ts\nD-0\t-1\ta\n", "line 2: D-0 without H-0 before it"),
        ("S-0\ts\nP-0\t-1\n", "line 2: P-0 without H-0 before it"),
        ("S-0\ts\nH-0\t-1\ta\nS-1\tt\nP-1\t-1\n", "line 4: P-1 without H-1"),
        ("S-0\ts\nH-0\t-1\ta\nD-0\t-1\ta\nD-0\t-1\tb\n", "line 4: a second D-0; expected one per hypothesis"),
        ("S-0\ts\nH-0\t-1\ta\nP-0\t-1\nP-0\t-1\n", "line 4: a second P-0; expected one per hypothesis"),
        ("S-0\ts\nH-0\t-1\ta\nS-0\ts\nH-0\t-1\ta\n", "line 3: a second S-0; expected one per id"),
        ("S-0\ts\nT-0\tr\nT-0\tr\n", "line 3: a second T-0; expected one per id"),
        ("S-0\ts\nH-0\t-1\ta\nS-1\tt\nH-1\t-1\tb\nH-0\t-1\tc\n", "line 5: id 0 comes again"),
        ("S-1\tt\nH-1\t-1\tb\nS-2\tu\nH-2\t-1\tc\nS-1\tt\n", "line 5: id 1 comes again"),
        ("S-0\ts\nH-0\t-1\ta\nH-1\t-1\tb\n", "line 3: id 1 has no S- line.*--sources"),
        ("S-0\ts\nH-0\t-1\ta\nS-2\tu\nH-2\t-1\tc\n", r"id 1 is missing, but id 2 is there \(line 3\).*--sources"),
        ("S-1\tt\nH-1\t-1\tb\n", "id 0 is missing"),
        ("Generate test with beam=5\n", "no line begins with S-"),
        ('{"source": "s", "candidates": ["a"]}\n', "expected the output of fairseq-generate"),
        ("", "no line begins with S-"),
    ],
)
def test_output_that_does_not_fit_is_an_error_that_names_the_line(tmp_path: Path, content: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        read(tmp_path / "out", content)


def test_bad_bytes_matter_in_texts_and_not_in_logging(tmp_path: Path) -> None:
    (item,) = good(read(tmp_path / "out", b"\xff logging\nS-0\ts\nH-0\t-1\ta\n"))
    assert item.texts == ("a",)
    with pytest.raises(InputError, match="line 2, byte 8: 0xff is not valid UTF-8"):
        read(tmp_path / "out", b"S-0\ts\nH-0\t-1\t\xff\n")


def test_gzip_and_a_byte_order_mark_are_read(tmp_path: Path) -> None:
    (item,) = good(read(tmp_path / "out.gz", gzip.compress(b"\xef\xbb\xbfS-0\ts\nH-0\t-1\ta\n")))
    assert item.texts == ("a",)


@pytest.mark.parametrize("name", ["l.jsonl", "l.tsv", "l.nbest"])
def test_lists_from_fairseq_go_round_through_the_other_formats(tmp_path: Path, name: str) -> None:
    lists = good(read(tmp_path / "out", GENERATE))
    sources = tmp_path / "sources" if name == "l.nbest" else None
    write_lists(tmp_path / name, lists, sources=sources)
    again = good(list(read_lists(tmp_path / name, sources=sources)))
    for before, after in zip(lists, again, strict=True):
        assert (after.source, after.texts, after.counts) == (before.source, before.texts, before.counts)
        assert after.logprobs == before.logprobs


def in_order(ids: int) -> Iterator[str]:
    for id in range(ids):
        yield f"S-{id}\tsource {id}\nH-{id}\t-1\ta {id}\nD-{id}\t-1\ta{id}\nP-{id}\t-1.0 -1.0\n"


def test_lists_come_while_fairseq_is_still_writing(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    go_on = threading.Event()
    answers: list[bool] = []

    def fairseq() -> None:
        with pipe.open("w") as stream:
            stream.writelines(in_order(3))
            stream.flush()
            answers.append(go_on.wait(10))
            stream.write("S-3\ts\nH-3\t-1\tlast\n")

    writer = threading.Thread(target=fairseq)
    writer.start()
    try:
        lists = read_lists(pipe, format="fairseq")
        # The third is complete only when a line of the fourth is there.
        assert [item.id for item in islice(lists, 2)] == [0, 1]
    finally:
        go_on.set()
    assert [item.id for item in lists] == [2, 3]
    writer.join()
    assert answers == [True]  # and not: gave up waiting, because the reader wanted the whole file


def test_twenty_thousand_ids_in_order_are_read_in_flat_memory(tmp_path: Path) -> None:
    path = tmp_path / "out"
    with path.open("w") as stream:
        stream.writelines(in_order(20_000))
        stream.write("S-oops\n")
    lists = read_lists(path, format="fairseq")
    tracemalloc.start()
    try:
        count = sum(1 for _ in islice(lists, 19_999))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert count == 19_999
    assert peak < 500_000  # the file has 1.2 million bytes
    with pytest.raises(InputError, match="line 80001: expected `S-"):
        next(lists)
